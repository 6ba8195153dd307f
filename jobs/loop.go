package jobs

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gormjobs/gormjobs/internal/dialect"
)

// queueLoop runs the jobs of one queue. Its goroutine owns the state below; the
// slots nudge it, and claims report back by channel. A claim takes as many jobs as
// there are free slots and, when jobs are shorter than a round trip, a few ahead.
// After a full claim the next starts at once.
type queueLoop struct {
	w       *Worker
	queue   string
	claimer *Claimer
	slots   *slots
	wake    chan struct{}
	waiting atomic.Bool // free slots and nothing known to claim: read by the lookout

	hungry   bool // there may be more to claim
	plenty   bool // the last claim got many jobs
	claiming bool
	woken    bool // while claiming
	claimed  chan claim
	trouble  trouble
	retryAt  time.Time // no claim before: the last one failed
}

type claim struct {
	holds []*hold
	found int  // with those that were not kept
	all   bool // as many as were asked for: there may be more
	bytes int  // of their payloads
	last  bool // some are on their last attempt
	err   error
}

func newQueueLoop(w *Worker, queue string, slots int, c *Claimer) *queueLoop {
	return &queueLoop{
		w: w, queue: queue, claimer: c, slots: newSlots(slots, w.recorder.full), hungry: true,
		wake: make(chan struct{}, 1), claimed: make(chan claim, 1),
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

// patience is how long a claimed job waits for a slot before others may have it, and
// before a job of a better priority that came later.
const patience = time.Second

// run works until ctx ends and its jobs have, or until abandoned is closed.
func (l *queueLoop) run(ctx context.Context, abandoned <-chan struct{}) {
	claims, cancelClaims := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelClaims()
	l.slots.open()
	execute := func(o *hold) { l.w.execute(o, func(bool) {}) }
	tick := time.NewTimer(idle) // a claim after trouble, or the end of patience
	defer tick.Stop()
	stop := ctx.Done()
	for {
		var now state
		if ctx.Err() != nil { // before the select, which picks any that is ready
			stop = nil
			l.release(l.slots.close())
			if l.slots.look().running == 0 && !l.claiming {
				return
			}
			tick.Stop()
		} else {
			now = l.slots.start(execute)
			if n := l.want(now); l.hungry && n > 0 && !time.Now().Before(l.retryAt) {
				l.claim(claims, asked{limit: n, many: l.plenty, free: l.slots.n - now.running - now.buffered, bytes: now.bytes})
			}
			l.rest(now)
			tick.Reset(l.pause(now))
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
			l.release(l.slots.impatient())
		case <-l.slots.nudge:
		}
	}
}

// rest tells the lookout when it begins that slots are free and there is nothing
// known to claim. While none rests, the lookout looks seldom.
func (l *queueLoop) rest(now state) {
	waiting := !l.hungry && !l.claiming && now.running < l.slots.n
	if l.waiting.Swap(waiting) != waiting && waiting {
		select {
		case l.w.rested <- struct{}{}:
		default:
		}
	}
}

// pause is how long the loop has nothing to do unless it is told something.
func (l *queueLoop) pause(now state) time.Duration {
	pause := idle
	if l.hungry && l.want(now) > 0 {
		pause = time.Until(l.retryAt)
	}
	if now.buffered > 0 {
		pause = min(pause, time.Until(now.oldest.Add(patience)))
	}
	return max(0, pause)
}

// want is how many jobs to claim now: none while a claim is on its way, the buffer
// is well filled, or no job may start.
func (l *queueLoop) want(now state) int {
	if l.claiming || now.full || now.buffered > now.ahead/2 {
		return 0
	}
	most := dialect.Many
	if l.plenty {
		most = maxClaim
	}
	return min(l.slots.n-now.running-now.buffered+now.ahead, most)
}

// maxClaim bounds a claim: one transaction with its locks and its answer. Each has its
// round trips, so short jobs drain slower with fewer. More than dialect.Many are asked
// for only after a claim that has got as many, in a statement that expects them.
const maxClaim = 1000

func (l *queueLoop) claim(ctx context.Context, a asked) {
	l.claiming, l.woken = true, false
	go func() { l.claimed <- l.claimNow(ctx, a) }()
}

func (l *queueLoop) claimNow(ctx context.Context, a asked) claim {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	t, err := l.claimer.claim(ctx, a)
	found := len(t.jobs) + len(t.over)
	return claim{
		holds: l.w.holds.add(t.jobs, t.began, l.w.config.Lease),
		found: found, all: found == a.limit, bytes: t.bytes, last: t.last, err: err,
	}
}

// take takes a claim's jobs in.
func (l *queueLoop) take(c claim) {
	l.claiming = false
	if c.err != nil {
		l.retryAt = time.Now().Add(l.trouble.pause(c.err))
		return // still hungry
	}
	l.trouble.over()
	l.slots.add(c)
	l.hungry = c.all || l.woken
	l.plenty = c.found >= dialect.Many
}

// release puts back what was claimed and not started.
func (l *queueLoop) release(holds []*hold) {
	for _, o := range holds {
		l.w.releaseUnstarted(o)
	}
}

func (w *Worker) releaseUnstarted(o *hold) {
	out := outcomeOf(o.job, release)
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
		c := l.claimNow(context.WithoutCancel(ctx), asked{limit: l.slots.n, many: l.plenty, free: l.slots.n})
		if c.err != nil {
			return total, c.err
		}
		if len(c.holds) == 0 {
			return total, nil
		}
		l.plenty = c.found >= dialect.Many
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
