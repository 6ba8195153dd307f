package jobs_test

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// forgetful is a pool of a server that forgets the first transaction with effects
// after it has acknowledged its commit: it gave up durability and crashed, or a
// replica took over that never had it.
type forgetful struct {
	*sql.DB
	once   sync.Once
	forget func()
}

type forgetfulTx struct {
	*sql.Tx
	p       *forgetful
	effects bool
}

// BeginTx implements gorm.ConnPoolBeginner.
func (p *forgetful) BeginTx(ctx context.Context, o *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.DB.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &forgetfulTx{Tx: tx, p: p}, nil
}

// GetDBConn implements gorm.GetDBConnector.
func (p *forgetful) GetDBConn() (*sql.DB, error) { return p.DB, nil }

func (t *forgetfulTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	t.effects = t.effects || strings.Contains(query, "effects")
	return t.Tx.QueryContext(ctx, query, args...)
}

func (t *forgetfulTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	t.effects = t.effects || strings.Contains(query, "effects")
	return t.Tx.ExecContext(ctx, query, args...)
}

func (t *forgetfulTx) Commit() error {
	err := t.Tx.Commit()
	if err == nil && t.effects {
		t.p.once.Do(t.p.forget)
	}
	return err
}

// The completion went with the handler's writes, so it must be gone with them too:
// a worker that writes it once more would leave a completed job without effect.
func TestForgottenCommitRunsTheJobAgain(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if err := db.AutoMigrate(&effect{}); err != nil {
			t.Fatal(err)
		}
		id := enqueue(t, db, ping{N: 1})
		own := testdb.Again(t, db)
		real, err := own.DB()
		if err != nil {
			t.Fatal(err)
		}
		p := &forgetful{DB: real, forget: func() {
			change(t, db, id, map[string]any{"state": models.Processing, "finished_at": nil})
			if err := db.Where("n = 1").Delete(&effect{}).Error; err != nil {
				t.Error(err)
			}
		}}
		own.ConnPool, own.Statement.ConnPool = p, p
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
