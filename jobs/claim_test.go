package jobs_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func claimer(t *testing.T, db *gorm.DB) *jobs.Claimer {
	t.Helper()
	c, err := jobs.NewClaimer(db, jobs.ClaimerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func claim(t *testing.T, c *jobs.Claimer, limit int) []models.Job {
	t.Helper()
	claimed, err := c.Claim(t.Context(), limit)
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

// noAutocommit makes a claim a transaction of several statements on each server.
var noAutocommit = testdb.Isolation(sql.LevelRepeatableRead)

// holdClaim claims limit jobs of db in a transaction that stays open until the
// returned function is called. On PostgreSQL it takes noAutocommit.
func holdClaim(t *testing.T, db *gorm.DB, limit int) (release func() []models.Job) {
	t.Helper()
	again, p := through(t, db)
	p.hold = true
	var claimed []models.Job
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		var c *jobs.Claimer
		if c, err = jobs.NewClaimer(again, jobs.ClaimerConfig{}); err == nil {
			claimed, err = c.Claim(context.Background(), limit)
		}
	}()
	receive(t, p.held, "the claim is about to commit")
	var once sync.Once
	release = func() []models.Job {
		once.Do(func() { close(p.free) })
		<-done
		if err != nil {
			t.Fatal(err)
		}
		return claimed
	}
	t.Cleanup(func() { release() })
	return release
}

func TestSecondClaimTakesTheNextJobsAtOnceWhileTheFirstIsOpen(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		enqueueTallies(t, db, 30)
		release := holdClaim(t, db, 10)
		if n := rowsLocked(t, db); n > 2*10 {
			t.Errorf("the open claim of 10 has locked %d rows; want at most 20", n)
		}
		var second []models.Job
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			second, err = claimer(t, db).Claim(context.Background(), 10)
		}()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			t.Error("the second claim waits for the first")
		}
		first := release()
		<-done
		if err != nil || len(second) != 10 {
			t.Fatalf("the second claim got %d jobs, %v; want 10", len(second), err)
		}
		if len(first) != 10 {
			t.Fatalf("the first claim got %d jobs; want 10", len(first))
		}
		for _, a := range first {
			for _, b := range second {
				if a.ID == b.ID {
					t.Fatalf("both claims got job %d", a.ID)
				}
			}
		}
	}, testdb.Servers, testdb.Alone, noAutocommit)
}

// rowsLocked is how many rows of the index and the table the open transactions of
// a MySQL or MariaDB server have locked; 0 elsewhere, which does not tell.
func rowsLocked(t *testing.T, db *gorm.DB) (n int) {
	t.Helper()
	query := ""
	switch testdb.KindOf(db) {
	case testdb.MySQL:
		query = "SELECT COUNT(*) FROM performance_schema.data_locks WHERE lock_type = 'RECORD' AND object_schema = DATABASE()"
	case testdb.MariaDB:
		query = "SELECT COALESCE(SUM(trx_rows_locked), 0) FROM information_schema.innodb_trx"
	default:
		return 0
	}
	if err := db.Raw(query).Scan(&n).Error; err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Fatal("the open claim has locked no row")
	}
	return n
}

func TestJobsOfTheFutureDoNotStandBeforeDueOnes(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		fill(t, db, 20_000, models.Job{State: models.Scheduled, DueAt: 4e15, Priority: -10})
		future, err := dispatcher.EnqueueNow(t.Context(), db, tally{}, dispatcher.Priority(-10), dispatcher.Delay(365*24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		enqueueTallies(t, db, 100)
		if testdb.KindOf(db) == testdb.SQLite {
			if got := claim(t, claimer(t, db), 5); len(got) != 5 || got[0].Priority != 0 {
				t.Fatalf("the claim got %v; want 5 due jobs", got)
			}
			return // its only writer cannot be held
		}
		release := holdClaim(t, db, 5)
		if n := rowsLocked(t, db); n > 2*5 {
			t.Errorf("the claim of 5 has locked %d rows; want at most 10", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := jobs.Cancel(ctx, db, future.ID); err != nil {
			t.Errorf("cancel a future job during a claim: %v", err)
		}
		if got := release(); len(got) != 5 || got[0].Priority != 0 {
			t.Fatalf("the claim got %v; want 5 due jobs", got)
		}
	}, testdb.Alone, noAutocommit)
}

func TestFourWorkersRun300JobsOnce(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		enqueueTallies(t, db, 300)
		var mu sync.Mutex
		runs := map[uint64]int{}
		var wg sync.WaitGroup
		for range 4 {
			c := claimer(t, testdb.Again(t, db))
			wg.Go(func() {
				for {
					claimed, err := c.Claim(t.Context(), 7)
					if err != nil {
						t.Error(err)
					}
					if len(claimed) == 0 {
						return
					}
					mu.Lock()
					for _, j := range claimed {
						runs[j.ID]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(runs) != 300 {
			t.Errorf("%d jobs ran; want 300", len(runs))
		}
		for id, n := range runs {
			if n != 1 {
				t.Errorf("job %d ran %d times", id, n)
			}
		}
	})
}

func TestClaimTakesByPriorityThenAge(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var want []uint64
		for _, p := range []int{5, 5, -3, 0} {
			r, err := dispatcher.EnqueueNow(t.Context(), db, tally{}, dispatcher.Priority(p))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, r.ID)
		}
		want[0], want[1], want[2], want[3] = want[2], want[3], want[0], want[1]
		c := claimer(t, db)
		for i, id := range want {
			if got := claim(t, c, 1); len(got) != 1 || got[0].ID != id {
				t.Errorf("claim %d got %v; want job %d", i, got, id)
			}
		}
		if got := claim(t, c, 1); len(got) != 0 {
			t.Errorf("an empty queue gave %v", got)
		}
	})
}
