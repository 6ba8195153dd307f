package jobs

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// recordBatch is how many outcomes, or renewals, one transaction writes.
const recordBatch = 1000

// recorder writes the outcomes and renews the leases of a worker, in one goroutine
// and with ascending ids, so that they never wait for one another. While a batch
// is being written, the next one gathers: no timer decides its size, and a lone
// outcome waits for nobody.
type recorder struct {
	w        *Worker
	arrived  chan struct{} // there is something in the inbox
	flush    chan chan struct{}
	trouble  trouble
	failures trouble
	refusal  trouble
	renewals trouble
	held     atomic.Int64 // outcomes handed in and not written yet

	mu    sync.Mutex
	inbox []*finished

	// Owned by run.
	waiting  []*finished
	retryAt  time.Time   // not before: the database is in trouble
	apart    []*finished // those that must not hold up the others
	apartAt  time.Time
	busyStep int
}

// maxHeld is how many outcomes may wait until no more jobs start: one batch that is
// written and one that gathers. What is not written is run again if the worker is
// killed.
const maxHeld = 2 * recordBatch

func (r *recorder) full() bool { return r.held.Load() >= maxHeld }

// finished is a run that has ended.
type finished struct {
	hold    *hold
	outcome outcome
	err     error               // of the handler
	done    func(recorded bool) // called once it is recorded or lost
}

func newRecorder(w *Worker) *recorder {
	log := w.config.Logger
	return &recorder{
		w: w, arrived: make(chan struct{}, 1), flush: make(chan chan struct{}),
		trouble:  trouble{log: log, what: "record outcomes"},
		failures: trouble{log: log, what: "record failed attempts"},
		refusal:  trouble{log: log, what: "record an outcome that the database refuses"},
		renewals: trouble{log: log, what: "renew leases"},
	}
}

// add hands a finished run in. It never blocks, so that nothing hangs at a
// shutdown without a database; it is full that bounds what is handed in.
func (r *recorder) add(f *finished) {
	r.held.Add(1)
	r.mu.Lock()
	r.inbox = append(r.inbox, f)
	r.mu.Unlock()
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

func (r *recorder) run(ctx context.Context) {
	renewal := time.NewTicker(r.w.config.Lease / 3)
	defer renewal.Stop()
	again := time.NewTimer(idle)
	defer again.Stop()
	var flushed chan struct{}
	for {
		if flushed != nil && r.gather() == 0 && len(r.apart) == 0 {
			close(flushed)
			flushed = nil
		}
		again.Reset(r.pause())
		arrived := r.arrived
		if time.Now().Before(r.retryAt) {
			arrived = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-renewal.C:
			r.renew(ctx)
		case <-arrived:
			r.write(ctx)
		case <-again.C:
			if !time.Now().Before(r.retryAt) {
				r.write(ctx)
			}
			if !time.Now().Before(r.apartAt) {
				r.writeApart(ctx)
			}
		case flushed = <-r.flush:
			// A shutdown has seconds: the pause may be most of them.
			r.retryAt, r.trouble.step = time.Time{}, 0
		}
	}
}

// pause is how long there is nothing to do unless something arrives.
func (r *recorder) pause() time.Duration {
	pause := idle
	if r.gather() > 0 {
		pause = time.Until(r.retryAt)
	}
	if len(r.apart) > 0 {
		pause = min(pause, time.Until(r.apartAt))
	}
	return max(0, pause)
}

// gather fills the next batch from the inbox and returns its size.
func (r *recorder) gather() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := min(recordBatch-len(r.waiting), len(r.inbox)); n > 0 {
		r.waiting = append(r.waiting, r.inbox[:n]...)
		r.inbox = slices.Delete(r.inbox, 0, n)
	}
	return len(r.waiting)
}

// drain waits until everything is written, for as long as limit.
func (r *recorder) drain(limit time.Duration) {
	flushed := make(chan struct{})
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case r.flush <- flushed:
		select {
		case <-flushed:
			return
		case <-t.C:
		}
	case <-t.C:
	}
	r.w.config.Logger.Warn("gormjobs: the last outcomes could not be recorded in time: their jobs are left to their lease")
}

// opTimeout leaves time for the next renewal when a statement hangs.
func (r *recorder) opTimeout() time.Duration { return max(r.w.config.Lease/3, 2*time.Second) }

// idle is a wait without an end in sight.
const idle = 24 * time.Hour

// renew extends the leases of all held jobs. Rows that somebody has locked are
// left for the next time; nobody can reap them either meanwhile.
func (r *recorder) renew(ctx context.Context) {
	all := r.w.holds.list()
	for len(all) > 0 {
		n := min(len(all), recordBatch)
		if err := r.renewSome(ctx, all[:n]); err != nil {
			r.renewals.pause(err)
			return
		}
		r.renewals.over()
		r.retryAt = time.Time{} // the database answers: outcomes wait no longer
		all = all[n:]
	}
}

func (r *recorder) renewSome(ctx context.Context, some []*hold) error {
	ctx, cancel := context.WithTimeout(ctx, r.opTimeout())
	defer cancel()
	batch := make([]*outcome, len(some))
	for i, o := range some {
		batch[i] = &outcome{id: o.job.ID, token: o.job.ReservedBy, verb: extend, after: r.w.config.Lease, index: i}
	}
	w, err := record(ctx, r.w.db, batch)
	if err != nil {
		return err
	}
	for _, o := range w.recorded {
		r.w.holds.renewed(some[o.index], w.began, r.w.config.Lease)
	}
	for _, o := range w.lost {
		held := some[o.index]
		if r.w.holds.lose(held) {
			r.w.config.Logger.Warn("gormjobs: the job is no longer this worker's: the handler's context ends", "job", held.job.ID, "type", held.job.Type)
		}
	}
	return nil
}
