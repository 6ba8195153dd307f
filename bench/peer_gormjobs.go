package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/libtnb/sqlite"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/jobs/pgnotify"
	"github.com/gormjobs/gormjobs/models"
)

func init() {
	peers["gormjobs"] = func(db, dsn, config string) (Peer, error) {
		return &gormjobsPeer{kind: db, base: dsn, best: config == "best"}, nil
	}
}

// gormjobsPeer goes through GORM and the public API, and nothing else.
//
//	default  gorm.Config{} and jobs.Config{} but for the number of slots; on
//	         PostgreSQL with package pgnotify; the DSN as the documentation has it
//	best     the same with GORM's SkipDefaultTransaction, and on SQLite PrepareStmt; there is nothing else to tune
//
// GORMJOBS_NOJOB leaves the job out of biz8, and GORMJOBS_ASKED makes every insert notify, as for a worker that is idle
// all the time.
type gormjobsPeer struct {
	kind, base, dsn string
	best            bool
	aged            int
	db              *gorm.DB
}

// JobType makes Args a payload of gormjobs.
func (Args) JobType() string { return "bench" }

type order struct {
	ID         int64
	Customer   string
	TotalCents int64
}

func (order) TableName() string { return "orders" }

func (p *gormjobsPeer) Setup(ctx context.Context) (err error) {
	switch p.kind {
	case "postgres":
		p.dsn, err = pgFresh(ctx, p.base, "gormjobs_"+p.config())
	case "mysql", "mariadb":
		p.dsn, err = myFresh(ctx, p.base+"&interpolateParams=true", "gormjobs_"+p.config())
	case "sqlite":
		file := filepath.Join(p.base, "bench_gormjobs_"+p.config()+".db")
		for _, s := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(file + s)
		}
		p.dsn = "file:" + file + "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	}
	if err != nil {
		return err
	}
	if err := p.open(); err != nil {
		return err
	}
	if p.kind == "sqlite" {
		if err := p.db.Exec(ordersLite).Error; err != nil {
			return err
		}
	}
	if err := models.Migrate(p.db); err != nil {
		return err
	}
	if os.Getenv("GORMJOBS_ASKED") != "" {
		return p.db.Create(&models.Schedule{Name: models.ListeningEntry, NextTick: models.At(time.Now().Add(24 * time.Hour)), UpdatedAt: 1}).Error
	}
	return nil
}

func (p *gormjobsPeer) config() string {
	if p.best {
		return "best"
	}
	return "default"
}

// open opens the database of an earlier Setup, maybe another process's.
func (p *gormjobsPeer) open() error {
	var d gorm.Dialector
	connections := 20
	switch p.kind {
	case "postgres":
		d = postgres.Open(p.dsn)
	case "mysql", "mariadb":
		d = mysql.Open(p.dsn)
	case "sqlite":
		d, connections = sqlite.Open(p.dsn), 1 // as the documentation has it
	default:
		return fmt.Errorf("gormjobs has no database %q", p.kind)
	}
	db, err := gorm.Open(d, &gorm.Config{Logger: logger.Discard, SkipDefaultTransaction: p.best, PrepareStmt: p.best && p.kind == "sqlite"})
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	p.db = db
	return nil
}

func (p *gormjobsPeer) Attach(dsn string) error { p.dsn = dsn; return p.open() }
func (p *gormjobsPeer) DSN() string             { return p.dsn }

func (p *gormjobsPeer) Insert(ctx context.Context, a Args) error {
	_, err := dispatcher.EnqueueNow(ctx, p.db, a)
	return err
}

func (p *gormjobsPeer) Bulk(ctx context.Context, as []Args) error {
	return p.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		_, err := dispatcher.EnqueueMany(ctx, tx, as)
		return err
	})
}

func (p *gormjobsPeer) Biz(ctx context.Context, id int64, a Args) error {
	return p.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&order{ID: id, Customer: "c", TotalCents: 100}).Error; err != nil {
			return err
		}
		if os.Getenv("GORMJOBS_NOJOB") != "" {
			return nil
		}
		_, err := dispatcher.Enqueue(ctx, tx, a)
		return err
	})
}

func (p *gormjobsPeer) Start(ctx context.Context, conc int, h Handler) (func(), error) {
	registry := handlers.NewRegistry()
	handlers.Register(registry, func(_ context.Context, a Args) error { h(a.T); return nil })
	c := jobs.Config{Queues: jobs.Queues{"default": conc}, Logger: quiet}
	if os.Getenv("GORMJOBS_LOG") != "" {
		c.Logger = slog.Default()
	}
	if p.kind == "postgres" && os.Getenv("GORMJOBS_NO_LISTENER") == "" {
		c.Listener = pgnotify.New()
	}
	w, err := jobs.NewWorker(p.db, registry, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		must(<-ended)
	}, nil
}

// Left asks for each state by itself, so that an index answers.
func (p *gormjobsPeer) Left(ctx context.Context) (n int64, err error) {
	err = p.db.WithContext(ctx).Raw("SELECT (SELECT count(*) FROM queue_jobs WHERE state = 'pending' AND queue = 'default') + " +
		"(SELECT count(*) FROM queue_jobs WHERE state = 'processing')").Scan(&n).Error
	return n, err
}

// Age puts n completed rows and a quarter as many scheduled ones there.
func (p *gormjobsPeer) Age(ctx context.Context, n int) error {
	p.aged = n
	far := time.Now().Add(240 * time.Hour).UnixMicro()
	insert := "INSERT INTO queue_jobs (queue, type, priority, attempts, max_attempts, reserved_by, reserved_at, reserved_until, created_at, " +
		"state, available_at, due_at, finished_at, payload) "
	past := time.Now().Add(-time.Hour).UnixMicro()
	row := func(state, due, finished, payload string) string {
		return fmt.Sprintf("'default','bench',0,1,25,'worker.1',%d,%d,%d,'%s',%d,%s,%s,%s", past, past, past, state, past, due, finished, payload)
	}
	for _, kind := range []struct {
		n                    int
		state, due, finished string
	}{{n, "completed", "NULL", fmt.Sprint(past)}, {n / 4, "scheduled", fmt.Sprint(far), "NULL"}} {
		var err error
		switch p.kind {
		case "postgres":
			text := fmt.Sprintf("json_build_object('t',0,'id',g,'pad','%s')", pad)
			err = pgExec(ctx, p.dsn, insert+"SELECT "+row(kind.state, kind.due, kind.finished, text)+fmt.Sprintf(" FROM generate_series(1,%d) g", kind.n))
		case "sqlite":
			text := fmt.Sprintf("json_object('t',0,'id',i,'pad','%s')", pad)
			err = p.db.Exec(fmt.Sprintf("WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM g WHERE i<%d) ", kind.n) +
				insert + "SELECT " + row(kind.state, kind.due, kind.finished, text) + " FROM g").Error
		default:
			values := "(" + row(kind.state, kind.due, kind.finished, "'"+string(newArgs(0).bytes())+"'") + ")"
			for left := kind.n; left > 0 && err == nil; left -= 5000 {
				k := min(left, 5000)
				err = p.db.Exec(insert + "VALUES " + values + strings.Repeat(","+values, k-1)).Error
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *gormjobsPeer) Preload(ctx context.Context, n int) error {
	if err := fill(ctx, n, p.Bulk); err != nil {
		return err
	}
	switch p.kind {
	case "postgres":
		return pgSettle(ctx, p.dsn)
	case "sqlite":
		return nil
	}
	pool, err := p.db.DB()
	if err != nil {
		return err
	}
	return mySettle(ctx, pool, "queue_jobs")
}

func (p *gormjobsPeer) Clear(ctx context.Context) error {
	verb := "TRUNCATE "
	if p.kind == "sqlite" {
		verb = "DELETE FROM "
	}
	return p.db.Exec(verb + "queue_jobs").Error
}

func (p *gormjobsPeer) Statements(ctx context.Context) (int64, int64, error) {
	if p.kind == "postgres" {
		return pgStatements(ctx, p.dsn)
	}
	if p.kind == "sqlite" {
		return 0, 0, ErrSkip
	}
	pool, err := p.db.DB()
	if err != nil {
		return 0, 0, err
	}
	return myStatements(ctx, pool)
}

func (p *gormjobsPeer) Close() {
	if p.db == nil {
		return
	}
	if pool, err := p.db.DB(); err == nil {
		pool.Close()
	}
}
