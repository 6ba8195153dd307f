package handlers

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/models"
)

// Timeout is how long a run may take; 0 means as long as it likes.
func (h *Handler) Timeout() time.Duration { return h.timeout }

// Backoff is how long a job waits after its attempt-th run has failed, never
// negative.
func (h *Handler) Backoff(attempt int) time.Duration { return max(0, h.backoff(attempt)) }

// Transactional tells whether the handler was registered with [RegisterTx], and
// so is run with [Handler.RunTx].
func (h *Handler) Transactional() bool { return h.runTx != nil }

// Run runs the handler, in the registry's middleware, for job.
func (h *Handler) Run(ctx context.Context, job *models.Job) error {
	return h.registry.wrap(h.run)(withJob(ctx, job), job)
}

// RunTx is like [Handler.Run] for a handler that writes through tx.
func (h *Handler) RunTx(ctx context.Context, tx *gorm.DB, job *models.Job) error {
	run := func(ctx context.Context, job *models.Job) error { return h.runTx(ctx, tx.WithContext(ctx), job) }
	return h.registry.wrap(run)(withJob(ctx, job), job)
}

type jobKey struct{}

func withJob(ctx context.Context, job *models.Job) context.Context {
	return context.WithValue(ctx, jobKey{}, job)
}

// JobFrom returns the job that a handler's context belongs to: its id, its
// attempt, its queue, its metadata. It is a copy; changing it changes nothing.
func JobFrom(ctx context.Context) (*models.Job, bool) {
	job, ok := ctx.Value(jobKey{}).(*models.Job)
	return job, ok
}
