package jobs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

var errStream = errors.New("the stream broke")

// cuttingHandle is a second handle on db's database whose next stream of rows
// breaks before the n-th row, n being what is stored in left.
func cuttingHandle(t *testing.T, db *gorm.DB, left *atomic.Int64) *gorm.DB {
	t.Helper()
	return hooked(t, db, hooks{row: func() error {
		if left.Load() > 0 && left.Add(-1) == 0 {
			return errStream
		}
		return nil
	}})
}

func TestClaimWhoseRowsBreakHalfWayReservesNothing(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		enqueueTallies(t, db, 10)
		var left atomic.Int64
		c := claimer(t, cuttingHandle(t, db, &left))
		left.Store(4)
		if claimed, err := c.Claim(t.Context(), 10); !errors.Is(err, errStream) || len(claimed) != 0 {
			t.Errorf("the broken claim gave %d jobs, %v; want none and the error", len(claimed), err)
		}
		counts, err := jobs.Count(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		if counts[models.Pending] != 10 {
			t.Errorf("after it %v; want 10 pending", counts)
		}
		for id := range uint64(10) {
			wantState(t, db, id+1, models.Pending, 0)
		}
		if claimed := claim(t, c, 10); len(claimed) != 10 {
			t.Errorf("the next claim got %d jobs; want 10", len(claimed))
		}
	})
}

func TestDamagedPayloadFailsItsOwnJobOnly(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		enqueueTallies(t, db, 10)
		damaged := `{"n": `
		if testdb.KindOf(db) == testdb.Postgres {
			damaged = `"no object"` // its json column refuses what is not JSON
		}
		if err := db.Exec("UPDATE queue_jobs SET payload = ? WHERE id = 4", damaged).Error; err != nil {
			t.Fatal(err)
		}
		var ran atomic.Int64
		reg := handlers.NewRegistry()
		handlers.Register(reg, func(context.Context, tally) error { ran.Add(1); return nil })
		w, err := jobs.NewWorker(db, reg, jobs.Config{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ran.Load() != 9 {
			t.Errorf("%d handlers ran; want 9", ran.Load())
		}
		job, err := jobs.Get(t.Context(), db, 4)
		if err != nil {
			t.Fatal(err)
		}
		if job.State != models.Scheduled || job.Attempts != 1 || len(job.Failures) != 1 {
			t.Errorf("the damaged job is %s after %d attempts with %d failures; want a failed attempt", job.State, job.Attempts, len(job.Failures))
		}
	})
}
