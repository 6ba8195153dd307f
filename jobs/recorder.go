package jobs

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
)

// recordBatch is how many outcomes, or renewals, one transaction writes.
const recordBatch = 500

// recorder writes the outcomes and renews the leases of a worker, in one goroutine
// and with ascending ids, so that they never wait for one another. While a batch
// is being written, the next one gathers: no timer decides its size, and a lone
// outcome waits for nobody.
type recorder struct {
	w       *Worker
	in      chan *finished
	flush   chan chan struct{}
	trouble trouble

	// Owned by run.
	waiting  []*finished
	busyStep int
}

// finished is a run that has ended.
type finished struct {
	hold    *hold
	outcome outcome
	err     error               // of the handler
	done    func(recorded bool) // called once it is recorded or lost
}

func newRecorder(w *Worker) *recorder {
	return &recorder{
		w: w, in: make(chan *finished, 4*recordBatch), flush: make(chan chan struct{}),
		trouble: trouble{log: w.config.Logger, what: "record outcomes"},
	}
}

func (r *recorder) run(ctx context.Context) {
	renewal := time.NewTicker(r.w.config.Lease / 3)
	defer renewal.Stop()
	again := time.NewTimer(0) // when a batch that failed, or busy rows, are tried again
	<-again.C
	var flushed chan struct{}
	for {
		in := r.in
		if len(r.waiting) >= recordBatch {
			in = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-renewal.C:
			r.renew(ctx)
		case f := <-in:
			r.waiting = append(r.waiting, f)
			r.gather()
			again.Reset(r.write(ctx))
		case <-again.C:
			r.gather()
			again.Reset(r.write(ctx))
		case flushed = <-r.flush:
		}
		if flushed != nil && len(r.waiting) == 0 && len(r.in) == 0 {
			close(flushed)
			flushed = nil
		}
	}
}

func (r *recorder) gather() {
	for len(r.waiting) < recordBatch {
		select {
		case f := <-r.in:
			r.waiting = append(r.waiting, f)
		default:
			return
		}
	}
}

// drain waits until everything is written, for as long as limit.
func (r *recorder) drain(limit time.Duration) {
	flushed := make(chan struct{})
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case r.flush <- flushed:
	case <-t.C:
		return
	}
	select {
	case <-flushed:
	case <-t.C:
		r.w.config.Logger.Warn("gormjobs: the last outcomes could not be recorded in time: their jobs are left to their lease")
	}
}

// opTimeout leaves time for the next renewal when a statement hangs.
func (r *recorder) opTimeout() time.Duration { return max(r.w.config.Lease/3, 2*time.Second) }

// idle is a wait without an end in sight.
const idle = 24 * time.Hour

// write writes what is waiting and returns when to come back for what is left.
func (r *recorder) write(ctx context.Context) (next time.Duration) {
	if len(r.waiting) == 0 {
		return idle
	}
	batch := r.waiting
	r.waiting = nil
	err := r.writeBatch(ctx, batch)
	if err != nil && len(batch) > 1 && !dialect.Retryable(err) && !dialect.Unknown(err) {
		// The database has said no: one outcome must not hold up the others.
		r.waiting, err = nil, nil
		for _, f := range batch {
			err = errors.Join(err, r.writeBatch(ctx, []*finished{f}))
		}
	}
	if err != nil {
		return r.trouble.pause(err)
	}
	r.trouble.over()
	if len(r.waiting) == 0 {
		r.busyStep = 0
		return idle
	}
	r.busyStep++
	return min(10*time.Millisecond<<min(r.busyStep, 10), time.Second)
}

// writeBatch writes the outcomes of batch in one transaction. Those that could not
// be written are waiting afterwards.
func (r *recorder) writeBatch(ctx context.Context, batch []*finished) error {
	outcomes := make([]outcome, len(batch))
	byFence := make(map[fenceKey]*finished, len(batch))
	for i, f := range batch {
		outcomes[i] = f.outcome
		byFence[f.outcome.fence()] = f
	}
	ctx, cancel := context.WithTimeout(ctx, r.opTimeout())
	defer cancel()
	var w written
	err := session.Transaction(ctx, r.w.db, func(tx *gorm.DB) (err error) {
		w, err = record(tx, outcomes)
		return err
	})
	if err != nil {
		for _, f := range batch {
			f.outcome.again = true
		}
		r.waiting = append(r.waiting, batch...)
		return err
	}
	for _, i := range w.recorded {
		r.w.ended(byFence[outcomes[i].fence()], true)
	}
	for _, i := range w.lost {
		r.w.ended(byFence[outcomes[i].fence()], false)
	}
	for _, i := range w.busy {
		r.waiting = append(r.waiting, byFence[outcomes[i].fence()])
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
			r.trouble.pause(err)
			return
		}
		all = all[n:]
	}
}

func (r *recorder) renewSome(ctx context.Context, some []*hold) error {
	ctx, cancel := context.WithTimeout(ctx, r.opTimeout())
	defer cancel()
	batch := make([]outcome, len(some))
	byFence := make(map[fenceKey]*hold, len(some))
	for i, o := range some {
		batch[i] = outcome{id: o.job.ID, token: o.job.ReservedBy, verb: extend, after: r.w.config.Lease}
		byFence[batch[i].fence()] = o
	}
	sent := time.Now()
	var w written
	err := session.Transaction(ctx, r.w.db, func(tx *gorm.DB) (err error) {
		sent = time.Now()
		w, err = record(tx, batch)
		return err
	})
	if err != nil {
		return err
	}
	for _, i := range w.recorded {
		r.w.holds.renewed(byFence[batch[i].fence()], sent, r.w.config.Lease)
	}
	for _, i := range w.lost {
		o := byFence[batch[i].fence()]
		if r.w.holds.lose(o) {
			r.w.config.Logger.Warn("gormjobs: the job is no longer this worker's: the handler's context ends", "job", o.job.ID, "type", o.job.Type)
		}
	}
	return nil
}
