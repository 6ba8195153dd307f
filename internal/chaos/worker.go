//go:build linux

package main

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/chaos/history"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/jobs/pgnotify"
)

// work runs a worker, whose handlers write down each start and each end.
func (r role) work(ctx context.Context, db *gorm.DB, log *history.Log) error {
	h := handling{log}
	reg := handlers.NewRegistry()
	backoff := handlers.Backoff(func(attempt int) time.Duration { return time.Duration(attempt) * 100 * time.Millisecond })
	handlers.Register(reg, func(ctx context.Context, p plain) error {
		return h.run(ctx, p.errand, nil)
	}, backoff)
	handlers.Register(reg, func(ctx context.Context, u unique) error {
		return h.run(ctx, u.errand, nil)
	}, backoff)
	handlers.Register(reg, func(ctx context.Context, t tick) error {
		return h.run(ctx, errand{}, nil)
	}, backoff)
	handlers.RegisterTx(reg, func(ctx context.Context, tx *gorm.DB, b book) error {
		return h.run(ctx, b.errand, func(e Effect) error { return tx.Create(&e).Error })
	}, backoff)
	c := jobs.Config{
		Queues: jobs.Queues{"default": 16, "slow": 16}, Lease: r.Lease,
		ShutdownTimeout: r.Lease / 2, PollInterval: 500 * time.Millisecond, Name: r.Name,
	}
	if r.DB == "postgres" && r.random().IntN(2) == 0 {
		c.Listener = pgnotify.New()
	}
	w, err := jobs.NewWorker(db, reg, c)
	if err != nil {
		return err
	}
	return again(ctx, func() error { return w.Run(ctx) })
}

// handling is what all handlers do.
type handling struct{ log *history.Log }

func (h handling) run(ctx context.Context, e errand, write func(Effect) error) error {
	job, _ := handlers.JobFrom(ctx)
	event := history.Event{Kind: history.Start, Ref: e.Ref, Job: job.ID, Token: job.ReservedBy, Attempt: job.Attempts}
	h.log.Write(event)
	outcome, err := h.act(ctx, e, job.Attempts, func() error {
		if write == nil {
			return nil
		}
		return write(Effect{Job: job.ID, Ref: e.Ref, Token: job.ReservedBy})
	})
	event.Kind, event.Outcome = history.End, outcome
	h.log.Write(event)
	if outcome == history.Failed && e.How == "panic" {
		panic(err)
	}
	return err
}

var errWanted = errors.New("this attempt was to fail")

// act works, writes, and fails if the job was to. A write before a failure must
// not be seen.
func (h handling) act(ctx context.Context, e errand, attempt int, write func() error) (history.Outcome, error) {
	if time.Now().UnixMicro() < e.Until {
		return history.Snoozed, handlers.Snooze(300 * time.Millisecond)
	}
	if err := sleep(ctx, e.Work); err != nil {
		return history.Ended, err
	}
	if err := write(); err != nil {
		return history.Failed, err
	}
	if attempt > e.Fails {
		return history.OK, nil
	}
	if e.How == "discard" {
		return history.Discard, handlers.Discard(errWanted)
	}
	return history.Failed, errWanted
}
