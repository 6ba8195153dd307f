package jobs

import (
	"context"
	"slices"
	"time"

	"github.com/gormjobs/gormjobs/internal/dialect"
)

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
