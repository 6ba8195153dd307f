package dispatcher_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// What is remembered of a statement does not outlive the tables it is for.
func TestEnqueueNowGoesOnWhenTheTablesAreMadeAgain(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		for i := range 3 {
			if r, err := dispatcher.EnqueueNow(t.Context(), db, welcome{i}); err != nil || r.ID != uint64(i+1) {
				t.Fatalf("EnqueueNow = %+v, %v; want job %d", r, err, i+1)
			}
		}
		if err := db.Migrator().DropTable(&models.Job{}); err != nil {
			t.Fatal(err)
		}
		_, err := dispatcher.EnqueueNow(t.Context(), db, welcome{4})
		wantHint(t, err, "models.Migrate")
		if err := models.Migrate(db); err != nil {
			t.Fatal(err)
		}
		if r, err := dispatcher.EnqueueNow(t.Context(), db, welcome{5}); err != nil || r.ID != theJob(t, db).ID {
			t.Errorf("EnqueueNow = %+v, %v; want the id of the only job", r, err)
		}
	})
}

// The first two wait for the only connection, one of them not for long.
func TestEnqueueNowWaitsByItsOwnContextOnly(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		hasty, cancel := context.WithCancel(t.Context())
		errs := map[context.Context]chan error{hasty: make(chan error, 1), t.Context(): make(chan error, 1)}
		err := db.Transaction(func(*gorm.DB) error {
			for ctx, err := range errs {
				go func() {
					_, e := dispatcher.EnqueueNow(ctx, db, welcome{1})
					err <- e
				}()
			}
			pool, err := db.DB()
			if err != nil {
				return err
			}
			poll := time.NewTicker(time.Millisecond)
			defer poll.Stop()
			limit := time.After(20 * time.Second)
			for pool.Stats().WaitCount < 2 {
				select {
				case <-poll.C:
				case <-limit:
					return errors.New("the two do not wait for the connection")
				}
			}
			cancel()
			if err := <-errs[hasty]; !errors.Is(err, context.Canceled) {
				t.Errorf("EnqueueNow = %v; want its context's error", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-errs[t.Context()]; err != nil {
			t.Errorf("EnqueueNow beside it = %v; want a job", err)
		}
		wantCount(t, db, &models.Job{}, 1)
	}, testdb.Pool(1))
}
