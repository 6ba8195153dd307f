package jobs

import (
	"sync"
	"time"
)

// slots run the claimed jobs of one queue, n at once. A slot that is done takes
// the next job from the buffer by itself, and waits when there is none. It keeps
// its goroutine: a new one for each job would grow its stack each time.
type slots struct {
	n     int
	nudge chan struct{} // a slot is free, or the buffer is half empty
	full  func() bool   // so many outcomes wait to be written that no job may start

	mu      sync.Mutex
	buffer  []*hold // claimed and not started, in the order of the claims
	running int
	idle    []chan *hold // waiting slots, the last one first
	low     bool         // the buffer is half empty, and the loop was told
	bytes   int          // of the payloads in the buffer
	size    int          // of a payload, in the last claim on average
	last    bool         // the last claim had jobs on their last attempt
	runTime average
	closed  bool
}

// state is what the loop decides by.
type state struct {
	running, buffered int
	ahead             int // how many more jobs than slots to claim
	bytes             int // of payloads that may be claimed ahead
	full              bool
	oldest            time.Time // when the first buffered job arrived
}

func newSlots(n int, full func() bool) *slots {
	return &slots{n: n, nudge: make(chan struct{}, 1), full: full}
}

// open lets jobs start, after a close too.
func (s *slots) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = false
}

func (s *slots) look() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state()
}

func (s *slots) state() state {
	st := state{running: s.running, buffered: len(s.buffer), ahead: s.ahead(), bytes: max(0, aheadBytes-s.bytes), full: s.full()}
	if st.buffered > 0 {
		st.oldest = s.buffer[0].arrived
	}
	return st
}

// What is claimed ahead has bounds, in jobs and in bytes of their payloads. With
// room for two claims, one is under way while the last one's jobs are run.
const (
	maxAhead   = 2000
	aheadBytes = 8 << 20
)

// ahead is how many more jobs than slots keep the slots busy for the time of two
// claims. A job on its last attempt is not claimed ahead: a kill would fail it for
// good though it has not begun.
func (s *slots) ahead() int {
	run := s.runTime.value()
	if run == 0 || run > 5*time.Millisecond || s.last || s.bytes >= aheadBytes {
		return 0
	}
	const round = 10 * time.Millisecond
	return min(int(time.Duration(s.n)*round/max(run, time.Microsecond)), maxAhead, aheadBytes/max(s.size, 1))
}

// add puts the jobs of a claim into the buffer.
func (s *slots) add(c claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buffer = append(s.buffer, c.holds...)
	for _, o := range c.holds {
		s.bytes += o.size()
	}
	if c.found > 0 {
		s.size, s.last = c.bytes/c.found, c.last
	}
}

// start starts buffered jobs in free slots.
func (s *slots) start(execute func(*hold)) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && s.running < s.n && len(s.buffer) > 0 && !s.full() {
		s.running++
		o := s.pop()
		if last := len(s.idle) - 1; last >= 0 {
			s.idle[last] <- o // there is room: it waits for one
			s.idle = s.idle[:last]
		} else {
			go s.work(execute, o)
		}
	}
	s.low = len(s.buffer) <= s.ahead()/2 // the loop knows now
	return s.state()
}

func (s *slots) pop() *hold {
	o := s.buffer[0]
	s.buffer[0] = nil // a hold keeps its payload
	s.buffer = s.buffer[1:]
	s.bytes -= o.size()
	return o
}

// work is a slot: it runs o, and one job after the other until the slots close.
func (s *slots) work(execute func(*hold), o *hold) {
	wait := make(chan *hold, 1)
	began := time.Now()
	defer func() {
		if o == nil {
			return
		}
		// A handler has ended the goroutine: the slot goes on in another.
		if o = s.next(time.Since(began), nil); o != nil {
			go s.work(execute, o)
		}
	}()
	for o != nil {
		execute(o)
		now := time.Now()
		if o = s.next(now.Sub(began), wait); o == nil {
			o = <-wait
			now = time.Now()
		}
		began = now
	}
}

// next ends a run that took d, and returns the slot's next job. If there is none
// now, the slot is handed one, or nil at the end, through wait.
func (s *slots) next(d time.Duration, wait chan *hold) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runTime.add(d)
	if !s.closed && len(s.buffer) > 0 && !s.full() {
		o := s.pop()
		if !s.low && len(s.buffer) <= s.ahead()/2 {
			s.low = true
			s.poke()
		}
		return o
	}
	s.running--
	s.poke()
	switch {
	case wait == nil:
	case s.closed:
		close(wait)
	default:
		s.idle = append(s.idle, wait)
	}
	return nil
}

func (s *slots) poke() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// impatient returns the buffered jobs that have waited for a slot for too long.
func (s *slots) impatient() []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.buffer) && time.Since(s.buffer[n].arrived) >= patience {
		n++
	}
	if n > 0 {
		// Jobs are not short any more: claim none ahead until some have been.
		s.runTime = average{patience}
	}
	return s.take(n)
}

// close starts no more jobs, and returns the buffered ones.
func (s *slots) close() []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, wait := range s.idle {
		close(wait)
	}
	s.idle = nil
	return s.take(len(s.buffer))
}

// take takes the first n jobs out of the buffer.
func (s *slots) take(n int) []*hold {
	holds := make([]*hold, n)
	for i := range holds {
		holds[i] = s.pop()
	}
	return holds
}

// average is a moving one of the last few dozen durations. One that is much longer
// than those before counts as four times the average: a busy machine takes the
// processor from some run now and then, for longer than a thousand others take.
type average struct{ v time.Duration }

func (a *average) add(d time.Duration) {
	if a.v == 0 {
		a.v = max(d, 1)
		return
	}
	a.v += (min(d, max(4*a.v, time.Microsecond)) - a.v) / 16
}

func (a *average) value() time.Duration { return a.v }
