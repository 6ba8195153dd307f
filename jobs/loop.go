package jobs

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// queueLoop runs the jobs of one queue. Its goroutine owns the state below; runs
// and claims report back by channel. A claim takes as many jobs as there are free
// slots and, when jobs are shorter than a round trip, a few ahead. After a full
// claim the next starts at once.
type queueLoop struct {
	w       *Worker
	queue   string
	slots   int
	claimer *Claimer
	wake    chan struct{}
	waiting atomic.Bool // free slots and nothing known to claim: read by the lookout

	running  int
	buffer   []*hold // claimed and not started
	buffered time.Time
	hungry   bool // there may be more to claim
	claiming bool
	asked    int
	woken    bool // while claiming
	runTime  average
	claimed  chan claim
	ended    chan time.Duration
	trouble  trouble
	retryAt  time.Time // no claim before: the last one failed
}

type claim struct {
	holds []*hold
	err   error
}

func newQueueLoop(w *Worker, queue string, slots int, c *Claimer) *queueLoop {
	return &queueLoop{
		w: w, queue: queue, slots: slots, claimer: c, hungry: true,
		wake: make(chan struct{}, 1), claimed: make(chan claim, 1), ended: make(chan time.Duration, slots),
		trouble: trouble{log: w.config.Logger, what: "claim from " + queue},
	}
}

// Wake says that there may be jobs to claim.
func (l *queueLoop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// patience is how long a claimed job waits for a slot before others may have it.
const patience = time.Second

// run works until ctx ends and its jobs have, or until abandoned is closed.
func (l *queueLoop) run(ctx context.Context, abandoned <-chan struct{}) {
	claims, cancelClaims := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelClaims()
	tick := time.NewTimer(idle) // a claim after trouble, or the end of patience
	defer tick.Stop()
	stop := ctx.Done()
	for {
		if ctx.Err() != nil { // before the select, which picks any that is ready
			stop = nil
			l.releaseBuffer()
			if l.running == 0 && !l.claiming {
				return
			}
			tick.Stop()
		} else {
			l.startBuffered()
			if l.hungry && l.want() > 0 && !time.Now().Before(l.retryAt) {
				l.claim(claims)
			}
			l.rest()
			tick.Reset(l.pause())
		}
		select {
		case <-stop:
		case <-abandoned:
			return
		case <-l.wake:
			l.hungry, l.woken = true, true
		case c := <-l.claimed:
			l.take(c)
		case <-tick.C:
			if len(l.buffer) > 0 && time.Since(l.buffered) >= patience {
				l.releaseBuffer()
				// Jobs are not short any more: claim none ahead until some have been.
				l.runTime = average{patience}
			}
		case d := <-l.ended:
			l.running--
			l.runTime.add(d)
		}
	}
}

// rest tells the lookout when it begins that slots are free and there is nothing
// known to claim. While none rests, the lookout looks seldom.
func (l *queueLoop) rest() {
	waiting := !l.hungry && !l.claiming && l.running < l.slots
	if l.waiting.Swap(waiting) != waiting && waiting {
		select {
		case l.w.rested <- struct{}{}:
		default:
		}
	}
}

// pause is how long the loop has nothing to do unless it is told something.
func (l *queueLoop) pause() time.Duration {
	pause := idle
	if l.hungry && l.want() > 0 {
		pause = time.Until(l.retryAt)
	}
	if len(l.buffer) > 0 {
		pause = min(pause, time.Until(l.buffered.Add(patience)))
	}
	return max(0, pause)
}

// want is how many jobs to claim now: none while a claim is on its way or the
// buffer is well filled.
func (l *queueLoop) want() int {
	ahead := l.ahead()
	if l.claiming || len(l.buffer) > ahead/2 {
		return 0
	}
	return min(l.slots-l.running-len(l.buffer)+ahead, maxClaim)
}

// maxClaim bounds a claim, and with it what a worker holds in memory.
const maxClaim = 500

// ahead is how many more jobs than slots keep the slots busy for the time of two
// claims.
func (l *queueLoop) ahead() int {
	run := l.runTime.value()
	if run == 0 || run > 5*time.Millisecond {
		return 0
	}
	const round = 10 * time.Millisecond
	return min(int(time.Duration(l.slots)*round/max(run, time.Microsecond)), maxClaim)
}

func (l *queueLoop) claim(ctx context.Context) {
	l.claiming, l.woken, l.asked = true, false, l.want()
	n := l.asked
	go func() { l.claimed <- l.claimNow(ctx, n) }()
}

func (l *queueLoop) claimNow(ctx context.Context, n int) claim {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	jobs, began, err := l.claimer.claim(ctx, n)
	return claim{l.w.holds.add(jobs, began, l.w.config.Lease), err}
}

// take takes a claim's jobs in.
func (l *queueLoop) take(c claim) {
	l.claiming = false
	if c.err != nil {
		l.retryAt = time.Now().Add(l.trouble.pause(c.err))
		return // still hungry
	}
	l.trouble.over()
	if len(l.buffer) == 0 {
		l.buffered = time.Now()
	}
	l.buffer = append(l.buffer, c.holds...)
	l.hungry = len(c.holds) == l.asked || l.woken
}

func (l *queueLoop) startBuffered() {
	n := 0
	for ; n < len(l.buffer) && l.running < l.slots; n++ {
		l.start(l.buffer[n])
	}
	if n > 0 {
		l.buffer = slices.Delete(l.buffer, 0, n)
		l.buffered = time.Now()
	}
}

func (l *queueLoop) start(o *hold) {
	l.running++
	go func() {
		began := time.Now()
		l.w.execute(o, func(bool) {})
		l.ended <- time.Since(began)
	}()
}

// releaseBuffer puts back what was claimed and not started.
func (l *queueLoop) releaseBuffer() {
	for _, o := range l.buffer {
		l.w.releaseUnstarted(o)
	}
	clear(l.buffer) // a hold keeps its payload
	l.buffer = l.buffer[:0]
}

func (w *Worker) releaseUnstarted(o *hold) {
	out := outcomeOf(&o.job, release)
	out.keepPlace = true
	w.recorder.add(&finished{hold: o, outcome: out, done: func(bool) {}})
}

// drainOnce runs what can be claimed now and returns how many runs that were.
func (l *queueLoop) drainOnce(ctx context.Context) (int, error) {
	total := 0
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		c := l.claimNow(context.WithoutCancel(ctx), l.slots)
		if c.err != nil {
			return total, c.err
		}
		if len(c.holds) == 0 {
			return total, nil
		}
		var left atomic.Int64
		left.Store(int64(len(c.holds)))
		recorded := make(chan struct{})
		for _, o := range c.holds {
			if _, known := l.w.registry.Lookup(o.job.Type); known {
				total++
			}
			go l.w.execute(o, func(bool) {
				if left.Add(-1) == 0 {
					close(recorded)
				}
			})
		}
		if err := l.w.awaitRuns(ctx, recorded); err != nil {
			return total, err
		}
	}
}

// awaitRuns waits until the runs are recorded; when ctx ends, no longer than Run
// does.
func (w *Worker) awaitRuns(ctx context.Context, recorded <-chan struct{}) error {
	select {
	case <-recorded:
		return nil
	case <-ctx.Done():
	}
	w.await(recorded, make(chan struct{}))
	if left := w.holds.handlersLeft(); len(left) > 0 {
		return errors.Join(ctx.Err(), &StuckError{Jobs: left})
	}
	return ctx.Err()
}

// average is a moving one of the last few dozen durations.
type average struct{ v time.Duration }

func (a *average) add(d time.Duration) {
	if a.v == 0 {
		a.v = max(d, 1)
		return
	}
	a.v += (d - a.v) / 16
}

func (a *average) value() time.Duration { return a.v }
