package dispatcher_test

import (
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

func TestEnqueueThroughTheOuterHandleIsRefused(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		err := db.Transaction(func(tx *gorm.DB) error {
			_, err := dispatcher.Enqueue(t.Context(), db, welcome{7})
			if !errors.Is(err, dispatcher.ErrNoTransaction) || !strings.Contains(err.Error(), "EnqueueNow") {
				t.Errorf("Enqueue = %v; want ErrNoTransaction with what to do", err)
			}
			if _, err := dispatcher.EnqueueMany(t.Context(), db, []welcome{{7}}); !errors.Is(err, dispatcher.ErrNoTransaction) {
				t.Errorf("EnqueueMany = %v; want ErrNoTransaction", err)
			}
			if _, err := dispatcher.EnqueueNow(t.Context(), tx, welcome{7}); !errors.Is(err, dispatcher.ErrInTransaction) {
				t.Errorf("EnqueueNow in a transaction = %v; want ErrInTransaction", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		wantCount(t, db, &models.Job{}, 0)
	})
}

func TestJobFollowsItsSavepoint(t *testing.T) {
	for _, c := range []struct {
		name         string
		inner, outer error
		want         int64
	}{
		{"inner rolls back, outer commits", errBusiness, nil, 0},
		{"inner commits, outer rolls back", nil, errBusiness, 0},
		{"both commit", nil, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				migrateOrders(t, db)
				err := dispatcher.Transaction(t.Context(), db, func(tx *gorm.DB) error {
					if err := tx.Create(&order{}).Error; err != nil {
						return err
					}
					err := dispatcher.Transaction(t.Context(), tx, func(tx *gorm.DB) error {
						if _, err := dispatcher.Enqueue(t.Context(), tx, welcome{7}); err != nil {
							return err
						}
						return c.inner
					})
					if !errors.Is(err, c.inner) {
						t.Errorf("inner = %v; want %v", err, c.inner)
					}
					return c.outer
				})
				if !errors.Is(err, c.outer) {
					t.Errorf("outer = %v; want %v", err, c.outer)
				}
				wantCount(t, db, &models.Job{}, c.want)
				if c.outer == nil {
					wantCount(t, db, &order{}, 1)
				}
			})
		})
	}
}
