package main

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// runJobs runs the jobs and the schedule until ctx ends, and then lets those that
// are running finish.
func runJobs(ctx context.Context, db *gorm.DB, mailer *Mailer, p pace) error {
	worker, err := jobs.NewWorker(db, register(mailer, p), jobs.Config{
		Queues:          jobs.Queues{"default": 2, "mail": 5},
		Lease:           p.lease,
		PollInterval:    p.poll,
		ShutdownTimeout: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return worker.Run(ctx) })
	group.Go(func() error { return runSchedule(ctx, db, p) })
	return group.Wait()
}

// register says which function answers which job.
func register(mailer *Mailer, p pace) *handlers.Registry {
	registry := handlers.NewRegistry()
	registry.Use(logFailures)
	handlers.Register(registry, mailer.Welcome, handlers.Timeout(30*time.Second), handlers.Backoff(p.backoff))
	handlers.Register(registry, mailer.PasswordReset, handlers.Timeout(30*time.Second), handlers.Backoff(p.backoff))
	handlers.RegisterTx(registry, cleanupExpiredSessions)
	return registry
}

// logFailures is a middleware: it sees every run. It logs no payloads, they have
// tokens in them.
func logFailures(next handlers.Func) handlers.Func {
	return func(ctx context.Context, job *models.Job) error {
		err := next(ctx, job)
		if err != nil {
			slog.Warn("attempt failed", "job", job.ID, "type", job.Type, "attempt", job.Attempts, "of", job.MaxAttempts, "error", err)
		}
		return err
	}
}

// pace is how long things take.
type pace struct {
	lease   time.Duration // zero: the default, a minute
	poll    time.Duration // zero: the default, a second
	backoff func(attempt int) time.Duration
	cleanup string // cron
	reap    string // cron
}

// paceFor returns what an application would want, or what suits somebody who
// watches.
func paceFor(hasty bool) pace {
	if hasty {
		return pace{
			lease: 3 * time.Second, poll: 200 * time.Millisecond, cleanup: "@every 2s", reap: "@every 1s",
			backoff: func(attempt int) time.Duration {
				return handlers.Jitter(time.Duration(attempt) * 300 * time.Millisecond)
			},
		}
	}
	return pace{
		cleanup: "*/10 * * * *", reap: "@every 1m",
		// Mail servers that are busy are busy for minutes: 1 min, then 4 min.
		backoff: func(attempt int) time.Duration {
			return handlers.Jitter(time.Duration(attempt*attempt) * time.Minute)
		},
	}
}
