package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func TestLongJobKeepsItsLease(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		const lease = 2 * time.Second
		started, proceed := make(chan uint64, 5), make(chan struct{})
		reg := onPing(func(ctx context.Context, _ ping) error {
			j, _ := handlers.JobFrom(ctx)
			started <- j.ID
			<-proceed
			return ctx.Err()
		})
		id := enqueue(t, db, ping{})
		book := &logbook{}
		w := newWorker(t, db, reg, jobs.Config{Lease: lease, Logger: book.logger()})
		stop := start(t, w)
		receive(t, started, "the job starts")
		// Three leases long, a reaper at work all the time.
		first := get(t, db, id).ReservedUntil
		waitFor(t, 20*time.Second, "the lease was renewed for three times its length", func() bool {
			reap(t, db, jobs.Reaped{})
			return get(t, db, id).ReservedUntil.Time().Sub(first.Time()) > 3*lease
		})
		close(proceed)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		wantState(t, db, id, models.Completed, 1)
		if book.above(slog.LevelWarn) > 0 || len(started) > 0 {
			t.Errorf("%d more runs, log %q; want one run and no warning", len(started), book.with(""))
		}
	}, testdb.Parallel)
}

func TestLostLeaseEndsTheHandlersContextWithErrLost(t *testing.T) {
	ways := map[string]func(*testing.T, *gorm.DB, uint64){
		"reaped": func(t *testing.T, db *gorm.DB, id uint64) {
			// Its last attempt, so that no second run mixes in. A renewal may come
			// between the two.
			change(t, db, id, map[string]any{"attempts": 25})
			waitFor(t, 20*time.Second, "it is reaped", func() bool {
				expire(t, db, id)
				r, err := jobs.Reap(t.Context(), db)
				return err == nil && r.Failed == 1
			})
		},
		"row deleted": func(t *testing.T, db *gorm.DB, id uint64) {
			if err := db.Delete(&models.Job{}, id).Error; err != nil {
				t.Fatal(err)
			}
		},
		"state changed by hand": func(t *testing.T, db *gorm.DB, id uint64) {
			change(t, db, id, map[string]any{"state": models.Cancelled, "finished_at": 1})
		},
	}
	for name, lose := range ways {
		t.Run(name, func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				started, causes := make(chan struct{}, 1), make(chan error, 1)
				reg := onPing(func(ctx context.Context, _ ping) error {
					started <- struct{}{}
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return nil // as if it had not heard
				})
				id := enqueue(t, db, ping{})
				book := &logbook{}
				w := newWorker(t, db, reg, jobs.Config{Lease: 2 * time.Second, Logger: book.logger()})
				stop := start(t, w)
				receive(t, started, "the job starts")
				lose(t, db, id)
				before, _ := jobs.Get(t.Context(), db, id)
				if cause := receive(t, causes, "the context ends"); !errors.Is(cause, jobs.ErrLost) {
					t.Errorf("cause %v; want ErrLost", cause)
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				if s := w.Stats(); s.Lost != 1 || s.Completed != 0 {
					t.Errorf("Stats = %+v; want 1 lost", s)
				}
				after, _ := jobs.Get(t.Context(), db, id)
				if (before == nil) != (after == nil) || before != nil && (before.State != after.State || before.Attempts != after.Attempts) {
					t.Errorf("the job was %+v before and is %+v", before, after)
				}
				if len(book.with("no longer this worker's")) != 1 || len(book.with("outcome of a run was dropped")) != 1 || book.above(slog.LevelWarn) != 2 {
					t.Errorf("log %q; want two lines: that it is lost, and that its outcome was dropped", book.with(""))
				}
			})
		})
	}
}

// A stalled process: its renewals do not get through, and by its own clock the
// lease is about to end.
func TestHandlerEndsBeforeItsUnrenewedLease(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		started, causes := make(chan struct{}, 1), make(chan error, 1)
		reg := onPing(func(ctx context.Context, _ ping) error {
			started <- struct{}{}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		})
		id := enqueue(t, db, ping{})
		own := testdb.Again(t, db)
		w := newWorker(t, own, reg, jobs.Config{Lease: 2 * time.Second})
		stop := start(t, w)
		receive(t, started, "the job starts")
		pool, err := own.DB()
		if err != nil {
			t.Fatal(err)
		}
		pool.Close()
		if cause := receive(t, causes, "the context ends"); !errors.Is(cause, jobs.ErrLost) {
			t.Errorf("cause %v; want ErrLost", cause)
		}
		reap(t, db, jobs.Reaped{}) // the lease has not ended yet
		go stop()                  // takes as long as it waits for a database that is gone
		wantState(t, db, id, models.Processing, 1)
	}, testdb.Servers, testdb.Parallel)
}
