package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/models"
)

// errShutdown is the cause of a handler's context that ended with the worker.
var errShutdown = errors.New("gormjobs: the worker is shutting down")

// hold is a job that this worker has reserved: waiting for a slot, running, or
// with an outcome that is not recorded yet. Its lease is renewed all that time.
type hold struct {
	job     *models.Job
	arrived time.Time // when its claim was answered

	// Below: guarded by holds.mu.
	leaseEnd time.Time // by this process's monotonic clock
	cancel   context.CancelCauseFunc
	running  bool
	lost     bool // said to the handler
}

func (o *hold) size() int { return len(o.job.Payload) + len(o.job.Metadata) }

// holds are all jobs reserved by a worker.
type holds struct {
	mu    sync.Mutex
	all   map[*hold]struct{}
	ended error // why handlers have no more time; nil: they have
}

// add takes claimed jobs in, whose leases began at the earliest at began.
func (h *holds) add(jobs []*models.Job, began time.Time, lease time.Duration) []*hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[*hold]struct{}{}
	}
	added, now := make([]*hold, len(jobs)), time.Now()
	for i, job := range jobs {
		added[i] = &hold{job: job, arrived: now, leaseEnd: began.Add(lease)}
		h.all[added[i]] = struct{}{}
	}
	return added
}

func (h *holds) remove(o *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, o)
}

func (h *holds) list() []*hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*hold, 0, len(h.all))
	for o := range h.all {
		all = append(all, o)
	}
	return all
}

// begin notes that o's handler starts. It must not if the job was lost while it
// waited for its turn, or if its lease is over: the answer to the claim came late,
// or the process was stopped, and somebody else may have the job.
func (h *holds) begin(o *hold, cancel context.CancelCauseFunc) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.lost || !time.Now().Before(o.leaseEnd) {
		return false
	}
	o.cancel, o.running = cancel, true
	if h.ended != nil {
		cancel(h.ended)
	}
	return true
}

func (h *holds) end(o *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o.running, o.cancel = false, nil // what it would end may be another run's by now
}

// renewed notes the end of a lease that was extended by a statement sent at sent.
func (h *holds) renewed(o *hold, sent time.Time, lease time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o.leaseEnd = sent.Add(lease)
}

// lose ends the context of a handler whose job is no longer the worker's, and
// tells whether there is one to which that is new.
func (h *holds) lose(o *hold) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.lost {
		return false
	}
	o.lost = true
	if o.cancel != nil {
		o.cancel(ErrLost)
	}
	return o.running
}

// cancelAll ends the contexts of all handlers, and of those that are about to
// start.
func (h *holds) cancelAll(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = cause
	for o := range h.all {
		if o.cancel != nil {
			o.cancel(cause)
		}
	}
}

// reopen gives handlers time again.
func (h *holds) reopen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = nil
}

func (h *holds) handlersLeft() []models.Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	var left []models.Job
	for o := range h.all {
		if o.running {
			left = append(left, *o.job)
		}
	}
	return left
}

// overdue returns the jobs whose lease is about to end by the local clock.
func (h *holds) overdue(margin time.Duration) []*hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	var late []*hold
	limit := time.Now().Add(margin)
	for o := range h.all {
		if !o.lost && o.leaseEnd.Before(limit) {
			late = append(late, o)
		}
	}
	return late
}

// watchLeases ends handlers whose lease could not be renewed before another worker
// can have their job: when the database cannot be reached, or this process was
// stopped. SQLite has one writer; while a renewal waits for it nobody can reap
// either.
func (w *Worker) watchLeases(ctx context.Context) {
	if !dialect.LocksRows(w.db) {
		return
	}
	tick := time.NewTicker(w.config.Lease / 20)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, o := range w.holds.overdue(w.config.Lease / 10) {
			if w.holds.lose(o) {
				w.config.Logger.Warn("gormjobs: a lease could not be renewed: the handler's context ends", "job", o.job.ID, "type", o.job.Type)
			}
		}
	}
}
