package models_test

import (
	"context"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

func TestPrintedDDLSatisfiesCheck(t *testing.T) {
	eachStrategy(t, func(t *testing.T, db *gorm.DB) {
		offline, s := watched(t, db)
		statements, err := models.DDL(offline)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.sent) != 0 {
			t.Errorf("DDL sent %q; want nothing", s.sent)
		}
		for _, statement := range statements {
			if err := db.Exec(statement).Error; err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		if err := models.Check(t.Context(), db); err != nil {
			t.Errorf("Check = %v; want nil", err)
		}
		again, s := watched(t, db)
		if err := models.Migrate(again); err != nil || s.past != 0 {
			t.Errorf("Migrate = %v, and created something %d times; want nothing to do", err, s.past)
		}
		for want := range 2 {
			r, err := dispatcher.EnqueueNow(t.Context(), db, ping{}, dispatcher.Unique("k"))
			if err != nil || r.Duplicate != (want == 1) {
				t.Errorf("EnqueueNow %d = %+v, %v; want a duplicate the second time", want, r, err)
			}
		}
	})
}

// Migrate takes its lock on a connection of its own, and the pool has one.
func TestMigrateWithAPoolOfOne(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		db = db.WithContext(ctx)
		for range 2 {
			if err := models.Migrate(db); err != nil {
				t.Fatal(err)
			}
		}
		if err := models.Check(ctx, db); err != nil {
			t.Errorf("Check = %v; want nil", err)
		}
		if _, err := dispatcher.EnqueueNow(ctx, db, ping{}, dispatcher.Unique("k")); err != nil {
			t.Errorf("EnqueueNow = %v; want nil", err)
		}
	}, testdb.Empty, testdb.Pool(1))
}

func TestMigrateUnderPrepareStmt(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		for range 2 {
			if err := models.Migrate(db); err != nil {
				t.Fatal(err)
			}
		}
		if err := models.Check(t.Context(), db); err != nil {
			t.Errorf("Check = %v; want nil", err)
		}
	}, testdb.Empty, testdb.GormConfig(func(c *gorm.Config) { c.PrepareStmt, c.Logger = true, logger.Discard }))
}
