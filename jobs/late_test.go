package jobs_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// The answer to a claim comes when its lease is over, and another worker has the
// job by then: the two must not run it at once.
func TestClaimWhoseAnswerComesTooLateStartsNothing(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		// The answer to the first claim is held back, as a network does, or a process that
		// is stopped before it can read it.
		committed, free := make(chan struct{}), make(chan struct{})
		late := sync.OnceFunc(func() { close(committed); <-free })
		own := hooked(t, db, hooks{committed: func(query string) bool {
			if strings.Contains(query, "UPDATE") && strings.Contains(query, "reserved_at") {
				late()
			}
			return false
		}})
		started := make(chan struct{}, 5)
		reg := onPing(func(context.Context, ping) error { started <- struct{}{}; return nil })
		id := enqueue(t, db, ping{})
		w := newWorker(t, own, reg, jobs.Config{Lease: time.Second})
		stop := start(t, w)
		receive(t, committed, "the job is claimed")
		waitFor(t, 20*time.Second, "its lease is over, and it is reaped", func() bool {
			r, err := jobs.Reap(t.Context(), db)
			return err == nil && r.Returned == 1
		})
		other := claimOne(t, db)
		close(free)
		waitFor(t, 20*time.Second, "the worker notices", func() bool { return w.Stats().Lost == 1 || len(started) > 0 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if len(started) > 0 {
			t.Error("the job was begun while another worker had it")
		}
		wantState(t, db, id, models.Processing, 2)
		if j := get(t, db, id); j.ReservedBy != other.ReservedBy {
			t.Errorf("the job is reserved by %q; want %q", j.ReservedBy, other.ReservedBy)
		}
	}, testdb.Parallel)
}
