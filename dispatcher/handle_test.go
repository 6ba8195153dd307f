package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// handles are what an application may have made of its tx before it passes it.
var handles = map[string]func(tx *gorm.DB) *gorm.DB{
	"Session NewDB":       func(tx *gorm.DB) *gorm.DB { return tx.Session(&gorm.Session{NewDB: true}) },
	"Session PrepareStmt": func(tx *gorm.DB) *gorm.DB { return tx.Session(&gorm.Session{PrepareStmt: true}) },
	"WithContext":         func(tx *gorm.DB) *gorm.DB { return tx.WithContext(context.Background()) },
	"Where":               func(tx *gorm.DB) *gorm.DB { return tx.Where("x = 1") },
	"Model":               func(tx *gorm.DB) *gorm.DB { return tx.Model(&order{}).Where("note = ?", "x") },
	"Table":               func(tx *gorm.DB) *gorm.DB { return tx.Table("orders") },
	"Select":              func(tx *gorm.DB) *gorm.DB { return tx.Select("note") },
	"Omit":                func(tx *gorm.DB) *gorm.DB { return tx.Omit("payload", "state") },
	"OnConflict":          func(tx *gorm.DB) *gorm.DB { return tx.Clauses(clause.OnConflict{UpdateAll: true}) },
	"Locking":             func(tx *gorm.DB) *gorm.DB { return tx.Clauses(clause.Locking{Strength: "UPDATE"}) },
	"Limit and Order":     func(tx *gorm.DB) *gorm.DB { return tx.Order("nothing").Limit(0).Offset(3) },
	"Scopes": func(tx *gorm.DB) *gorm.DB {
		return tx.Scopes(func(tx *gorm.DB) *gorm.DB { return tx.Where("tenant = 1") })
	},
	"Unscoped and Set": func(tx *gorm.DB) *gorm.DB { return tx.Unscoped().Set("tenant", 1) },
	"after a query": func(tx *gorm.DB) *gorm.DB {
		var found []order
		return tx.Where("note = ?", "x").Find(&found)
	},
}

func TestNothingOfTheHandleLeaksIntoTheInsert(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		migrateOrders(t, db)
		for name, change := range handles {
			t.Run(name, func(t *testing.T) {
				clearTables(t, db)
				var first, second dispatcher.Receipt
				err := db.Transaction(func(tx *gorm.DB) (err error) {
					h := change(tx)
					if _, err := dispatcher.Enqueue(t.Context(), h, welcome{7}); err != nil {
						return err
					}
					if first, err = dispatcher.Enqueue(t.Context(), h, welcome{8}, dispatcher.Unique("k")); err != nil {
						return err
					}
					second, err = dispatcher.Enqueue(t.Context(), h, welcome{9}, dispatcher.Unique("k"))
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				if !second.Duplicate || second.ID != first.ID {
					t.Errorf("second receipt = %+v; want a duplicate of %d", second, first.ID)
				}
				wantCount(t, db, &models.Job{}, 2)
				wantCount(t, db, &order{}, 0)
			})
		}
	})
}

func TestFailedBeginIsAnErrorAndNoPanic(t *testing.T) {
	for _, prepare := range []bool{false, true} {
		t.Run(fmt.Sprintf("PrepareStmt=%v", prepare), func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				tx := db.WithContext(ended).Begin()
				if _, err := dispatcher.Enqueue(t.Context(), tx, welcome{7}); !errors.Is(err, context.Canceled) {
					t.Errorf("Enqueue = %v; want Begin's error, %v", err, context.Canceled)
				}
				wantCount(t, db, &models.Job{}, 0)
			}, testdb.GormConfig(func(c *gorm.Config) { c.PrepareStmt = prepare }))
		})
	}
}

func TestHandleThatCannotEnqueueIsRefused(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		sticky := errors.New("an earlier one")
		err := db.Transaction(func(tx *gorm.DB) error {
			sent := watch(t, tx)
			dry := tx.Session(&gorm.Session{DryRun: true})
			if _, err := dispatcher.Enqueue(t.Context(), dry, welcome{7}); !errors.Is(err, dispatcher.ErrDryRun) {
				t.Errorf("Enqueue on DryRun = %v; want ErrDryRun", err)
			}
			failed := tx.Session(&gorm.Session{})
			failed.AddError(sticky)
			if _, err := dispatcher.Enqueue(t.Context(), failed, welcome{7}); !errors.Is(err, sticky) {
				t.Errorf("Enqueue on a failed handle = %v; want %v", err, sticky)
			}
			if n := len(sent()); n != 0 {
				t.Errorf("statements sent = %q; want none", sent())
			}
			_, err := dispatcher.Enqueue(t.Context(), tx, welcome{8}) // tx itself is as good as ever
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		dry := db.Session(&gorm.Session{DryRun: true})
		if _, err := dispatcher.EnqueueNow(t.Context(), dry, welcome{7}); !errors.Is(err, dispatcher.ErrDryRun) {
			t.Errorf("EnqueueNow on DryRun = %v; want ErrDryRun", err)
		}
		if _, err := dispatcher.Enqueue(t.Context(), nil, welcome{7}); !errors.Is(err, dispatcher.ErrNoTransaction) {
			t.Errorf("Enqueue on nil = %v; want ErrNoTransaction", err)
		}
		wantCount(t, db, &models.Job{}, 1)
	})
}

// A handle that outlives its transaction must not be taken for a live one.
func TestEnqueueAfterTheCommitFails(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		tx := db.Begin()
		if err := tx.Commit().Error; err != nil {
			t.Fatal(err)
		}
		if _, err := dispatcher.Enqueue(t.Context(), tx, welcome{7}); err == nil {
			t.Error("Enqueue after the commit = nil; want an error")
		}
		wantCount(t, db, &models.Job{}, 0)
	})
}
