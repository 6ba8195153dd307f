package jobs

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gormjobs/gormjobs/internal/dialect"
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

// write writes what is waiting. After an error of the database it is tried again
// at retryAt, and what arrives meanwhile gathers.
func (r *recorder) write(ctx context.Context) {
	r.gather()
	batch := r.waiting
	r.waiting = nil
	if len(batch) == 0 {
		return
	}
	plain, failed := byFailure(batch)
	if len(plain) > 0 && r.failures.step > 0 {
		r.apart, failed = append(r.apart, failed...), nil // they wait for the others' turn
	}
	w := r.writeParts(ctx, plain, failed)
	if len(plain) == 0 {
		w.unknown, w.failures = w.failures, nil
	}
	r.waiting = w.unknown
	r.keepApart(w)
	if len(w.unknown) > 0 {
		r.retryAt = time.Now().Add(r.trouble.pause(w.err))
		return
	}
	r.trouble.over()
}

// writeApart tries again what somebody else had locked, or the database refused.
func (r *recorder) writeApart(ctx context.Context) {
	n := min(len(r.apart), recordBatch)
	if n == 0 {
		return
	}
	batch := slices.Clone(r.apart[:n])
	r.apart = slices.Delete(r.apart, 0, n)
	plain, failed := byFailure(batch)
	w := r.writeParts(ctx, plain, failed)
	r.keepApart(w)
	if len(w.unknown) > 0 {
		pause := r.trouble.pause(w.err)
		r.retryAt = time.Now().Add(pause)
		r.setApart(w.unknown, pause)
		return
	}
	if len(r.apart) == 0 {
		r.busyStep = 0
		r.refusal.over()
		r.failures.over()
	}
}

// parts is what could not be written of a batch.
type parts struct {
	unknown  []*finished // the database said nothing
	failures []*finished // it wrote the others, or was not asked for them, and said nothing to these
	refused  []*finished // it said no
	err      error
}

func (r *recorder) keepApart(w parts) {
	if len(w.refused) > 0 {
		r.setApart(w.refused, r.refusal.pause(w.err))
	}
	if len(w.failures) > 0 {
		r.setApart(w.failures, r.failures.pause(w.err))
	}
}

func byFailure(batch []*finished) (plain, failed []*finished) {
	for _, f := range batch {
		if f.outcome.failure == nil {
			plain = append(plain, f)
		} else {
			failed = append(failed, f)
		}
	}
	return plain, failed
}

// writeParts writes what has no failure first: somebody who has locked the table of
// failures, as a CREATE INDEX does, holds up those that have one and no others.
func (r *recorder) writeParts(ctx context.Context, plain, failed []*finished) (w parts) {
	if len(plain) > 0 {
		if w.unknown, w.refused, w.err = r.writeAll(ctx, plain); len(w.unknown) > 0 {
			w.unknown = append(w.unknown, failed...)
			return w
		}
	}
	if len(failed) > 0 {
		unknown, refused, err := r.writeAll(ctx, failed)
		w.failures, w.refused = unknown, append(w.refused, refused...)
		if err != nil {
			w.err = err
		}
	}
	return w
}

// setApart keeps outcomes apart, to be tried again after pause.
func (r *recorder) setApart(some []*finished, pause time.Duration) {
	r.apart = append(r.apart, some...)
	r.apartAt = time.Now().Add(pause)
}

// writeAll writes a batch. unknown are those of which the database has said
// nothing, refused those to which it has said no: one such outcome must not hold
// up the others, so each is then tried by itself.
func (r *recorder) writeAll(ctx context.Context, batch []*finished) (unknown, refused []*finished, err error) {
	err = r.writeBatch(ctx, batch)
	switch {
	case err == nil:
		return nil, nil, nil
	case dialect.Retryable(err) || dialect.Unknown(err):
		return batch, nil, err
	case len(batch) == 1:
		return nil, batch, err
	}
	err = nil
	for i := range batch {
		u, no, oneErr := r.writeAll(ctx, batch[i:i+1])
		refused = append(refused, no...)
		if oneErr != nil {
			err = oneErr
		}
		if len(u) > 0 {
			return batch[i:], refused, err
		}
	}
	return nil, refused, err
}

// writeBatch writes the outcomes of batch in one transaction, or none. Those whose
// rows somebody else has locked are kept apart.
func (r *recorder) writeBatch(ctx context.Context, batch []*finished) error {
	outcomes := make([]*outcome, len(batch))
	for i, f := range batch {
		f.outcome.index = i
		outcomes[i] = &f.outcome
	}
	ctx, cancel := context.WithTimeout(ctx, r.opTimeout())
	defer cancel()
	w, err := record(ctx, r.w.db, outcomes)
	if err != nil {
		for _, f := range batch {
			f.outcome.again = true
		}
		return err
	}
	for _, o := range w.recorded {
		r.w.ended(batch[o.index], true)
	}
	for _, o := range w.lost {
		r.w.ended(batch[o.index], false)
	}
	n := int64(len(w.recorded) + len(w.lost))
	if left := r.held.Add(-n); left < maxHeld && left+n >= maxHeld {
		for _, l := range r.w.loops {
			l.slots.poke()
		}
	}
	if len(w.busy) > 0 {
		busy := make([]*finished, len(w.busy))
		for n, o := range w.busy {
			busy[n] = batch[o.index]
		}
		r.busyStep++
		r.setApart(busy, min(10*time.Millisecond<<min(r.busyStep, 10), time.Second))
	}
	return nil
}

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
