package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// execute runs a held job and hands its outcome to the recorder. done is called
// once that is recorded, or lost. What follows the handler is deferred: a handler
// may end its goroutine, and one of its own for every job costs more than most.
func (w *Worker) execute(o *hold, done func(recorded bool)) {
	f := &finished{hold: o, done: done}
	defer func() {
		if f.outcome.committed {
			// Nothing is left to record. A server that crashes and has lost the commit, or
			// a replica that never had it, must run the job again: written now, the
			// completion would be there without the handler's writes.
			w.ended(f, true)
			return
		}
		if f.outcome.verb == complete {
			o.job.Payload, o.job.Metadata = "", "" // not kept while outcomes wait
		}
		w.recorder.add(f)
	}()
	if h, ok := w.registry.Lookup(o.job.Type); ok {
		w.handle(o, h, f)
	} else {
		f.outcome = w.park(o)
	}
}

// park puts a job back whose type has no handler here, uncounted and in its place:
// a rolling deploy burns no attempts, and a worker that knows it gets it.
func (w *Worker) park(o *hold) outcome {
	if _, said := w.unknown.LoadOrStore(o.job.Type, true); !said {
		w.config.Logger.Warn("gormjobs: no handler is registered for this type: its jobs are put back for another worker", "type", o.job.Type, "job", o.job.ID, "for", parked)
	}
	r := outcomeOf(o.job, release)
	r.after, r.keepPlace = parked, true
	return r
}

// handle runs the handler and turns what came of it into f's outcome.
func (w *Worker) handle(o *hold, h *handlers.Handler, f *finished) {
	life := newLife()
	defer life.giveBack()
	var ctx context.Context
	var stop context.CancelFunc
	if d := h.Timeout(); d <= 0 {
		ctx, stop = context.WithCancel(life)
	} else {
		ctx, stop = context.WithTimeoutCause(life, d, timedOut(d))
		deaf := time.AfterFunc(d+shutdownGrace, func() {
			w.counters.stuck.Add(1)
			w.config.Logger.Warn("gormjobs: a handler goes on past its timeout: it must heed its context", "type", o.job.Type, "job", o.job.ID, "timeout", d)
		})
		defer deaf.Stop()
	}
	defer stop()
	if !w.holds.begin(o, life.end) {
		f.outcome = outcomeOf(o.job, release)
		f.outcome.keepPlace = true
		return
	}
	defer w.holds.end(o)
	var r result
	defer func() {
		if r.err != nil && ctx.Err() != nil && isDeadline(r.err) {
			r.err = fmt.Errorf("%w (%w)", context.Cause(ctx), r.err)
		}
		f.outcome, f.err = w.outcome(ctx, o, h, r), r.err
	}()
	job := *o.job // the handler's own copy
	if h.Transactional() {
		w.runTx(ctx, h, &job, &r)
	} else {
		guard(&r, func() error { return h.Run(ctx, &job) })
	}
}

// timedOut is the cause of a context that has lasted so long.
type timedOut time.Duration

func (d timedOut) Error() string {
	return fmt.Sprintf("timed out after %s: %v", time.Duration(d), context.DeadlineExceeded)
}

func (timedOut) Unwrap() error { return context.DeadlineExceeded }

// result is how a handler returned.
type result struct {
	err   error
	stack string // if it panicked
	done  bool   // its completion is committed already, with its writes
	maybe bool   // that commit's answer was lost
}

// guard runs f and puts how it returned into r. A panic is an error with a stack;
// so is a runtime.Goexit, after which only deferred calls still happen.
func guard(r *result, f func() error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		r.stack = string(debug.Stack())
		if v := recover(); v == nil {
			r.err = errors.New("the handler called runtime.Goexit")
		} else if err, ok := v.(error); ok {
			r.err = fmt.Errorf("panic: %w", err)
		} else {
			r.err = fmt.Errorf("panic: %v", v)
		}
	}()
	r.err = f()
	returned = true
}

// protect is guard on a goroutine of its own, so that it returns after a Goexit
// too.
func protect(f func() error) (r result) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		guard(&r, f)
	}()
	<-ended
	return r
}

// outcome decides what becomes of the job.
func (w *Worker) outcome(ctx context.Context, o *hold, h *handlers.Handler, r result) outcome {
	out := outcomeOf(o.job, complete)
	out.committed, out.again = r.done, r.maybe
	v := judge(r.err)
	switch {
	case r.err == nil:
	case v.Snooze:
		out.verb, out.after = release, v.After
	case errors.Is(context.Cause(ctx), errShutdown) && !v.Discard:
		out.verb, out.keepPlace = release, true
	default:
		out.verb = retry
		out.failure = failureOf(o.job, r.err, r.stack)
		switch {
		case v.Discard || o.job.Attempts >= o.job.MaxAttempts:
			out.verb = fail
		case v.HasAfter:
			out.after = v.After
		default:
			out.after = backoff(h, o.job.Attempts)
		}
	}
	return out
}

// The error and the backoff are the application's code too, and may panic: an
// error that is a nil pointer does so in Unwrap.

func judge(err error) (v handlers.Verdict) {
	if err == nil {
		return v
	}
	if r := protect(func() error { v = handlers.Judge(err); return nil }); r.err != nil {
		return handlers.Verdict{Err: err}
	}
	return v
}

func isDeadline(err error) (yes bool) {
	protect(func() error { yes = errors.Is(err, context.DeadlineExceeded); return nil })
	return yes
}

func backoff(h *handlers.Handler, attempt int) (d time.Duration) {
	if r := protect(func() error { d = h.Backoff(attempt); return nil }); r.err != nil {
		return handlers.DefaultBackoff(attempt)
	}
	return d
}

// runTx runs a handler whose writes commit with its job's completion.
func (w *Worker) runTx(ctx context.Context, h *handlers.Handler, job *models.Job, r *result) {
	tx := w.db.Session(&gorm.Session{NewDB: true, Context: ctx}).Begin(session.Options(w.db)...)
	if tx.Error != nil {
		r.err = fmt.Errorf("begin the handler's transaction: %w", tx.Error)
		return
	}
	ours := tx.Statement.ConnPool.(gorm.TxCommitter)
	ended := false
	defer func() {
		if !ended {
			_ = ours.Rollback() // its connection is gone or the server rolls it back
		}
	}()
	theirs := tx.Session(&gorm.Session{NewDB: true})
	theirs.Statement.ConnPool = lend(tx.Statement.ConnPool)
	if guard(r, func() error { return h.RunTx(ctx, theirs, job) }); r.err != nil {
		return
	}
	if r.err = Complete(ctx, tx, job); r.err != nil {
		return
	}
	ended = true
	if err := ours.Commit(); err != nil {
		r.err, r.maybe = fmt.Errorf("commit the handler's transaction: %w", err), true
		return
	}
	r.done = true
}

// errLent is what a RegisterTx handler gets that ends its transaction.
var errLent = errors.New("gormjobs: this transaction commits with the job's completion; return an error to roll it back")

// lent is a transaction that its user cannot end. It is used by pointer: GORM asks
// of every committer whether it is nil.
type lent struct{ gorm.Tx }

func (*lent) Commit() error   { return errLent }
func (*lent) Rollback() error { return errLent }

// lend keeps the type of a transaction with PrepareStmt, which GORM looks for:
// MySQL cannot prepare a SAVEPOINT.
func lend(tx gorm.ConnPool) gorm.ConnPool {
	if p, ok := tx.(*gorm.PreparedStmtTX); ok {
		return &gorm.PreparedStmtTX{Tx: &lent{p.Tx}, PreparedStmtDB: p.PreparedStmtDB}
	}
	if t, ok := tx.(gorm.Tx); ok {
		return &lent{t}
	}
	return &lentPool{tx}
}

// lentPool is lent for a pool of the application's own, which has no Stmt method.
type lentPool struct{ gorm.ConnPool }

func (*lentPool) Commit() error   { return errLent }
func (*lentPool) Rollback() error { return errLent }

// onFailedLimit is what a call of OnFailed gets, at a shutdown too.
const onFailedLimit = 10 * time.Second

// ended takes note of an outcome that has been recorded, or lost.
func (w *Worker) ended(f *finished, recorded bool) {
	w.holds.remove(f.hold)
	defer f.done(recorded)
	job := f.hold.job
	if !recorded {
		w.counters.lost.Add(1)
		w.config.Logger.Warn("gormjobs: the outcome of a run was dropped: the job is someone else's by now", "job", job.ID, "type", job.Type, "attempt", job.Attempts)
		return
	}
	switch f.outcome.verb {
	case complete:
		w.counters.completed.Add(1)
	case release:
		w.counters.released.Add(1)
	case retry:
		w.counters.retried.Add(1)
	case fail:
		w.counters.failed.Add(1)
		w.config.Logger.Warn("gormjobs: a job has failed for good", "job", job.ID, "type", job.Type, "queue", job.Queue, "attempts", job.Attempts, "error", clean(errorText(f.err), 1000))
		if w.config.OnFailed != nil {
			w.calls.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), onFailedLimit)
				defer cancel()
				r := protect(func() error { w.config.OnFailed(ctx, job, f.err); return nil })
				if r.err != nil {
					w.config.Logger.Error("gormjobs: OnFailed panicked", "error", r.err)
				}
			})
		}
	}
}
