package jobs_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
)

// pool stands between a handle and its real pool: it tells what is sent, and can
// hold a commit back.
type pool struct {
	*sql.DB
	mu   sync.Mutex
	sent []statement
	hold bool
	held chan struct{} // receives when a commit is held back
	free chan struct{} // lets it go
}

type statement struct {
	sql  string
	args []any
}

// through returns a second handle on db's database, and the pool it goes through.
func through(t *testing.T, db *gorm.DB, opts ...testdb.Option) (*gorm.DB, *pool) {
	t.Helper()
	again := testdb.Again(t, db, opts...)
	real, err := again.DB()
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{DB: real, held: make(chan struct{}, 1), free: make(chan struct{})}
	again.Statement.ConnPool = p
	return again, p
}

func (p *pool) note(query string, args []any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, statement{query, args})
}

// statements returns what was sent since the last call.
func (p *pool) statements() []statement {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.sent
	p.sent = nil
	return sent
}

func (p *pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	p.note(query, args)
	return p.DB.QueryContext(ctx, query, args...)
}

func (p *pool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	p.note(query, args)
	return p.DB.QueryRowContext(ctx, query, args...)
}

func (p *pool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	p.note(query, args)
	return p.DB.ExecContext(ctx, query, args...)
}

// BeginTx implements gorm.ConnPoolBeginner.
func (p *pool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.DB.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &poolTx{tx, p}, nil
}

type poolTx struct {
	*sql.Tx
	p *pool
}

func (t *poolTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	t.p.note(query, args)
	return t.Tx.QueryContext(ctx, query, args...)
}

func (t *poolTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	t.p.note(query, args)
	return t.Tx.ExecContext(ctx, query, args...)
}

func (t *poolTx) Commit() error {
	if t.p.hold {
		t.p.held <- struct{}{}
		<-t.p.free
	}
	return t.Tx.Commit()
}
