package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func TestDrainRunsWhatBecomesDueMeanwhile(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		reg := onPing(func(ctx context.Context, p ping) error {
			if p.N == 0 {
				return nil
			}
			_, err := dispatcher.EnqueueNow(ctx, db, ping{p.N - 1}, dispatcher.Queue("mail"))
			return err
		})
		enqueue(t, db, ping{3})
		overdue := enqueue(t, db, ping{}, dispatcher.Delay(time.Hour))
		change(t, db, overdue, map[string]any{"due_at": 5})
		w := newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": 1, "mail": 1}})
		drain(t, w, 5)
		if s := w.Stats(); s.Completed != 5 {
			t.Errorf("Stats = %+v; want 5 completed", s)
		}
	})
}

func TestDrainEndsWithItsContext(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		reg := onPing(func(context.Context, ping) error { cancel(); return nil })
		ids := enqueuePings(t, db, 3)
		w := newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": 1}})
		if n, err := w.Drain(ctx); n != 1 || !errors.Is(err, context.Canceled) {
			t.Errorf("Drain = %d, %v; want 1 and the context's error", n, err)
		}
		wantState(t, db, ids[0], models.Completed, 1)
		wantState(t, db, ids[1], models.Pending, 0)
	})
}

func TestDrainNamesAHandlerThatWouldNotStop(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	reg := onPing(func(context.Context, ping) error { cancel(); <-release; return nil })
	id := enqueue(t, db, ping{})
	w := newWorker(t, db, reg, jobs.Config{ShutdownTimeout: time.Millisecond})
	_, err := w.Drain(ctx)
	close(release)
	var stuck *jobs.StuckError
	if !errors.As(err, &stuck) || !errors.Is(err, context.Canceled) || stuck.Jobs[0].ID != id {
		t.Errorf("Drain = %v; want the context's error and a StuckError with job %d", err, id)
	}
}
