package jobs_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
)

// hooks are called by a connection pool around what goes to a real database.
type hooks struct {
	begin     func()             // before a transaction begins
	committed func() (lost bool) // after one has committed, which its caller may not hear of
	done      func(query string) // after a statement outside of transactions
}

// hooked is a second handle on the database of db.
func hooked(t testing.TB, db *gorm.DB, h hooks) *gorm.DB {
	t.Helper()
	again := testdb.Again(t, db)
	pool, err := again.DB()
	if err != nil {
		t.Fatal(err)
	}
	again.ConnPool = &hookedPool{pool, h}
	again.Statement.ConnPool = again.ConnPool
	return again
}

type hookedPool struct {
	*sql.DB
	hooks
}

// BeginTx implements gorm.ConnPoolBeginner.
func (p *hookedPool) BeginTx(ctx context.Context, o *sql.TxOptions) (gorm.ConnPool, error) {
	if p.begin != nil {
		p.begin()
	}
	tx, err := p.DB.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &hookedTx{tx, p.hooks}, nil
}

// GetDBConn implements gorm.GetDBConnector.
func (p *hookedPool) GetDBConn() (*sql.DB, error) { return p.DB, nil }

func (p *hookedPool) after(query string) {
	if p.done != nil {
		p.done(query)
	}
}

func (p *hookedPool) ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error) {
	defer p.after(q)
	return p.DB.ExecContext(ctx, q, args...)
}

func (p *hookedPool) QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	defer p.after(q)
	return p.DB.QueryContext(ctx, q, args...)
}

func (p *hookedPool) QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row {
	defer p.after(q)
	return p.DB.QueryRowContext(ctx, q, args...)
}

type hookedTx struct {
	*sql.Tx
	hooks
}

// errBroken is what a connection says that broke.
var errBroken = errors.New("write: broken pipe")

func (t *hookedTx) Commit() error {
	err := t.Tx.Commit()
	if err == nil && t.committed != nil && t.committed() {
		return errBroken
	}
	return err
}

// breaking asks after every commit whether its answer gets lost.
func breaking(t testing.TB, db *gorm.DB, lost func() bool) *gorm.DB {
	t.Helper()
	return hooked(t, db, hooks{committed: lost})
}

// onBegin calls fn before the first transaction begins.
func onBegin(t testing.TB, db *gorm.DB, fn func()) *gorm.DB {
	t.Helper()
	return hooked(t, db, hooks{begin: sync.OnceFunc(fn)})
}

// counting counts transactions, and statements outside of them.
func counting(t testing.TB, db *gorm.DB) (*gorm.DB, func() int64) {
	t.Helper()
	var n atomic.Int64
	return hooked(t, db, hooks{begin: func() { n.Add(1) }, done: func(string) { n.Add(1) }}), n.Load
}
