package jobs_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func TestNewWorkerRefusesWhatCannotWork(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite)
	reg := handlers.NewRegistry()
	cases := map[string]struct {
		config jobs.Config
		want   string
	}{
		"no slots":         {jobs.Config{Queues: jobs.Queues{"mail": 0}}, "mail: 0 jobs at once"},
		"negative slots":   {jobs.Config{Queues: jobs.Queues{"mail": -1}}, "mail: -1 jobs at once"},
		"too many slots":   {jobs.Config{Queues: jobs.Queues{"mail": 10_001}}, "10001 jobs at once"},
		"name with space":  {jobs.Config{Queues: jobs.Queues{"my mail": 1}}, `has a ' '`},
		"no name":          {jobs.Config{Queues: jobs.Queues{"": 1}}, "the name is empty"},
		"short lease":      {jobs.Config{Lease: time.Millisecond}, "1ms is shorter than 1s"},
		"negative lease":   {jobs.Config{Lease: -time.Minute}, "shorter than 1s"},
		"negative timeout": {jobs.Config{ShutdownTimeout: -1}, "ShutdownTimeout -1ns is negative"},
		"negative poll":    {jobs.Config{PollInterval: -1}, "PollInterval -1ns is shorter"},
		"short poll":       {jobs.Config{PollInterval: 1}, "PollInterval 1ns is shorter"},
	}
	for name, c := range cases {
		if _, err := jobs.NewWorker(db, reg, c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	if _, err := jobs.NewWorker(db, nil, jobs.Config{}); err == nil {
		t.Error("no registry: nil; want an error")
	}
	if _, err := jobs.NewWorker(nil, reg, jobs.Config{}); err == nil {
		t.Error("no *gorm.DB: nil; want an error")
	}
	err := db.Transaction(func(tx *gorm.DB) error {
		_, err := jobs.NewWorker(tx, reg, jobs.Config{})
		return err
	})
	if !errors.Is(err, dispatcher.ErrInTransaction) {
		t.Errorf("in a transaction: %v; want ErrInTransaction", err)
	}
}

func TestWorkerKeepsItsOwnCopyOfQueues(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite)
	queues := jobs.Queues{"default": 1}
	w := newWorker(t, db, onPing(func(context.Context, ping) error { return nil }), jobs.Config{Queues: queues})
	delete(queues, "default")
	enqueue(t, db, ping{})
	drain(t, w, 1)
}

func TestWorkerRunsOnceAtATime(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite)
	started, release := make(chan struct{}, 3), make(chan struct{})
	reg := onPing(func(context.Context, ping) error { started <- struct{}{}; <-release; return nil })
	enqueue(t, db, ping{})
	w := newWorker(t, db, reg, jobs.Config{})
	stop := start(t, w)
	receive(t, started, "the job starts")
	if err := w.Run(t.Context()); !errors.Is(err, jobs.ErrRunning) {
		t.Errorf("a second Run = %v; want ErrRunning", err)
	}
	if _, err := w.Drain(t.Context()); !errors.Is(err, jobs.ErrRunning) {
		t.Errorf("Drain meanwhile = %v; want ErrRunning", err)
	}
	close(release)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// And again, one after the other.
	enqueue(t, db, ping{})
	again := start(t, w)
	receive(t, started, "the job of the second Run starts")
	if err := again(); err != nil {
		t.Fatal(err)
	}
	enqueue(t, db, ping{})
	drain(t, w, 1)
	if s := w.Stats(); s.Completed != 3 {
		t.Errorf("Stats = %+v; want 3 completed", s)
	}
}

func TestWorkerNamesAMissingIndexOrTableWhenItStarts(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorker(t, db, handlers.NewRegistry(), jobs.Config{})
		if err := db.Migrator().DropIndex(&models.Job{}, models.ClaimIndex(db)); err != nil {
			t.Fatal(err)
		}
		var missing *models.MissingError
		if err := w.Run(t.Context()); !errors.As(err, &missing) || len(missing.Indexes) != 1 || missing.Indexes[0] != models.ClaimIndex(db) {
			t.Errorf("Run without the claim's index = %v; want a MissingError that names it", err)
		}
		if err := models.Migrate(db); err != nil {
			t.Fatal(err)
		}
		drain(t, w, 0) // the refused start has left nothing behind
		if err := db.Migrator().DropTable(&models.Failure{}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Drain(t.Context()); !errors.As(err, &missing) || len(missing.Tables) != 1 {
			t.Errorf("Drain without a table = %v; want a MissingError that names it", err)
		}
	})
}

func TestOnFailedIsCalledOnceAfterTheFailureIsRecorded(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var mu sync.Mutex
		calls := map[uint64]int{}
		book := &logbook{}
		onFailed := func(ctx context.Context, j *models.Job, err error) {
			mu.Lock()
			calls[j.ID]++
			mu.Unlock()
			if got := get(t, db, j.ID); got.State != models.Failed || len(got.Failures) != 1 {
				t.Errorf("OnFailed of job %d: it is %s with %d failures; want failed with 1", j.ID, got.State, len(got.Failures))
			}
			if _, ok := ctx.Deadline(); !ok || !errors.Is(err, errBoom) {
				t.Errorf("OnFailed got %v, a deadline %t; want boom and one", err, ok)
			}
			panic("in OnFailed")
		}
		reg := onPing(func(_ context.Context, p ping) error {
			return []error{errBoom, handlers.Discard(errBoom), nil, handlers.Snooze(time.Hour)}[p.N]
		})
		ids := enqueuePings(t, db, 4, dispatcher.MaxAttempts(1))
		retried := enqueue(t, db, ping{0})
		w := newWorker(t, db, reg, jobs.Config{OnFailed: onFailed, Logger: book.logger()})
		drain(t, w, 5)
		if len(calls) != 2 || calls[ids[0]] != 1 || calls[ids[1]] != 1 {
			t.Errorf("calls %v; want one each for %d and %d, none for %d", calls, ids[0], ids[1], retried)
		}
		if lines := book.with("OnFailed panicked"); len(lines) != 2 {
			t.Errorf("log %q; want that OnFailed panicked, twice", lines)
		}
	})
}

func TestSmallPoolServesManySlots(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		reg := onPing(func(ctx context.Context, _ ping) error {
			return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
				var n int64
				return tx.Model(&models.Job{}).Count(&n).Error
			})
		})
		ids := enqueuePings(t, db, 300)
		w := newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": 50}, Lease: 3 * time.Second})
		stop := start(t, w)
		waitFor(t, 60*time.Second, "all are completed", func() bool { return w.Stats().Completed == 300 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			wantState(t, db, id, models.Completed, 1)
		}
	}, testdb.Pool(2))
}
