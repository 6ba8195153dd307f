package models_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// damages are what a migration that was interrupted, or a person, leaves behind.
// Check names it, and Migrate mends it.
func damages(db *gorm.DB) map[string]struct {
	harm func() error
	want models.MissingError
} {
	m := db.Migrator()
	drop := func(model any, indexes ...string) func() error {
		return func() error {
			for _, name := range indexes {
				if err := m.DropIndex(model, name); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return map[string]struct {
		harm func() error
		want models.MissingError
	}{
		"the claim's index":    {drop(&models.Job{}, models.ClaimIndex(db)), models.MissingError{Indexes: []string{"idx_queue_jobs_claim_v1"}}},
		"the unique index":     {drop(&models.Job{}, "idx_queue_jobs_live_v1"), models.MissingError{Indexes: []string{"idx_queue_jobs_live_v1"}}},
		"the failures' index":  {drop(&models.Failure{}, models.FailuresIndex(db)), models.MissingError{Indexes: []string{"idx_queue_failures_job_v1"}}},
		"the failures' table":  {func() error { return m.DropTable(&models.Failure{}) }, models.MissingError{Tables: []string{"queue_failures"}, Indexes: []string{"idx_queue_failures_job_v1"}}},
		"the schedules' table": {func() error { return m.DropTable(&models.Schedule{}) }, models.MissingError{Tables: []string{"queue_schedules"}}},
		"a column":             {func() error { return m.DropColumn(&models.Job{}, "last_error") }, models.MissingError{Columns: []string{"queue_jobs.last_error"}}},
		"two columns": {func() error {
			return errors.Join(m.DropColumn(&models.Job{}, "metadata"), m.DropColumn(&models.Failure{}, "stack"))
		}, models.MissingError{Columns: []string{"queue_jobs.metadata", "queue_failures.stack"}}},
		"an indexed column": {func() error {
			return errors.Join(drop(&models.Job{}, "idx_queue_jobs_done_v1")(), m.DropColumn(&models.Job{}, "finished_at"))
		}, models.MissingError{Columns: []string{"queue_jobs.finished_at"}, Indexes: []string{"idx_queue_jobs_done_v1"}}},
		"all indexes but one, and a table": {func() error {
			return errors.Join(drop(&models.Job{}, models.ClaimIndex(db), "idx_queue_jobs_due_v1", "idx_queue_jobs_done_v1")(), m.DropTable(&models.Schedule{}))
		}, models.MissingError{Tables: []string{"queue_schedules"}, Indexes: []string{"idx_queue_jobs_claim_v1", "idx_queue_jobs_due_v1", "idx_queue_jobs_done_v1"}}},
	}
}

func TestMigrateCompletesWhatWasInterrupted(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if _, err := dispatcher.EnqueueNow(t.Context(), db, ping{}); err != nil {
			t.Fatal(err)
		}
		for name, d := range damages(db) {
			t.Run(name, func(t *testing.T) {
				if err := d.harm(); err != nil {
					t.Fatal(err)
				}
				var got *models.MissingError
				if err := models.Check(t.Context(), db); !errors.As(err, &got) {
					t.Fatalf("Check = %v; want a MissingError", err)
				}
				if !slices.Equal(got.Tables, d.want.Tables) || !slices.Equal(got.Columns, d.want.Columns) || !slices.Equal(got.Indexes, d.want.Indexes) {
					t.Errorf("Check = %+v; want %+v", *got, d.want)
				}
				for _, name := range slices.Concat(d.want.Tables, d.want.Columns, d.want.Indexes) {
					if !strings.Contains(got.Error(), name) {
						t.Errorf("Check = %v; want %s named", got, name)
					}
				}
				if err := models.Migrate(db); err != nil {
					t.Fatalf("Migrate = %v; want nil", err)
				}
				if err := models.Check(t.Context(), db); err != nil {
					t.Errorf("Check after Migrate = %v; want nil", err)
				}
			})
		}
		var n int64
		if err := db.Model(&models.Job{}).Count(&n).Error; n != 1 || err != nil {
			t.Errorf("jobs = %d, %v; want the 1 that was there", n, err)
		}
	})
}

// A database that cannot be asked is not one that lacks tables.
func TestCheckOnALostDatabaseIsAnError(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		lost := testdb.Again(t, db)
		pool, err := lost.DB()
		if err != nil {
			t.Fatal(err)
		}
		pool.Close()
		var missing *models.MissingError
		if err := models.Check(t.Context(), lost); err == nil || errors.As(err, &missing) {
			t.Errorf("Check = %v; want the connection's error", err)
		}
		if err := models.Migrate(lost); err == nil || errors.As(err, &missing) {
			t.Errorf("Migrate = %v; want the connection's error", err)
		}
	})
}
