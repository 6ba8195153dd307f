package dispatcher_test

import (
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func TestUniqueKeyIsFreeAgainOnceFinished(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		enqueue := func(opt dispatcher.Option) dispatcher.Receipt {
			t.Helper()
			r, err := dispatcher.EnqueueNow(t.Context(), db, welcome{7}, opt)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		first := enqueue(dispatcher.Unique("k"))
		day := enqueue(dispatcher.UniqueFor("k", 24*time.Hour)) // another scope
		if day.Duplicate {
			t.Errorf("receipt for a day = %+v; want a new job", day)
		}
		for _, id := range []uint64{first.ID, day.ID} {
			if err := jobs.Cancel(t.Context(), db, id); err != nil {
				t.Fatal(err)
			}
		}
		if r := enqueue(dispatcher.Unique("k")); r.Duplicate {
			t.Errorf("receipt after the first is finished = %+v; want a new job", r)
		}
		if r := enqueue(dispatcher.UniqueFor("k", 24*time.Hour)); !r.Duplicate || r.ID != day.ID {
			t.Errorf("receipt within the day = %+v; want a duplicate of %d", r, day.ID)
		}
		if r := enqueue(dispatcher.UniqueFor("k", 48*time.Hour)); r.Duplicate {
			t.Errorf("receipt for another period = %+v; want a new job", r)
		}
	})
}

// Short periods, so that some end while the test runs.
func TestPeriodEnds(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		const period = 50 * time.Millisecond
		began := time.Now()
		for fresh := 0; fresh < 4; {
			r, err := dispatcher.EnqueueNow(t.Context(), db, welcome{7}, dispatcher.UniqueFor("k", period))
			if err != nil {
				t.Fatal(err)
			}
			if !r.Duplicate {
				fresh++
			}
		}
		wantCount(t, db, &models.Job{}, 4)
		// The first may have come at the end of its period, the fourth at the start.
		if d := time.Since(began); d < 2*period {
			t.Errorf("jobs of four periods of %v took %v; want the key taken for each", period, d)
		}
	})
}

func TestEveryPayloadOfABatchHasItsOwnKey(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		perUser := func(r *dispatcher.Request) { r.UniqueKey = fmt.Sprint(r.Payload.(welcome).UserID) }
		receipts, _ := enqueueMany(t, db, []welcome{{1}, {2}, {1}}, perUser)
		if receipts[0].Duplicate || receipts[1].Duplicate || !receipts[2].Duplicate || receipts[2].ID != receipts[0].ID {
			t.Errorf("receipts = %+v; want the third a duplicate of the first", receipts)
		}
	})
}
