package dispatcher_test

import (
	"context"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
)

// The worker of this process polls once a minute here, so that only the news of
// the commit, or the impatience after an enqueue, can be what wakes it.
func TestJobStartsAtOnceAfterTheCommitAndNotBefore(t *testing.T) {
	begin := map[string]func(ctx context.Context, db *gorm.DB, fn func(*gorm.DB) error) error{
		"dispatcher.Transaction": dispatcher.Transaction,
		"db.Transaction": func(ctx context.Context, db *gorm.DB, fn func(*gorm.DB) error) error {
			return db.WithContext(ctx).Transaction(fn)
		},
	}
	for name, transaction := range begin {
		t.Run(name, func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				if testdb.KindOf(db) == testdb.SQLite {
					db = twoConnections(t, db)
				}
				started := make(chan time.Time, 1)
				registry := handlers.NewRegistry()
				handlers.Register(registry, func(context.Context, welcome) error {
					started <- time.Now()
					return nil
				})
				w, err := jobs.NewWorker(db, registry, jobs.Config{PollInterval: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- w.Run(ctx) }()
				err = transaction(t.Context(), db, func(tx *gorm.DB) error {
					if _, err := dispatcher.Enqueue(t.Context(), tx, welcome{7}); err != nil {
						return err
					}
					select {
					case <-started:
						t.Error("the job started before the commit")
					case <-time.After(2 * time.Second): // the case's own open transaction
					}
					return nil
				})
				committed := time.Now()
				if err != nil {
					t.Fatal(err)
				}
				select {
				case at := <-started:
					if late := at.Sub(committed); late > 500*time.Millisecond {
						t.Errorf("started %v after the commit; want at once", late)
					}
				case <-time.After(20 * time.Second):
					t.Error("not started 20s after the commit; want at once")
				}
				stop()
				if err := <-done; err != nil {
					t.Errorf("Run = %v; want nil", err)
				}
			}, testdb.Parallel)
		})
	}
}

// twoConnections lets the worker read while the caller's transaction is open.
func twoConnections(t *testing.T, db *gorm.DB) *gorm.DB {
	t.Helper()
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxOpenConns(2)
	return db
}
