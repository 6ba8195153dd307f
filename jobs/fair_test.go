package jobs_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

type failing struct{}

func (failing) JobType() string { return "failing" }

type stranger struct{}

func (stranger) JobType() string { return "stranger" }

func enqueueMany[T models.Payload](t *testing.T, db *gorm.DB, n int) {
	t.Helper()
	err := db.Transaction(func(tx *gorm.DB) error {
		_, err := dispatcher.EnqueueMany(t.Context(), tx, make([]T, n))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// many is a number of jobs: 10,000 and more in the long form.
func many(short, long int) int {
	if os.Getenv("GORMJOBS_TEST_LONG") != "" {
		return long
	}
	return short
}

func TestJobsThatFailAgainAndAgainDoNotStarveFreshOnes(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		n := many(1_000, 10_000)
		enqueueMany[failing](t, db, n)
		enqueueMany[tally](t, db, n)
		var fresh, failures atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		reg := handlers.NewRegistry()
		handlers.Register(reg, func(context.Context, failing) error {
			failures.Add(1)
			return errors.New("again")
		}, handlers.Backoff(func(int) time.Duration { return time.Millisecond }))
		handlers.Register(reg, func(context.Context, tally) error {
			if fresh.Add(1) == int64(n) {
				cancel()
			}
			return nil
		})
		w, err := jobs.NewWorker(db, reg, jobs.Config{Queues: jobs.Queues{"default": 20}, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if fresh.Load() != int64(n) {
			t.Fatalf("%d of %d fresh jobs ran within a minute", fresh.Load(), n)
		}
		// They were there first, so a retry comes behind them.
		if f := failures.Load(); f > int64(2*n) {
			t.Errorf("%d failing runs came before the last fresh job; want about %d", f, n)
		}
	})
}

func TestJobsNobodyKnowsHereDoNotHoldUpKnownOnes(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		n := many(2_000, 20_000)
		enqueueMany[stranger](t, db, n)
		enqueueMany[tally](t, db, 10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var known atomic.Int64
		reg := handlers.NewRegistry()
		handlers.Register(reg, func(context.Context, tally) error {
			if known.Add(1) == 10 {
				cancel()
			}
			return nil
		})
		w, err := jobs.NewWorker(db, reg, jobs.Config{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if known.Load() != 10 {
			t.Fatalf("%d of 10 known jobs ran within a minute", known.Load())
		}
		var burnt int64
		if err := db.Model(&models.Job{}).Where("type = 'stranger' AND (attempts > 0 OR state NOT IN ('pending', 'scheduled'))").Count(&burnt).Error; err != nil {
			t.Fatal(err)
		}
		if burnt != 0 {
			t.Errorf("%d unknown jobs lost an attempt or changed for good", burnt)
		}
		waiting, err := jobs.Backlog(t.Context(), db, 500)
		if err != nil || len(waiting) != 1 || waiting[0].Due != 500 {
			t.Errorf("Backlog = %v, %v; want them to show: 500 in the queue", waiting, err)
		}
	})
}
