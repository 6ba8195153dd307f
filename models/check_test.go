package models_test

import (
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// A worker and a scheduler of one process do so when they start. Run with -race.
func TestCheckMayRunTwiceAtOnce(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var checks sync.WaitGroup
		for range 4 {
			checks.Go(func() {
				if err := models.Check(t.Context(), db); err != nil {
					t.Error(err)
				}
			})
		}
		checks.Wait()
	})
}
