package jobs_test

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// late is a pool that holds back the answer to the commit of the first claim, as a
// network does, or a process that is stopped before it can read it.
type late struct {
	*sql.DB
	once      sync.Once
	committed chan struct{}
	free      chan struct{}
}

type lateTx struct {
	*sql.Tx
	p     *late
	claim bool
}

// BeginTx implements gorm.ConnPoolBeginner.
func (p *late) BeginTx(ctx context.Context, o *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.DB.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &lateTx{Tx: tx, p: p}, nil
}

// GetDBConn implements gorm.GetDBConnector.
func (p *late) GetDBConn() (*sql.DB, error) { return p.DB, nil }

// look recognises the write of a claim.
func (t *lateTx) look(query string) {
	t.claim = t.claim || strings.Contains(query, "UPDATE") && strings.Contains(query, "reserved_at")
}

func (t *lateTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	t.look(query)
	return t.Tx.QueryContext(ctx, query, args...)
}

func (t *lateTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	t.look(query)
	return t.Tx.ExecContext(ctx, query, args...)
}

func (t *lateTx) Commit() error {
	err := t.Tx.Commit()
	if t.claim {
		t.p.once.Do(func() {
			close(t.p.committed)
			<-t.p.free
		})
	}
	return err
}

// The answer to a claim comes when its lease is over, and another worker has the
// job by then: the two must not run it at once.
func TestClaimWhoseAnswerComesTooLateStartsNothing(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		own := testdb.Again(t, db)
		real, err := own.DB()
		if err != nil {
			t.Fatal(err)
		}
		p := &late{DB: real, committed: make(chan struct{}), free: make(chan struct{})}
		own.ConnPool, own.Statement.ConnPool = p, p
		started := make(chan struct{}, 5)
		reg := onPing(func(context.Context, ping) error { started <- struct{}{}; return nil })
		id := enqueue(t, db, ping{})
		w := newWorker(t, own, reg, jobs.Config{Lease: time.Second})
		stop := start(t, w)
		receive(t, p.committed, "the job is claimed")
		waitFor(t, 20*time.Second, "its lease is over, and it is reaped", func() bool {
			r, err := jobs.Reap(t.Context(), db)
			return err == nil && r.Returned == 1
		})
		other := claimOne(t, db)
		close(p.free)
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
