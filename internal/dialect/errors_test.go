package dialect_test

import (
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// A worker that runs while a newer version adds a column.
func TestStatementPreparedBeforeAMigrationIsRunAgain(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		read := func() error { return db.Find(&[]models.Job{}).Error }
		if err := read(); err != nil {
			t.Fatal(err)
		}
		if err := testdb.Again(t, db).Exec("ALTER TABLE queue_jobs ADD COLUMN added int").Error; err != nil {
			t.Fatal(err)
		}
		if err := read(); err != nil && !dialect.Retryable(err) {
			t.Errorf("Retryable(%v) = false; want true", err)
		}
		if err := read(); err != nil {
			t.Errorf("the second try = %v; want nil", err)
		}
	}, testdb.Pool(1))
}

func TestConstraintsAndMistakesAreNotRetried(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, query := range []string{
			"SELECT * FROM nowhere", "SELEC", "INSERT INTO queue_schedules (name) VALUES (NULL)",
		} {
			err := db.Exec(query).Error
			if err == nil || dialect.Retryable(err) || dialect.Unknown(err) {
				t.Errorf("%s = %v, retryable %v, unknown %v; want an answer that is final", query, err, dialect.Retryable(err), dialect.Unknown(err))
			}
		}
	})
}
