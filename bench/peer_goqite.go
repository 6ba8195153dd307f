package main

import (
	"context"
	"database/sql"
	"log"
	"os"
	"strings"
	"time"

	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
)

func init() {
	peers["goqite"] = func(db, dsn, config string) (Peer, error) {
		return &goqitePeer{base: dsn, pg: db == "postgres", best: config == "best"}, nil
	}
}

type goqitePeer struct {
	base, dsn string
	pg, best  bool
	db        *sql.DB
	q         *goqite.Queue
}

// The schema is the module's own file: GOQITE_SCHEMA names the folder that holds schema_postgres.sql and schema_sqlite.sql.
func (p *goqitePeer) Setup(ctx context.Context) (err error) {
	fl, file := goqite.SQLFlavorSQLite, "/schema_sqlite.sql"
	if p.pg {
		fl, file = goqite.SQLFlavorPostgreSQL, "/schema_postgres.sql"
		if p.dsn, err = pgFresh(ctx, p.base, "goqite"); err != nil {
			return err
		}
		if p.db, err = pgSQL(p.dsn, 20); err != nil {
			return err
		}
	} else {
		if p.db, err = liteFresh(p.base, "goqite", 1); err != nil {
			return err
		}
	}
	q, err := readEnvFile("GOQITE_SCHEMA", file)
	if err != nil {
		return err
	}
	if p.pg {
		err = pgExec(ctx, p.dsn, q)
	} else {
		_, err = p.db.ExecContext(ctx, q)
	}
	if err != nil {
		return err
	}
	to := 5 * time.Second
	if p.best {
		to = 5 * time.Minute
	}
	p.q = goqite.New(goqite.NewOpts{DB: p.db, Name: "q", SQLFlavor: fl, Timeout: to})
	return nil
}

func (p *goqitePeer) Insert(ctx context.Context, a Args) error {
	_, err := jobs.Create(ctx, p.q, "bench", goqite.Message{Body: a.bytes()})
	return err
}
func (p *goqitePeer) Bulk(ctx context.Context, as []Args) error { // no bulk call: one transaction around many
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, a := range as {
		if _, err := jobs.CreateTx(ctx, tx, p.q, "bench", goqite.Message{Body: a.bytes()}); err != nil {
			return err
		}
	}
	return tx.Commit()
}
func (p *goqitePeer) Biz(ctx context.Context, order int64, a Args) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err = tx.ExecContext(ctx, "INSERT INTO orders (id, customer, total_cents) VALUES ($1,$2,$3)", order, "c", 100); err != nil {
		return err
	}
	if _, err = jobs.CreateTx(ctx, tx, p.q, "bench", goqite.Message{Body: a.bytes()}); err != nil {
		return err
	}
	return tx.Commit()
}

// Best: poll every 5 ms (default 100 ms), message timeout 5 min (default 5 s).
func (p *goqitePeer) Start(ctx context.Context, conc int, h Handler) (func(), error) {
	o := jobs.NewRunnerOpts{Limit: conc, Queue: p.q, Log: errLog{}}
	if p.best {
		o.PollInterval, o.Extend = 5*time.Millisecond, 5*time.Minute
	}
	r := jobs.NewRunner(o)
	r.Register("bench", func(ctx context.Context, m []byte) error { h(decode(m)); return nil })
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { r.Start(ctx); close(done) }()
	return func() { cancel(); <-done }, nil
}

func (p *goqitePeer) Left(ctx context.Context) (int64, error) {
	return sqlInt(ctx, p.db, "SELECT count(*) FROM goqite")
}
func (p *goqitePeer) Age(ctx context.Context, n int) error { return ErrSkip } // deletes what it completes
func (p *goqitePeer) Preload(ctx context.Context, n int) error {
	if err := fill(ctx, n, p.Bulk); err != nil {
		return err
	}
	if p.pg {
		return pgSettle(ctx, p.dsn)
	}
	return nil
}
func (p *goqitePeer) Statements(ctx context.Context) (int64, int64, error) {
	if p.pg {
		return pgStatements(ctx, p.dsn)
	}
	return 0, 0, ErrSkip
}
func (p *goqitePeer) Close() {
	if p.db != nil {
		p.db.Close()
	}
}

// errLog prints what its runner logs about errors (BENCH_DEBUG set), and nothing else.
type errLog struct{}

func (errLog) Info(msg string, args ...any) {
	if os.Getenv("BENCH_DEBUG") != "" && strings.HasPrefix(msg, "Error") {
		log.Println(append([]any{msg}, args...)...)
	}
}
