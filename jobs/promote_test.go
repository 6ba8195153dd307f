package jobs_test

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func promote(t *testing.T, db *gorm.DB, want int) {
	t.Helper()
	if n, err := jobs.Promote(t.Context(), db); n != want || err != nil {
		t.Fatalf("Promote = %d, %v; want %d", n, err, want)
	}
}

func TestPromoteMakesDueJobsPendingAndNoOthers(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ids := enqueuePings(t, db, 1201, dispatcher.Delay(time.Hour))
		future := ids[1200]
		err := db.Model(&models.Job{}).Where("id <> ?", future).Updates(map[string]any{"due_at": 5, "available_at": 5}).Error
		if err != nil {
			t.Fatal(err)
		}
		promote(t, db, 1200)
		promote(t, db, 0)
		wantState(t, db, future, models.Scheduled, 0)
		wantState(t, db, ids[0], models.Pending, 0)
		if j := get(t, db, ids[0]); j.DueAt != 0 || j.AvailableAt != 5 {
			t.Errorf("due at %s, available at %s; want none, and since it was due", j.DueAt, j.AvailableAt)
		}
	})
}

func TestPromoteLeavesOutWhatMovedOnOrIsLocked(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ids := enqueuePings(t, db, 3, dispatcher.Delay(time.Hour))
		for _, id := range ids {
			change(t, db, id, map[string]any{"due_at": 5})
		}
		between := onBegin(t, db, func() { // after the read, before the write
			if err := jobs.Cancel(t.Context(), db, ids[1]); err != nil {
				t.Error(err)
			}
		})
		promote(t, between, 2)
		wantState(t, db, ids[1], models.Cancelled, 0)
		change(t, db, ids[0], map[string]any{"state": models.Scheduled, "due_at": 5})
		if testdb.KindOf(db) == testdb.SQLite {
			return // one writer: no row is locked
		}
		app := testdb.Again(t, db).Begin()
		defer app.Rollback()
		if err := jobs.Cancel(t.Context(), app, ids[0]); err != nil {
			t.Fatal(err)
		}
		promote(t, db, 0) // without waiting for the application
	})
}

// A row that is due and cannot be promoted must not keep the worker spinning.
func TestWorkerDoesNotSpinOnADueJobThatCannotBePromoted(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		id := enqueue(t, db, ping{}, dispatcher.Delay(time.Hour))
		change(t, db, id, map[string]any{"due_at": 5, "state": models.Cancelled}) // by hand
		counted, statements := counting(t, db)
		w := newWorker(t, counted, onPing(nothing), jobs.Config{})
		stop := start(t, w)
		waitFor(t, 20*time.Second, "the worker looks", func() bool { return statements() > 20 })
		before := statements()
		<-time.After(time.Second) // a rate needs a time
		if n := statements() - before; n > 200 {
			t.Errorf("%d statements in a second; want some dozens", n)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
