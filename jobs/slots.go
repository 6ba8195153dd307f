package jobs

import (
	"slices"
	"sync"
	"time"
)

// slots run the claimed jobs of one queue, n at once. A slot that is done takes
// the next job from the buffer by itself, and waits when there is none. It keeps
// its goroutine: a new one for each job would grow its stack each time.
type slots struct {
	n     int
	nudge chan struct{} // a slot is free, or the buffer is half empty

	mu      sync.Mutex
	buffer  []*hold // claimed and not started
	running int
	idle    []chan *hold // waiting slots, the last one first
	moved   time.Time    // when the buffer was last taken from
	low     bool         // the buffer is half empty, and the loop was told
	size    int          // of a payload, in the last claim on average
	runTime average
	closed  bool
}

// state is what the loop decides by.
type state struct {
	running, buffered int
	ahead             int // how many more jobs than slots to claim
	moved             time.Time
}

func newSlots(n int) *slots { return &slots{n: n, nudge: make(chan struct{}, 1)} }

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
	return state{s.running, len(s.buffer), s.ahead(), s.moved}
}

// What is claimed ahead has bounds, in jobs and in bytes of their payloads. With
// room for two claims, one is under way while the last one's jobs are run.
const (
	maxAhead   = 2000
	aheadBytes = 8 << 20
)

// ahead is how many more jobs than slots keep the slots busy for the time of two
// claims.
func (s *slots) ahead() int {
	run := s.runTime.value()
	if run == 0 || run > 5*time.Millisecond {
		return 0
	}
	const round = 10 * time.Millisecond
	return min(int(time.Duration(s.n)*round/max(run, time.Microsecond)), maxAhead, aheadBytes/max(s.size, 1))
}

// add puts claimed jobs into the buffer.
func (s *slots) add(holds []*hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buffer) == 0 {
		s.moved = time.Now()
	}
	s.buffer = append(s.buffer, holds...)
	s.low = false
	if len(holds) > 0 {
		s.size = 0
		for _, o := range holds {
			s.size += len(o.job.Payload) + len(o.job.Metadata)
		}
		s.size /= len(holds)
	}
}

// start starts buffered jobs in free slots.
func (s *slots) start(execute func(*hold)) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && s.running < s.n && len(s.buffer) > 0 {
		s.running++
		o := s.pop()
		if last := len(s.idle) - 1; last >= 0 {
			s.idle[last] <- o // there is room: it waits for one
			s.idle = s.idle[:last]
		} else {
			go s.work(execute, o)
		}
	}
	return s.state()
}

func (s *slots) pop() *hold {
	o := s.buffer[0]
	s.buffer[0] = nil // a hold keeps its payload
	s.buffer = s.buffer[1:]
	s.moved = time.Now()
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
	if !s.closed && len(s.buffer) > 0 {
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

// impatient returns the buffered jobs if none of them has got a slot for too long.
func (s *slots) impatient() []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buffer) == 0 || time.Since(s.moved) < patience {
		return nil
	}
	// Jobs are not short any more: claim none ahead until some have been.
	s.runTime = average{patience}
	return s.empty()
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
	return s.empty()
}

func (s *slots) empty() []*hold {
	holds := slices.Clone(s.buffer)
	clear(s.buffer)
	s.buffer = nil
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
