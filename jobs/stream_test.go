package jobs_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

var errStream = errors.New("the stream broke")

// cutting opens connections of a real driver whose streams of rows break after
// so many rows while left is positive.
type cutting struct {
	driver.Connector
	left *atomic.Int64
}

func (b cutting) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := b.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return cuttingConn{c, b.left}, nil
}

type cuttingConn struct {
	driver.Conn
	left *atomic.Int64
}

func (c cuttingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

func (c cuttingConn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, q, args)
}

func (c cuttingConn) PrepareContext(ctx context.Context, q string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, q)
	if err != nil {
		return nil, err
	}
	return cuttingStmt{s, c.left}, nil
}

type cuttingStmt struct {
	driver.Stmt
	left *atomic.Int64
}

func (s cuttingStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s cuttingStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	return cutIf(rows, err, s.left)
}

func cutIf(rows driver.Rows, err error, left *atomic.Int64) (driver.Rows, error) {
	if err != nil || left.Load() == 0 {
		return rows, err
	}
	return &cuttingRows{rows, left}, nil
}

func (c cuttingConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c cuttingConn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, q, args)
	return cutIf(rows, err, c.left)
}

type cuttingRows struct {
	driver.Rows
	left *atomic.Int64
}

func (r *cuttingRows) Next(dest []driver.Value) error {
	if r.left.Load() > 0 && r.left.Add(-1) == 0 {
		return errStream
	}
	return r.Rows.Next(dest)
}

// cuttingHandle is a second handle on db's database whose next stream of rows
// breaks before the n-th row, n being what is stored in left.
func cuttingHandle(t *testing.T, db *gorm.DB, left *atomic.Int64) *gorm.DB {
	t.Helper()
	again := testdb.Again(t, db)
	real, err := again.DB()
	if err != nil {
		t.Fatal(err)
	}
	var connector driver.Connector = dsnConnector{testdb.DSN(db), real.Driver()}
	if d, ok := real.Driver().(driver.DriverContext); ok {
		if connector, err = d.OpenConnector(testdb.DSN(db)); err != nil {
			t.Fatal(err)
		}
	}
	broken := sql.OpenDB(cutting{connector, left})
	broken.SetMaxOpenConns(1)
	t.Cleanup(func() { broken.Close() })
	again.Statement.ConnPool = broken
	return again
}

type dsnConnector struct {
	dsn string
	d   driver.Driver
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.d.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.d }

func TestClaimWhoseRowsBreakHalfWayReservesNothing(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		enqueueTallies(t, db, 10)
		var left atomic.Int64
		c := claimer(t, cuttingHandle(t, db, &left))
		left.Store(4)
		if claimed, err := c.Claim(t.Context(), 10); !errors.Is(err, errStream) || len(claimed) != 0 {
			t.Errorf("the broken claim gave %d jobs, %v; want none and the error", len(claimed), err)
		}
		counts, err := jobs.Count(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		if counts[models.Pending] != 10 {
			t.Errorf("after it %v; want 10 pending", counts)
		}
		if claimed := claim(t, c, 10); len(claimed) != 10 {
			t.Errorf("the next claim got %d jobs; want 10", len(claimed))
		}
	})
}

func TestDamagedPayloadFailsItsOwnJobOnly(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		enqueueTallies(t, db, 10)
		damaged := `{"n": `
		if testdb.KindOf(db) == testdb.Postgres {
			damaged = `"no object"` // its json column refuses what is not JSON
		}
		if err := db.Exec("UPDATE queue_jobs SET payload = ? WHERE id = 4", damaged).Error; err != nil {
			t.Fatal(err)
		}
		var ran atomic.Int64
		reg := handlers.NewRegistry()
		handlers.Register(reg, func(context.Context, tally) error { ran.Add(1); return nil })
		w, err := jobs.NewWorker(db, reg, jobs.Config{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ran.Load() != 9 {
			t.Errorf("%d handlers ran; want 9", ran.Load())
		}
		job, err := jobs.Get(t.Context(), db, 4)
		if err != nil {
			t.Fatal(err)
		}
		if job.State != models.Scheduled || job.Attempts != 1 || len(job.Failures) != 1 {
			t.Errorf("the damaged job is %s after %d attempts with %d failures; want a failed attempt", job.State, job.Attempts, len(job.Failures))
		}
	})
}
