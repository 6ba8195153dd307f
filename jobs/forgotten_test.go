package jobs_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// The completion went with the handler's writes, so it must be gone with them too:
// a worker that writes it once more would leave a completed job without effect.
func TestForgottenCommitRunsTheJobAgain(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if err := db.AutoMigrate(&effect{}); err != nil {
			t.Fatal(err)
		}
		id := enqueue(t, db, ping{N: 1})
		// The server forgets the first transaction with effects after it has acknowledged
		// its commit: it gave up durability and crashed, or a replica took over that never
		// had it.
		forget := sync.OnceFunc(func() {
			change(t, db, id, map[string]any{"state": models.Processing, "finished_at": nil})
			if err := db.Where("n = 1").Delete(&effect{}).Error; err != nil {
				t.Error(err)
			}
		})
		own := hooked(t, db, hooks{committed: func(query string) bool {
			if strings.Contains(query, "effects") {
				forget()
			}
			return false
		}})
		reg := onPingTx(func(_ context.Context, tx *gorm.DB, j ping) error { return tx.Create(&effect{N: j.N}).Error })
		w := newWorker(t, own, reg, jobs.Config{})
		drain(t, w, 1)
		wantEffects(t, db, 0)
		wantState(t, db, id, models.Processing, 1)
		expire(t, db, id)
		reap(t, db, jobs.Reaped{Returned: 1})
		drain(t, w, 1)
		wantEffects(t, db, 1)
		wantState(t, db, id, models.Completed, 2)
	})
}
