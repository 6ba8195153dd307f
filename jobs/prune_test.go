package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func prune(t *testing.T, db *gorm.DB, o jobs.PruneOptions, want int) {
	t.Helper()
	if n, err := jobs.Prune(t.Context(), db, o); n != want || err != nil {
		t.Fatalf("Prune = %d, %v; want %d", n, err, want)
	}
}

// age makes the finished jobs of a state so old.
func age(t *testing.T, db *gorm.DB, state models.State, d time.Duration) {
	t.Helper()
	err := db.Model(&models.Job{}).Where("state = ?", state).Update("finished_at", models.At(time.Now().Add(-d))).Error
	if err != nil {
		t.Fatal(err)
	}
}

func TestPruneKeepsEachStateForItsOwnTime(t *testing.T) {
	const day = 24 * time.Hour
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ids := oneOfEach(t, db)
		there := func(states ...models.State) {
			t.Helper()
			for _, state := range models.States() {
				_, err := jobs.Get(t.Context(), db, ids[state])
				want := false
				for _, s := range states {
					want = want || s == state
				}
				if (err == nil) != want {
					t.Errorf("%s job: %v; want it there: %t", state, err, want)
				}
			}
		}
		for _, state := range []models.State{models.Completed, models.Cancelled, models.Failed} {
			age(t, db, state, 6*day)
		}
		prune(t, db, jobs.PruneOptions{}, 0)
		there(models.States()...)
		for _, state := range []models.State{models.Completed, models.Cancelled, models.Failed} {
			age(t, db, state, 8*day)
		}
		prune(t, db, jobs.PruneOptions{}, 2)
		there(models.Pending, models.Scheduled, models.Processing, models.Failed)
		prune(t, db, jobs.PruneOptions{Failed: 9 * day}, 0)
		prune(t, db, jobs.PruneOptions{Failed: 7 * day}, 1)
		there(models.Pending, models.Scheduled, models.Processing)
		var failures int64
		if err := db.Model(&models.Failure{}).Count(&failures).Error; err != nil || failures != 0 {
			t.Errorf("%d failures, %v; want none without their job", failures, err)
		}
	})
}

// Rows that by hand have a finished_at are no reason to delete unfinished jobs.
func TestPruneDeletesNothingUnfinished(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ids := oneOfEach(t, db)
		if err := db.Model(&models.Job{}).Where("1 = 1").Update("finished_at", 5).Error; err != nil {
			t.Fatal(err)
		}
		prune(t, db, jobs.PruneOptions{}, 3)
		for _, state := range []models.State{models.Pending, models.Scheduled, models.Processing} {
			if j := get(t, db, ids[state]); j.State != state {
				t.Errorf("the %s job is %s", state, j.State)
			}
		}
	})
}

func TestPruneSkipsLockedRowsAndWhatWasRequeued(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ids := completed(t, db, 9)
		between := onBegin(t, db, func() { // after the read, before the write
			change(t, db, ids[2], map[string]any{"state": models.Pending, "finished_at": nil})
		})
		want := 8
		if testdb.KindOf(db) != testdb.SQLite {
			app := testdb.Again(t, db).Begin()
			defer app.Rollback()
			err := app.Model(&models.Job{}).Where("id IN ?", ids[:2]).Update("last_error", "seen").Error
			if err != nil {
				t.Fatal(err)
			}
			want = 6
		}
		// The first batch holds none that can be deleted.
		prune(t, between, jobs.PruneOptions{Completed: time.Hour, Batch: 3, Pause: time.Millisecond}, want)
		wantState(t, db, ids[2], models.Pending, 0)
	})
}

// completed inserts n jobs that were completed in another second each, long ago.
func completed(t *testing.T, db *gorm.DB, n int) []uint64 {
	t.Helper()
	ids := enqueuePings(t, db, n)
	for i, id := range ids {
		change(t, db, id, map[string]any{"state": models.Completed, "finished_at": 1_000_000 * (i + 1)})
	}
	return ids
}

func TestPruneEndsBetweenBatchesAndKeepsItsProgress(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		completed(t, db, 10)
		ctx, cancel := context.WithCancel(t.Context())
		batches := 0
		own := breaking(t, db, func() bool {
			if batches++; batches == 2 {
				cancel()
			}
			return false
		})
		n, err := jobs.Prune(ctx, own, jobs.PruneOptions{Completed: time.Hour, Batch: 3, Pause: time.Millisecond})
		if n != 6 || !errors.Is(err, context.Canceled) {
			t.Errorf("Prune = %d, %v; want 6 and the context's error", n, err)
		}
		counts, err := jobs.Count(t.Context(), db)
		if err != nil || counts[models.Completed] != 4 {
			t.Errorf("Count = %v, %v; want 4 completed", counts, err)
		}
		prune(t, db, jobs.PruneOptions{Completed: time.Hour, Batch: 3, Pause: time.Millisecond}, 4)
	})
}

func TestPruneInOneBatchOfTheSameMoment(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		completed(t, db, 20)
		age(t, db, models.Completed, 10*24*time.Hour) // all of one moment
		prune(t, db, jobs.PruneOptions{Batch: 3, Pause: time.Millisecond}, 20)
	})
}

func TestUpkeepRefusesATransaction(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite)
	_ = db.Transaction(func(tx *gorm.DB) error {
		for name, do := range map[string]func() error{
			"Reap":       func() error { _, err := jobs.Reap(t.Context(), tx); return err },
			"Promote":    func() error { _, err := jobs.Promote(t.Context(), tx); return err },
			"Prune":      func() error { _, err := jobs.Prune(t.Context(), tx, jobs.PruneOptions{}); return err },
			"Backlog":    func() error { _, err := jobs.Backlog(t.Context(), tx, 1); return err },
			"NewClaimer": func() error { _, err := jobs.NewClaimer(tx, jobs.ClaimerConfig{}); return err },
		} {
			if err := do(); err == nil {
				t.Errorf("%s in a transaction = nil; want an error", name)
			}
		}
		return nil
	})
}
