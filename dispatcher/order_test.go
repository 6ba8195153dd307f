package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// B waits for A, whose transaction has the key, and gets the key when A gives up.
func TestKeyOfARolledBackJobIsFree(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		other := testdb.Again(t, db)
		a := db.Begin()
		defer a.Rollback()
		if _, err := dispatcher.Enqueue(t.Context(), a, welcome{1}, dispatcher.Unique("k")); err != nil {
			t.Fatal(err)
		}
		began, done := make(chan struct{}), make(chan error, 1)
		var receipt dispatcher.Receipt
		go func() {
			close(began)
			done <- other.Transaction(func(tx *gorm.DB) (err error) {
				receipt, err = dispatcher.Enqueue(context.Background(), tx, welcome{2}, dispatcher.Unique("k"))
				return err
			})
		}()
		<-began
		select {
		case err := <-done:
			t.Errorf("B ended before A with %v; want it to wait", err)
			done <- err
		case <-time.After(200 * time.Millisecond): // B is at the key
		}
		if err := a.Rollback().Error; err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil || receipt.Duplicate {
			t.Fatalf("B = %+v, %v; want a new job", receipt, err)
		}
		if j := theJob(t, db); j.Payload != `{"user_id":2}` || j.ID != receipt.ID {
			t.Errorf("job = %d %s; want B's, %d", j.ID, j.Payload, receipt.ID)
		}
	})
}

// Keys are taken in one order: two batches may wait for each other, not in a circle.
func TestOppositeBatchesNeverDeadlock(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		handles := []*gorm.DB{db, testdb.Again(t, db)}
		const rounds = 200
		total, size := 0, 100
		for round := range rounds {
			if round == 5 && os.Getenv("GORMJOBS_TEST_LONG") == "" {
				size = 10 // without the order, the first round deadlocks
			}
			total += size
			batch := make([]keyed, size)
			for i := range batch {
				batch[i] = keyed{fmt.Sprintf("%d-%d", round, i), i}
			}
			batches := [][]keyed{batch, slices.Clone(batch)}
			slices.Reverse(batches[1])
			var duplicates [2]int
			together(2, func(i int) {
				giveUp := round%4 == 3 && i == round%8/4 // a rollback sets the other's waits free
				err := handles[i].Transaction(func(tx *gorm.DB) error {
					rs, err := dispatcher.EnqueueMany(context.Background(), tx, batches[i])
					for _, r := range rs {
						if r.Duplicate {
							duplicates[i]++
						}
					}
					if giveUp && err == nil {
						return errBusiness
					}
					return err
				})
				if err != nil && !errors.Is(err, errBusiness) {
					t.Errorf("round %d: EnqueueMany = %v; want nil", round, err)
				}
			})
			if t.Failed() {
				return
			}
			if n := duplicates[0] + duplicates[1]; round%4 != 3 && n != size {
				t.Errorf("round %d: duplicates = %v; want %d together", round, duplicates, size)
			}
		}
		wantCount(t, db, &models.Job{}, int64(total))
	}, testdb.Parallel)
}
