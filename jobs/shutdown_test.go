package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func TestShutdownClaimsNoMoreAndLetsRunningJobsFinish(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		started, release := make(chan int, 20), make(chan struct{})
		reg := onPing(func(ctx context.Context, p ping) error {
			started <- p.N
			<-release
			return ctx.Err()
		})
		ids := enqueuePings(t, db, 14)
		w := newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": 4}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		for range 4 {
			receive(t, started, "four jobs start")
		}
		cancel()
		enqueue(t, db, ping{}) // wakes the worker, which must not care
		close(release)         // frees the slots
		if err := receive(t, ended, "Run returns"); err != nil {
			t.Fatalf("Run = %v; want nil", err)
		}
		for i, id := range ids {
			j := get(t, db, id)
			if i < 4 {
				wantState(t, db, id, models.Completed, 1)
			} else if j.State != models.Pending || j.ReservedBy != "" {
				t.Errorf("job %d is %s, reserved by %q; want it never claimed", id, j.State, j.ReservedBy)
			}
		}
	})
}

func TestFiveRollingRestartsUseUpNoAttempt(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		started := make(chan struct{}, 3)
		reg := onPing(func(ctx context.Context, _ ping) error {
			started <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		ids := enqueuePings(t, db, 3)
		before := get(t, db, ids[0]).AvailableAt
		book := &logbook{}
		for range 5 {
			w := newWorker(t, db, reg, jobs.Config{ShutdownTimeout: 10 * time.Millisecond, Logger: book.logger()})
			stop := start(t, w)
			for range ids {
				receive(t, started, "the jobs start")
			}
			if err := stop(); err != nil {
				t.Fatalf("Run = %v; want nil", err)
			}
			if s := w.Stats(); s.Released != 3 {
				t.Fatalf("Stats = %+v; want 3 released", s)
			}
		}
		for _, id := range ids {
			wantState(t, db, id, models.Pending, 0)
			if j := get(t, db, id); len(j.Failures) > 0 || j.LastError != "" {
				t.Errorf("job %d has %d failures and the last error %q; want none", id, len(j.Failures), j.LastError)
			}
		}
		if after := get(t, db, ids[0]).AvailableAt; after != before {
			t.Errorf("available at %s after the restarts, %s before; want its place kept", after, before)
		}
		if book.above(slog.LevelWarn) > 0 {
			t.Errorf("the log has warnings or errors: %q", book.with(""))
		}
	})
}

func TestDeafHandlerIsNamedAndItsJobLeftToItsLease(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		started, release := make(chan int, 2), make(chan struct{})
		ended := make(chan struct{})
		reg := onPing(func(ctx context.Context, p ping) error {
			started <- p.N
			if p.N == 0 {
				<-release
				close(ended)
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		ids := enqueuePings(t, db, 2)
		w := newWorker(t, db, reg, jobs.Config{ShutdownTimeout: time.Millisecond})
		stop := start(t, w)
		receive(t, started, "both start")
		receive(t, started, "both start")
		began := time.Now()
		err := stop()
		took := time.Since(began)
		close(release)
		<-ended
		var stuck *jobs.StuckError
		if !errors.As(err, &stuck) || len(stuck.Jobs) != 1 || stuck.Jobs[0].ID != ids[0] {
			t.Fatalf("Run = %v; want a StuckError with job %d", err, ids[0])
		}
		if took > 6*time.Second {
			t.Errorf("the shutdown took %s; want some 2s", took)
		}
		wantState(t, db, ids[1], models.Pending, 0)
		wantState(t, db, ids[0], models.Processing, 1)
		expire(t, db, ids[0])
		reap(t, db, jobs.Reaped{Returned: 1})
	})
}

// A commit of the worker is its claim's: it ends Run's context, so that the jobs
// are claimed and not yet handed over.
func TestCancelBetweenClaimAndHandOverLeavesNothingReserved(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var cancel atomic.Pointer[context.CancelFunc]
		broken := breaking(t, db, func() bool { (*cancel.Load())(); return false })
		reg := onPing(func(context.Context, ping) error { t.Error("a job ran after the end"); return nil })
		ids := enqueuePings(t, db, 3)
		times := 50
		if os.Getenv("GORMJOBS_TEST_LONG") != "" {
			times = 1000
		}
		for range times {
			ctx, c := context.WithCancel(t.Context())
			cancel.Store(&c)
			w := newWorker(t, broken, reg, jobs.Config{Queues: jobs.Queues{"default": 2}})
			if err := w.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if s := w.Stats(); s.Released != 2 {
				t.Fatalf("Stats = %+v; want 2 released", s)
			}
		}
		for _, id := range ids {
			wantState(t, db, id, models.Pending, 0)
		}
	})
}

func TestPoolMayBeClosedRightAfterRun(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		own := testdb.Again(t, db)
		started, release, ended := make(chan int, 2), make(chan struct{}), make(chan struct{})
		reg := onPing(func(_ context.Context, p ping) error {
			started <- p.N
			defer close(ended)
			<-release
			return errBoom
		})
		enqueuePings(t, db, 1)
		w := newWorker(t, own, reg, jobs.Config{ShutdownTimeout: time.Millisecond})
		stop := start(t, w)
		receive(t, started, "the job starts")
		_ = stop() // with a handler that goes on
		pool, err := own.DB()
		if err != nil {
			t.Fatal(err)
		}
		pool.Close()
		close(release)
		<-ended
		if err := w.Run(t.Context()); err == nil {
			t.Error("Run on a closed pool = nil; want its error")
		}
	})
}
