package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func TestRowLockedByTheApplicationHoldsUpNoOtherOutcome(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		started, proceed := make(chan struct{}, 101), make(chan struct{})
		reg := onPing(func(context.Context, ping) error {
			started <- struct{}{}
			<-proceed
			return nil
		})
		ids := enqueuePings(t, db, 101)
		w := newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": 101}})
		stop := start(t, w)
		for range ids {
			receive(t, started, "all jobs start")
		}
		app := db.Begin()
		defer app.Rollback()
		var row models.Job
		if err := app.Clauses(clause.Locking{Strength: "UPDATE"}).Take(&row, ids[50]).Error; err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		close(proceed)
		waitFor(t, 20*time.Second, "the 100 are recorded", func() bool { return w.Stats().Completed == 100 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("the 100 were recorded after %s; want a second at most", took)
		}
		if j := get(t, db, ids[50]); j.State != models.Processing {
			t.Errorf("the locked job is %s; want processing", j.State)
		}
		if err := app.Rollback().Error; err != nil {
			t.Fatal(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if s := w.Stats(); s.Completed != 101 || s.Lost != 0 {
			t.Errorf("Stats = %+v; want 101 completed", s)
		}
	}, testdb.Servers)
}

// The stale run and the current one of the same job end while the recorder is kept
// busy by a third outcome, so that they are in one batch.
func TestStaleAndCurrentOutcomeInOneBatch(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var hold atomic.Bool
		inCommit, goOn := make(chan struct{}), make(chan struct{})
		slow := breaking(t, db, func() bool {
			if hold.CompareAndSwap(true, false) {
				close(inCommit)
				<-goOn
			}
			return false
		})
		entered, first, rest := make(chan int, 3), make(chan struct{}), make(chan struct{})
		ended := make(chan struct{}, 3)
		reg := onPing(func(ctx context.Context, p ping) error {
			j, _ := handlers.JobFrom(ctx)
			defer func() { ended <- struct{}{} }()
			entered <- p.N
			if p.N == 0 {
				<-first
				return nil
			}
			<-rest
			return fmt.Errorf("run %d", j.Attempts)
		}, handlers.Timeout(0), handlers.Backoff(func(int) time.Duration { return time.Hour }))
		ids := enqueuePings(t, db, 2)
		w := newWorker(t, slow, reg, jobs.Config{})
		stop := start(t, w)
		receive(t, entered, "both run")
		receive(t, entered, "both run")
		expire(t, db, ids[1])
		reap(t, db, jobs.Reaped{Returned: 1})
		receive(t, entered, "the worker has the reaped job again")
		hold.Store(true)
		close(first)
		receive(t, inCommit, "the recorder is busy")
		close(rest)
		for range 3 {
			receive(t, ended, "all runs end")
		}
		close(goOn)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if s := w.Stats(); s.Completed != 1 || s.Retried != 1 || s.Lost != 1 {
			t.Errorf("Stats = %+v; want 1 completed, 1 retried, 1 lost", s)
		}
		wantState(t, db, ids[1], models.Scheduled, 2)
		j := get(t, db, ids[1])
		if len(j.Failures) != 2 || j.Failures[1].Error != "run 2" || j.LastError != "run 2" {
			t.Errorf("last error %q, failures %+v; want the reaper's, then run 2", j.LastError, j.Failures)
		}
	})
}

func TestOutcomeWhoseCommitLostItsAnswerIsFoundRecorded(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var lose atomic.Bool
		broken := breaking(t, db, func() bool { return lose.CompareAndSwap(true, false) })
		failed := make(chan error, 4)
		reg := onPing(func(_ context.Context, p ping) error {
			lose.Store(true) // the next commit is that of this outcome
			return []error{nil, errBoom, handlers.Discard(errBoom), handlers.Snooze(time.Hour)}[p.N]
		})
		w := newWorker(t, broken, reg, jobs.Config{OnFailed: func(_ context.Context, _ *models.Job, err error) { failed <- err }})
		states := []models.State{models.Completed, models.Scheduled, models.Failed, models.Scheduled}
		for n, state := range states {
			id := enqueue(t, db, ping{n})
			drain(t, w, 1)
			wantState(t, db, id, state, []int{1, 1, 1, 0}[n])
			if j := get(t, db, id); len(j.Failures) != []int{0, 1, 1, 0}[n] {
				t.Errorf("answer %d has %d failures; want each once", n, len(j.Failures))
			}
		}
		if s := w.Stats(); s.Lost != 0 || s.Completed != 1 || s.Retried != 1 || s.Failed != 1 || s.Released != 1 {
			t.Errorf("Stats = %+v; want one each and none lost", s)
		}
		if err := receive(t, failed, "OnFailed is called"); !errors.Is(err, errBoom) || len(failed) > 0 {
			t.Errorf("OnFailed got %v, and %d more; want boom once", err, len(failed))
		}
	})
}

func TestRegisterTxWhoseCommitLostItsAnswerIsCompleted(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if err := db.AutoMigrate(&effect{}); err != nil {
			t.Fatal(err)
		}
		var lose atomic.Bool
		broken := breaking(t, db, func() bool { return lose.CompareAndSwap(true, false) })
		reg := onPingTx(func(_ context.Context, tx *gorm.DB, p ping) error {
			lose.Store(true)
			return tx.Create(&effect{N: p.N}).Error
		})
		w := newWorker(t, broken, reg, jobs.Config{OnFailed: func(context.Context, *models.Job, error) { t.Error("OnFailed was called") }})
		id := enqueue(t, db, ping{}, dispatcher.MaxAttempts(1))
		drain(t, w, 1)
		wantState(t, db, id, models.Completed, 1)
		wantEffects(t, db, 1)
		if s := w.Stats(); s.Completed != 1 || s.Failed != 0 || s.Lost != 0 {
			t.Errorf("Stats = %+v; want 1 completed", s)
		}
	})
}
