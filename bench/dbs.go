package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3"
)

// Each peer has its own database on the server, so that counters and vacuums of one do not touch another.

const ordersPG = `CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, total_cents bigint NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`
const ordersMy = `CREATE TABLE orders (id bigint PRIMARY KEY, customer varchar(80) NOT NULL, total_cents bigint NOT NULL, created_at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))`
const ordersLite = `CREATE TABLE orders (id integer PRIMARY KEY, customer text NOT NULL, total_cents integer NOT NULL, created_at text NOT NULL DEFAULT CURRENT_TIMESTAMP)`

// databaseOf is the peer's own database; each variant of its settings has another.
func databaseOf(peer string) string {
	name := "bench_" + peer
	if v := os.Getenv("BENCH_VARIANT"); v != "" {
		name += "_" + v
	}
	return strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(name))
}

// pgFresh makes the peer's database if it is missing, empties it and returns its DSN.
func pgFresh(ctx context.Context, dsn, peer string) (string, error) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	name := databaseOf(peer)
	if _, err := c.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		return "", err
	}
	if _, err := c.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return "", err
	}
	d := fmt.Sprintf("postgres://%s@%s:%d/%s?sslmode=disable", cfg.User, cfg.Host, cfg.Port, name)
	c2, err := pgx.Connect(ctx, d)
	if err != nil {
		return "", err
	}
	defer c2.Close(ctx)
	_, err = c2.Exec(ctx, ordersPG+"; CREATE EXTENSION IF NOT EXISTS pg_stat_statements; CHECKPOINT")
	return d, err
}

func pgPool(ctx context.Context, dsn string, max int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = max
	return pgxpool.NewWithConfig(ctx, cfg)
}

func pgSQL(dsn string, max int) (*sql.DB, error) {
	d, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	d.SetMaxOpenConns(max)
	d.SetMaxIdleConns(max)
	return d, nil
}

func pgExec(ctx context.Context, dsn string, qs ...string) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for _, q := range qs {
		if _, err := c.Exec(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// pgSettle gives the planner statistics and leaves no checkpoint pending before a timed run.
func pgSettle(ctx context.Context, dsn string) error {
	return pgExec(ctx, dsn, "VACUUM ANALYZE", "CHECKPOINT")
}

// mySettle waits until what was loaded is on the disk, as a checkpoint does, at the pace of the disk: else the flushing
// goes on in the timed part.
func mySettle(ctx context.Context, db *sql.DB, table string) error {
	set := func(name, value string) error {
		_, err := db.ExecContext(ctx, "SET GLOBAL "+name+" = "+value)
		return err
	}
	settings := []struct{ name, meanwhile, before string }{ // the pace's bound last, which follows the pace up
		{"innodb_max_dirty_pages_pct", "0", ""}, {"innodb_io_capacity", "20000", ""}, {"innodb_io_capacity_max", "20000", ""},
	}
	var name string
	for i, s := range settings {
		if err := db.QueryRowContext(ctx, "SHOW GLOBAL VARIABLES LIKE '"+s.name+"'").Scan(&name, &settings[i].before); err != nil {
			return err
		}
	}
	for _, s := range settings {
		if err := set(s.name, s.meanwhile); err != nil {
			return err
		}
	}
	for dead := time.Now().Add(2 * time.Minute); time.Now().Before(dead); time.Sleep(50 * time.Millisecond) {
		var dirty int
		if err := db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'").Scan(&name, &dirty); err != nil {
			return err
		}
		if dirty < 50 {
			break
		}
	}
	for _, s := range settings {
		if err := set(s.name, s.before); err != nil {
			return err
		}
	}
	_, err := db.ExecContext(ctx, "ANALYZE TABLE "+table)
	return err
}

func pgInt(ctx context.Context, dsn, q string) (n int64, err error) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	err = c.QueryRow(ctx, q).Scan(&n)
	return n, err
}

var pgStatConn *pgx.Conn

func pgStatements(ctx context.Context, dsn string) (s, c int64, err error) {
	if pgStatConn == nil {
		if pgStatConn, err = pgx.Connect(ctx, dsn); err != nil {
			return
		}
		if _, err = pgStatConn.Exec(ctx, "SELECT pg_stat_clear_snapshot()"); err != nil {
			return
		}
	}
	err = pgStatConn.QueryRow(ctx, `SELECT coalesce((SELECT sum(calls)::bigint FROM pg_stat_statements WHERE dbid=d.datid),0), xact_commit+xact_rollback
		FROM pg_stat_database d WHERE datname=current_database()`).Scan(&s, &c)
	return
}

func myFresh(ctx context.Context, dsn, peer string) (string, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	d, err := sql.Open("mysql", dsn)
	if err != nil {
		return "", err
	}
	defer d.Close()
	name := databaseOf(peer)
	for _, q := range []string{"DROP DATABASE IF EXISTS " + name, "CREATE DATABASE " + name} {
		if _, err := d.ExecContext(ctx, q); err != nil {
			return "", err
		}
	}
	cfg.DBName = name
	out := cfg.FormatDSN()
	d2, err := sql.Open("mysql", out)
	if err != nil {
		return "", err
	}
	defer d2.Close()
	_, err = d2.ExecContext(ctx, ordersMy)
	return out, err
}

func mySQL(dsn string, max int) (*sql.DB, error) {
	d, err := sql.Open("mysql", dsn)
	if err != nil {
		return nil, err
	}
	d.SetMaxOpenConns(max)
	d.SetMaxIdleConns(max)
	return d, nil
}

var myStatConn *sql.Conn

func myStatements(ctx context.Context, db *sql.DB) (s, c int64, err error) {
	if myStatConn == nil {
		if myStatConn, err = db.Conn(ctx); err != nil {
			return
		}
	}
	rows, err := myStatConn.QueryContext(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions','Com_commit')")
	if err != nil {
		return
	}
	defer rows.Close()
	for rows.Next() {
		var k string
		var v int64
		if err = rows.Scan(&k, &v); err != nil {
			return
		}
		if strings.EqualFold(k, "Questions") {
			s = v
		} else {
			c = v
		}
	}
	return
}

// liteFresh opens a new SQLite file in the folder that the DSN names: WAL, synchronous FULL (one flush a commit).
func liteFresh(dir, peer string, max int) (*sql.DB, error) {
	path := filepath.Join(dir, "bench_"+peer+".db")
	for _, s := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(path + s)
	}
	d, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_busy_timeout=10000&_synchronous=FULL&_txlock=immediate&_foreign_keys=1")
	if err != nil {
		return nil, err
	}
	d.SetMaxOpenConns(max)
	d.SetMaxIdleConns(max)
	_, err = d.Exec(ordersLite)
	return d, err
}

func sqlInt(ctx context.Context, d *sql.DB, q string) (n int64, err error) {
	err = d.QueryRowContext(ctx, q).Scan(&n)
	return
}

// fill inserts n jobs through bulk calls of 1000.
func fill(ctx context.Context, n int, bulk func(context.Context, []Args) error) error {
	for n > 0 {
		k := min(n, 1000)
		as := make([]Args, k)
		for i := range as {
			as[i] = newArgs(0)
		}
		if err := bulk(ctx, as); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// readEnvFile reads a file that an environment variable names (its folder, where more path parts follow).
func readEnvFile(env string, rest ...string) (string, error) {
	v := os.Getenv(env)
	if v == "" {
		return "", fmt.Errorf("set %s (run.sh does)", env)
	}
	b, err := os.ReadFile(v + strings.Join(rest, ""))
	return string(b), err
}

// Clear empties a peer's tables between two runs of one process.

func (p *limitPG) Clear(ctx context.Context) error { return pgExec(ctx, p.dsn, "TRUNCATE jobs") }
func (p *limitMy) Clear(ctx context.Context) error {
	_, err := p.db.ExecContext(ctx, "TRUNCATE jobs")
	return err
}
func (p *riverPeer[TTx]) Clear(ctx context.Context) error {
	if p.kind == "sqlite" {
		_, err := p.sdb.ExecContext(ctx, "DELETE FROM river_job")
		return err
	}
	return pgExec(ctx, p.dsn, "TRUNCATE river_job")
}
func (p *guePeer) Clear(ctx context.Context) error { return pgExec(ctx, p.dsn, "TRUNCATE gue_jobs") }
func (p *wmPeer) Clear(ctx context.Context) error {
	if p.log {
		return ErrSkip
	}
	_, err := p.db.ExecContext(ctx, "TRUNCATE watermill_q")
	return err
}
func (p *backPeer) Clear(ctx context.Context) error {
	_, err := p.db.ExecContext(ctx, "DELETE FROM backlite_tasks")
	if err == nil {
		_, err = p.db.ExecContext(ctx, "DELETE FROM backlite_tasks_completed")
	}
	return err
}
