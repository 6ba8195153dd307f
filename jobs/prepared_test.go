package jobs_test

import (
	"context"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// GORM keeps what it has prepared for a day, and by default without a limit: a
// statement whose text is another each time must not be among it.
func TestPreparedStatementsStayFew(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		prepared := db.ConnPool.(*gorm.PreparedStmtDB).Stmts
		w := newWorker(t, db, onPing(func(_ context.Context, p ping) error {
			if p.N%3 == 0 {
				return handlers.Discard(errBoom)
			}
			return nil
		}), jobs.Config{Queues: jobs.Queues{"default": 7}})
		round := func(n int) {
			enqueuePings(t, db, n)
			enqueuePings(t, db, n, dispatcher.Delay(time.Hour))
			if err := db.Model(&models.Job{}).Where("due_at IS NOT NULL").Update("due_at", 5).Error; err != nil {
				t.Fatal(err)
			}
			drain(t, w, 2*n)
			if _, err := jobs.Reap(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			if _, err := jobs.Prune(t.Context(), db, jobs.PruneOptions{Completed: time.Nanosecond, Failed: time.Nanosecond}); err != nil {
				t.Fatal(err)
			}
		}
		round(5)
		round(6)
		before := len(prepared.Keys())
		for n := 7; n < 15; n++ {
			round(n)
		}
		if keys := prepared.Keys(); len(keys) > before {
			t.Errorf("%d prepared statements, and %d after more jobs of the same kind, one of these %q", before, len(keys), keys[before:])
		}
	}, testdb.GormConfig(func(c *gorm.Config) { c.PrepareStmt = true }))
}
