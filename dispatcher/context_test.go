package dispatcher_test

import (
	"context"
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

func TestContextOfTheCallWinsOverTheHandles(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		migrateOrders(t, db)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		err := db.Transaction(func(tx *gorm.DB) error {
			if _, err := dispatcher.Enqueue(ended, tx, welcome{1}); !errors.Is(err, context.Canceled) {
				t.Errorf("Enqueue with an ended context = %v; want %v", err, context.Canceled)
			}
			if _, err := dispatcher.Enqueue(t.Context(), tx.WithContext(ended), welcome{2}); err != nil {
				t.Errorf("Enqueue through a handle with an ended context = %v; want nil", err)
			}
			return tx.Create(&order{}).Error // the first was not sent at all
		})
		if err != nil {
			t.Fatal(err)
		}
		wantCount(t, db, &order{}, 1)
		if j := theJob(t, db); j.Payload != `{"user_id":2}` {
			t.Errorf("payload = %s; want the second's", j.Payload)
		}
		if _, err := dispatcher.EnqueueNow(ended, db, welcome{3}); !errors.Is(err, context.Canceled) {
			t.Errorf("EnqueueNow with an ended context = %v; want %v", err, context.Canceled)
		}
		wantCount(t, db, &models.Job{}, 1)
	})
}

// shipment enqueues when it is created, and may be refused after that.
type shipment struct {
	ID     uint
	Refuse bool
}

func (s *shipment) AfterCreate(tx *gorm.DB) error {
	if _, err := dispatcher.Enqueue(tx.Statement.Context, tx, welcome{int(s.ID)}); err != nil {
		return err
	}
	if s.Refuse {
		return errBusiness
	}
	return nil
}

// A hook runs in GORM's implicit transaction, where there is one.
func TestHookEnqueuesWithItsRow(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if err := db.AutoMigrate(&shipment{}); err != nil {
			t.Fatal(err)
		}
		if err := db.Create(&shipment{Refuse: true}).Error; !errors.Is(err, errBusiness) {
			t.Errorf("Create = %v; want %v", err, errBusiness)
		}
		wantCount(t, db, &models.Job{}, 0)
		if err := db.Create(&shipment{}).Error; err != nil {
			t.Fatal(err)
		}
		wantCount(t, db, &models.Job{}, 1)
		wantCount(t, db, &shipment{}, 1)
		skipping := db.Session(&gorm.Session{SkipDefaultTransaction: true})
		if err := skipping.Create(&shipment{}).Error; !errors.Is(err, dispatcher.ErrNoTransaction) {
			t.Errorf("Create without the implicit transaction = %v; want ErrNoTransaction", err)
		}
		wantCount(t, db, &models.Job{}, 1)
	})
}
