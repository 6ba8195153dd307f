package jobs_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
)

// hooks are called by the connections of a real database's driver.
type hooks struct {
	begin     func()                         // before a transaction begins
	committed func(query string) (lost bool) // after one has committed, of one statement or more; its caller may not hear of it
	done      func(query string)             // after a statement outside of transactions
	row       func() error                   // before a row is read, which may break the stream
}

// errBroken is what a connection says that broke.
var errBroken = errors.New("write: broken pipe")

// hooked is a second handle on the database of db.
func hooked(t testing.TB, db *gorm.DB, h hooks) *gorm.DB {
	t.Helper()
	again := testdb.Again(t, db)
	real, err := again.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool, err := h.pool(real, testdb.DSN(db))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	again.ConnPool, again.Statement.ConnPool = pool, pool
	return again
}

// pool is another one like real, with hooks.
func (h hooks) pool(real *sql.DB, dsn string) (pool *sql.DB, err error) {
	var connector driver.Connector = dsnConnector{dsn, real.Driver()}
	if d, ok := real.Driver().(driver.DriverContext); ok {
		if connector, err = d.OpenConnector(dsn); err != nil {
			return nil, err
		}
	}
	pool = sql.OpenDB(hookedConnector{connector, h})
	size := real.Stats().MaxOpenConnections
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	return pool, nil
}

type dsnConnector struct {
	dsn string
	d   driver.Driver
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.d.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.d }

type hookedConnector struct {
	driver.Connector
	hooks
}

func (c hookedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &hookedConn{Conn: conn, hooks: c.hooks}, nil
}

type hookedConn struct {
	driver.Conn
	hooks
	open bool            // a transaction is
	text strings.Builder // of its statements
}

func (c *hookedConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if c.begin != nil {
		c.begin()
	}
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	c.open = true
	c.text.Reset()
	return hookedTx{tx, c}, nil
}

type hookedTx struct {
	driver.Tx
	c *hookedConn
}

func (t hookedTx) Commit() error {
	t.c.open = false
	if err := t.Tx.Commit(); err != nil {
		return err
	}
	return t.c.commit(t.c.text.String())
}

func (t hookedTx) Rollback() error {
	t.c.open = false
	return t.Tx.Rollback()
}

func (c *hookedConn) commit(query string) error {
	if c.committed != nil && c.committed(query) {
		return errBroken
	}
	return nil
}

// sent is called when a statement has succeeded.
func (c *hookedConn) sent(query string) error {
	if c.open {
		c.text.WriteString(query + "\n")
		return nil
	}
	if c.done != nil {
		c.done(query)
	}
	switch verb, _, _ := strings.Cut(query, " "); verb {
	case "INSERT", "UPDATE", "DELETE", "WITH":
		return c.commit(query)
	}
	return nil
}

func (c *hookedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	if err == nil {
		err = c.sent(query)
	}
	return result, err
}

func (c *hookedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return &hookedRows{Rows: rows, c: c, query: query}, nil
}

func (c *hookedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return hookedStmt{s, c, query}, nil
}

func (c *hookedConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// Interfaces of a connection that a pool looks for.

func (c *hookedConn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *hookedConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

type hookedStmt struct {
	driver.Stmt
	c     *hookedConn
	query string
}

func (s hookedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	result, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	if err == nil {
		err = s.c.sent(s.query)
	}
	return result, err
}

func (s hookedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	return &hookedRows{Rows: rows, c: s.c, query: s.query}, nil
}

// hookedRows are of a statement that has succeeded when they end.
type hookedRows struct {
	driver.Rows
	c     *hookedConn
	query string
	ended bool
}

func (r *hookedRows) Next(dest []driver.Value) error {
	if r.c.row != nil {
		if err := r.c.row(); err != nil {
			r.ended = true
			return err
		}
	}
	err := r.Rows.Next(dest)
	if err != nil && !r.ended {
		r.ended = true
		if errors.Is(err, io.EOF) {
			if sentErr := r.c.sent(r.query); sentErr != nil {
				return sentErr
			}
		}
	}
	return err
}

// Close ends rows of which not all were wanted.
func (r *hookedRows) Close() error {
	err := r.Rows.Close()
	if err == nil && !r.ended {
		r.ended = true
		err = r.c.sent(r.query)
	}
	return err
}

// breaking asks after every commit whether its answer gets lost.
func breaking(t testing.TB, db *gorm.DB, lost func() bool) *gorm.DB {
	t.Helper()
	return hooked(t, db, hooks{committed: func(string) bool { return lost() }})
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
