package dispatcher_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

func wantHint(t *testing.T, err error, hint string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), hint) {
		t.Errorf("error = %v; want it to say %q", err, hint)
	}
}

func TestMissingTableNamesTheRemedy(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		_, err := dispatcher.EnqueueNow(t.Context(), db, welcome{1})
		wantHint(t, err, "models.Migrate")
		_ = db.Transaction(func(tx *gorm.DB) error {
			_, err := dispatcher.Enqueue(t.Context(), tx, welcome{1})
			wantHint(t, err, "models.Migrate")
			return err
		})
	}, testdb.Empty)
}

// The caller waits for a connection that it has itself.
func TestExhaustedPoolNamesTheRemedy(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		err := db.Transaction(func(*gorm.DB) error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := dispatcher.EnqueueNow(ctx, db, welcome{1})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("EnqueueNow = %v; want the context's error", err)
			}
			wantHint(t, err, "through its tx")
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}, testdb.Pool(1))
}

func TestRefusedPayloadOfManyIsNumbered(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		_ = db.Transaction(func(tx *gorm.DB) error {
			_, err := dispatcher.EnqueueMany(t.Context(), tx, []models.Payload{welcome{1}, nil, welcome{3}})
			wantHint(t, err, "number 2 of 3")
			return nil
		})
	})
}
