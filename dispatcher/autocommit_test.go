package dispatcher_test

import (
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// A single statement would be neither committed nor rolled back, and its error nil.
func TestConnectionsWithoutAutocommitAreRefused(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if _, err := dispatcher.EnqueueNow(t.Context(), db, welcome{1}); !errors.Is(err, dispatcher.ErrNoAutocommit) {
			t.Errorf("EnqueueNow = %v; want ErrNoAutocommit", err)
		}
		if err := models.Check(t.Context(), db); !errors.Is(err, dispatcher.ErrNoAutocommit) {
			t.Errorf("Check = %v; want ErrNoAutocommit", err)
		}
		// A transaction of the application commits as ever.
		err := db.Transaction(func(tx *gorm.DB) error {
			_, err := dispatcher.Enqueue(t.Context(), tx, welcome{1})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		again := testdb.Again(t, db)
		var n int64
		if err := again.Model(&models.Job{}).Count(&n).Error; err != nil || n != 1 {
			t.Errorf("%d jobs are there, %v; want 1", n, err)
		}
	}, testdb.Parameter(testdb.MySQL, "autocommit", "0"), testdb.Parameter(testdb.MariaDB, "autocommit", "0"),
		testdb.Only(testdb.MySQL, testdb.MariaDB))
}
