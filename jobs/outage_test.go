package jobs_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// wire stands between a handle and its server, and can be cut, or swallow what it
// should carry.
type wire struct {
	listener         net.Listener
	network, address string // of the server

	mu       sync.Mutex
	conns    map[net.Conn]bool
	down     bool // new connections are refused, as far as a listener can
	swallows atomic.Bool
}

// overWire returns a second handle on db's database, and the wire it goes over.
func overWire(t *testing.T, db *gorm.DB) (*gorm.DB, *wire) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, conns: map[net.Conn]bool{}}
	dsn := w.redirect(t, testdb.KindOf(db), testdb.DSN(db))
	served := make(chan struct{})
	go func() { defer close(served); w.serve() }()
	again, err := testdb.OpenDSN(testdb.KindOf(db), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pool, err := again.DB(); err == nil {
			pool.Close()
		}
		l.Close()
		w.cut()
		<-served
	})
	return again, w
}

// redirect makes a DSN lead over the wire, and notes where it led before.
func (w *wire) redirect(t *testing.T, kind testdb.Kind, dsn string) string {
	t.Helper()
	here := w.listener.Addr().String()
	if kind != testdb.Postgres {
		c, err := mysqldriver.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		w.network, w.address = c.Net, c.Addr
		c.Net, c.Addr = "tcp", here
		return c.FormatDSN()
	}
	c, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(int(c.Port))
	w.network, w.address = "tcp", net.JoinHostPort(c.Host, port)
	if strings.HasPrefix(c.Host, "/") {
		w.network, w.address = "unix", filepath.Join(c.Host, ".s.PGSQL."+port)
	}
	u, err := url.Parse(dsn)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		host, port, _ := net.SplitHostPort(here)
		return dsn + " host=" + host + " port=" + port
	}
	q := u.Query()
	q.Del("host")
	q.Del("port")
	u.Host, u.RawQuery = here, strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String()
}

func (w *wire) serve() {
	var carrying sync.WaitGroup
	defer carrying.Wait()
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(w.network, w.address)
		if err != nil || !w.keep(client, server) {
			client.Close()
			if server != nil {
				server.Close()
			}
			continue
		}
		for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
			carrying.Go(func() { w.carry(way[0], way[1]) })
		}
	}
}

func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.conns[c] = true
	}
	return !w.down
}

func (w *wire) carry(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 && !w.swallows.Load() {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut breaks all connections, and those to come, until mended.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for c := range w.conns {
		c.Close()
	}
	clear(w.conns)
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = false
}

// barrier is a registry whose handlers all return nil when the channel is closed.
func barrier(n int) (reg *handlers.Registry, there, open chan struct{}) {
	there, open = make(chan struct{}, n), make(chan struct{})
	return onPing(func(context.Context, ping) error {
		there <- struct{}{}
		<-open
		return nil
	}), there, open
}

// outageOf is how long outages last here, and in the long form.
func outageOf(short, long time.Duration) time.Duration {
	if os.Getenv("GORMJOBS_TEST_LONG") != "" {
		return long
	}
	return short
}

func wantCompletedOnce(t *testing.T, db *gorm.DB, ids []uint64) {
	t.Helper()
	for _, id := range ids {
		wantState(t, db, id, models.Completed, 1)
		if j := get(t, db, id); len(j.Failures) > 0 {
			t.Errorf("job %d has the failures %+v; want none", id, j.Failures)
		}
	}
}

// All connections are cut just as fifty handlers return nil, and then the worker
// is told to stop.
func TestOutcomesOutliveACutAndAStop(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		own, wire := overWire(t, db)
		reg, there, open := barrier(50)
		ids := enqueuePings(t, db, 50)
		book := &logbook{}
		w := newWorker(t, own, reg, jobs.Config{Queues: jobs.Queues{"default": 50}, Logger: book.logger()})
		stop := start(t, w)
		for range 50 {
			receive(t, there, "all run")
		}
		wire.cut()
		close(open)
		time.AfterFunc(outageOf(2*time.Second, 5*time.Second), wire.mend)
		began := time.Now()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 12*time.Second {
			t.Errorf("the stop took %s; want it within the 10 s of a shutdown", took)
		}
		wantCompletedOnce(t, db, ids)
		if s := w.Stats(); s.Completed != 50 || s.Lost != 0 {
			t.Errorf("Stats = %+v; want 50 completed", s)
		}
		steps, over := len(book.with("record outcomes: trying again")), len(book.with("record outcomes: works again"))
		if steps < 1 || steps > 10 || over != 1 || book.above(slog.LevelError) > 0 {
			t.Errorf("log %q; want a line for each step of the backoff, and that it is over", book.with(""))
		}
	}, testdb.Servers, testdb.Parallel)
}

// Packets vanish and no connection is reset. All loops get over it: the claims,
// the look for due jobs, the renewals, the record of outcomes.
func TestEveryLoopGetsOverABlackHole(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		own, wire := overWire(t, db)
		reg, there, open := barrier(100)
		ids := enqueuePings(t, db, 5)
		book := &logbook{}
		w := newWorker(t, own, reg, jobs.Config{Lease: 2 * time.Minute, Logger: book.logger()})
		stop := start(t, w)
		for range 5 {
			receive(t, there, "they run")
		}
		hole := outageOf(3*time.Second, time.Minute)
		wire.swallows.Store(true)
		close(open)
		ids = append(ids, enqueuePings(t, db, 5)...)
		ids = append(ids, enqueue(t, db, ping{}, dispatcher.Delay(hole+time.Second)))
		after := time.NewTimer(hole)
		<-after.C
		wire.swallows.Store(false)
		// Statements that were under way end after 30 s.
		waitFor(t, 45*time.Second, "all are completed", func() bool { return w.Stats().Completed == uint64(len(ids)) })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		wantCompletedOnce(t, db, ids)
		if n := len(book.with("works again")); n == 0 || book.above(slog.LevelError) > 0 {
			t.Errorf("log %q; want that something works again, and no error", book.with(""))
		}
	}, testdb.Servers, testdb.Parallel)
}

// refusing is a pool whose server is read-only for a while.
type refusing struct {
	*sql.DB
	kind     testdb.Kind
	readOnly *atomic.Bool
}

type refusingTx struct {
	*sql.Tx
	p *refusing
}

type sqliteReadOnly struct{}

func (sqliteReadOnly) Error() string { return "attempt to write a readonly database (8)" }
func (sqliteReadOnly) Code() int     { return 8 }

// refused is what a server says to a write.
func (p *refusing) refused(query string) error {
	verb, _, _ := strings.Cut(query, " ")
	writes := verb != "SELECT" || p.kind == testdb.Postgres && strings.Contains(query, "FOR UPDATE")
	if !writes || !p.readOnly.Load() {
		return nil
	}
	switch p.kind {
	case testdb.SQLite:
		return sqliteReadOnly{}
	case testdb.Postgres:
		return &pgconn.PgError{Severity: "ERROR", Code: "25006", Message: "cannot execute " + verb + " in a read-only transaction"}
	}
	return &mysqldriver.MySQLError{Number: 1290, Message: "The MySQL server is running with the --read-only option so it cannot execute this statement"}
}

// BeginTx implements gorm.ConnPoolBeginner.
func (p *refusing) BeginTx(ctx context.Context, o *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.DB.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &refusingTx{tx, p}, nil
}

// GetDBConn implements gorm.GetDBConnector.
func (p *refusing) GetDBConn() (*sql.DB, error) { return p.DB, nil }

func (p *refusing) ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error) {
	if err := p.refused(q); err != nil {
		return nil, err
	}
	return p.DB.ExecContext(ctx, q, args...)
}

func (p *refusing) QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	if err := p.refused(q); err != nil {
		return nil, err
	}
	return p.DB.QueryContext(ctx, q, args...)
}

func (t *refusingTx) ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error) {
	if err := t.p.refused(q); err != nil {
		return nil, err
	}
	return t.Tx.ExecContext(ctx, q, args...)
}

func (t *refusingTx) QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	if err := t.p.refused(q); err != nil {
		return nil, err
	}
	return t.Tx.QueryContext(ctx, q, args...)
}

// A failover has left the worker with a replica for a while: reads are answered,
// writes are refused.
func TestReadOnlyPeriodIsWaitedOut(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		own := testdb.Again(t, db)
		real, err := own.DB()
		if err != nil {
			t.Fatal(err)
		}
		var readOnly atomic.Bool
		own.ConnPool = &refusing{real, testdb.KindOf(db), &readOnly}
		own.Statement.ConnPool = own.ConnPool
		outlastsReadOnly(t, db, own, readOnly.Store)
	}, testdb.Parallel)
}

// The same with a real one: the database's sessions are read-only, and then other
// ones are not.
func TestReadOnlyPostgresIsWaitedOut(t *testing.T) {
	db := testdb.Open(t, testdb.Postgres)
	var name string
	if err := db.Raw("SELECT current_database()").Scan(&name).Error; err != nil {
		t.Fatal(err)
	}
	own := testdb.Again(t, db)
	outlastsReadOnly(t, db, own, func(on bool) {
		set := " RESET default_transaction_read_only"
		if on {
			set = " SET default_transaction_read_only = on"
		}
		if err := db.Exec("ALTER DATABASE " + name + set).Error; err != nil {
			t.Fatal(err)
		}
		// What the failover does to connections: db's own one stays.
		err := db.Connection(func(tx *gorm.DB) error {
			return tx.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()").Error
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// outlastsReadOnly turns the database of own read-only while ten handlers end, two
// jobs are renewed and others become due.
func outlastsReadOnly(t *testing.T, db, own *gorm.DB, turn func(on bool)) {
	t.Helper()
	reg, there, open := barrier(100)
	ids := enqueuePings(t, db, 10)
	book := &logbook{}
	w := newWorker(t, own, reg, jobs.Config{Lease: time.Minute, Logger: book.logger()})
	stop := start(t, w)
	for range 10 {
		receive(t, there, "they run")
	}
	// The others are there before: it may be the whole database that is read-only.
	ids = append(ids, enqueuePings(t, db, 10)...)
	ids = append(ids, enqueue(t, db, ping{}, dispatcher.Delay(time.Second)))
	turn(true)
	close(open)
	after := time.NewTimer(outageOf(2*time.Second, 20*time.Second))
	<-after.C
	if n := w.Stats().Completed; n > 0 {
		t.Errorf("%d jobs were completed while nothing could be written", n)
	}
	turn(false)
	waitFor(t, 20*time.Second, "all are completed", func() bool { return w.Stats().Completed == uint64(len(ids)) })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	wantCompletedOnce(t, db, ids)
	if lines := book.with("trying again"); len(lines) < 1 || len(lines) > 40 || book.above(slog.LevelError) > 0 {
		t.Errorf("log %q; want a line for each step of the backoff", lines)
	}
}
