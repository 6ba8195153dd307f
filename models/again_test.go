package models_test

import (
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

type ping struct{}

func (ping) JobType() string { return "ping" }

func TestSecondMigrateSendsNoDDL(t *testing.T) {
	eachStrategy(t, func(t *testing.T, db *gorm.DB) {
		if err := models.Migrate(db); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			again, s := watched(t, db)
			if err := models.Migrate(again); err != nil {
				t.Fatal(err)
			}
			if len(s.sent) == 0 {
				t.Error("statements seen = 0; want those that look")
			}
			if s.past != 0 {
				t.Errorf("the second Migrate took %d connections of its own to create something; want 0", s.past)
			}
			for _, query := range s.sent {
				if !strings.HasPrefix(strings.ToUpper(query), "SELECT") {
					t.Errorf("the second Migrate sent %s; want SELECTs only", query)
				}
			}
		}
		if err := models.Check(t.Context(), db); err != nil {
			t.Errorf("Check = %v; want nil", err)
		}
		if _, err := dispatcher.EnqueueNow(t.Context(), db, ping{}); err != nil {
			t.Errorf("EnqueueNow = %v; want nil", err)
		}
		// The application's own AutoMigrate of our models has nothing to alter.
		again, s := watched(t, db)
		if err := again.AutoMigrate(&models.Job{}, &models.Failure{}, &models.Schedule{}); err != nil {
			t.Errorf("AutoMigrate = %v; want nil", err)
		}
		for _, query := range s.sent {
			for _, verb := range []string{"ALTER", "CREATE", "DROP"} {
				if strings.HasPrefix(query, verb) {
					t.Errorf("AutoMigrate sent %s; want nothing to change", query)
				}
			}
		}
	})
}

func TestMigrateInATransactionIsRefused(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		err := db.Transaction(func(tx *gorm.DB) error {
			if err := models.Migrate(tx); !errors.Is(err, dispatcher.ErrInTransaction) {
				t.Errorf("Migrate = %v; want ErrInTransaction", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var missing *models.MissingError
		if err := models.Check(t.Context(), db); !errors.As(err, &missing) {
			t.Errorf("Check = %v; want a MissingError: nothing was created", err)
		}
	}, testdb.Empty)
}

func TestMigrateOnADryRunHandleIsRefused(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		dry := db.Session(&gorm.Session{DryRun: true})
		if err := models.Migrate(dry); !errors.Is(err, dispatcher.ErrDryRun) {
			t.Errorf("Migrate = %v; want ErrDryRun", err)
		}
		if statements, err := models.DDL(dry); len(statements) == 0 || err != nil {
			t.Errorf("DDL = %q, %v; want statements", statements, err)
		}
		if tables, err := db.Migrator().GetTables(); len(tables) != 0 || err != nil {
			t.Errorf("tables = %q, %v; want none", tables, err)
		}
	}, testdb.Empty)
}
