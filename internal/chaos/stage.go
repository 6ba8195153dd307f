//go:build linux

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/chaos/history"
	"github.com/gormjobs/gormjobs/internal/chaos/proxy"
	"github.com/gormjobs/gormjobs/internal/chaos/server"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// crew is how many processes of each part there are.
var crew = []struct {
	part string
	n    int
}{{"worker", 3}, {"scheduler", 3}, {"producer", 2}}

// stage is all that a run has.
type stage struct {
	options
	dir     string
	server  *server.Server // nil: SQLite
	version string
	db      *gorm.DB // the administrator's
	fleet   *fleet
	log     *history.Log
	out     io.Writer
}

func setStage(ctx context.Context, o options, out io.Writer) (st *stage, err error) {
	st = &stage{options: o, out: out, dir: o.keep}
	if st.dir == "" {
		if st.dir, err = os.MkdirTemp("", "gormjobs-chaos-"); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	if st.dir, err = filepath.Abs(st.dir); err != nil {
		return st, err
	}
	for _, d := range []string{"", "history", "logs", "server"} {
		if err := os.MkdirAll(filepath.Join(st.dir, d), 0o755); err != nil {
			return st, err
		}
	}
	if err := os.Chmod(st.dir, 0o755); err != nil { // the server's user must get through
		return st, err
	}
	if err := st.startDatabase(ctx); err != nil {
		return st, err
	}
	if st.log, err = history.Create(filepath.Join(st.dir, "history"), "chaos"); err != nil {
		return st, err
	}
	return st, st.assemble()
}

// startDatabase starts the server, and makes the tables.
func (st *stage) startDatabase(ctx context.Context) (err error) {
	dsn := st.sqliteDSN()
	if st.options.db != "sqlite" {
		if st.server, err = server.Start(ctx, st.options.db, filepath.Join(st.dir, "server"), st.weak); err != nil {
			return err
		}
		if st.version, err = st.server.Version(ctx); err != nil {
			return err
		}
		dsn = st.server.DSN(st.server.Addr())
	}
	db, err := testdb.OpenDSN(testdb.Kind(st.options.db), dsn, testdb.Pool(4))
	if err != nil {
		return err
	}
	if st.server == nil {
		db.Raw("SELECT 'SQLite ' || sqlite_version()").Scan(&st.version)
	}
	st.db = db
	if err := db.AutoMigrate(&Order{}, &Effect{}); err != nil {
		return err
	}
	if err := models.Migrate(db); err != nil {
		return err
	}
	return keepDiary(db, st.options.db)
}

func (st *stage) sqliteDSN() string {
	synchronous := "FULL"
	if st.weak {
		synchronous = "OFF"
	}
	return "file:" + filepath.Join(st.dir, "chaos.db") + "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(" + synchronous + ")"
}

// assemble makes the posts, each with a proxy of its own.
func (st *stage) assemble() error {
	st.fleet = &fleet{
		dir: filepath.Join(st.dir, "logs"), log: st.log,
		base: role{DB: st.options.db, Dir: filepath.Join(st.dir, "history"), Seed: st.seed, Lease: st.lease, Rate: st.rate / 2},
	}
	for _, c := range crew {
		for i := range c.n {
			p := &post{fleet: st.fleet, part: c.part, index: i + 1, dsn: st.sqliteDSN()}
			if st.server != nil {
				var err error
				if p.proxy, err = proxy.Listen(st.server.Addr()); err != nil {
					return err
				}
				p.dsn = st.server.DSN(p.proxy.Addr())
			}
			st.fleet.posts = append(st.fleet.posts, p)
		}
	}
	return nil
}

func (st *stage) close() {
	if st.fleet != nil {
		st.fleet.close()
	}
	if st.db != nil {
		if pool, err := st.db.DB(); err == nil {
			pool.Close()
		}
	}
	if st.server != nil {
		st.server.Stop()
	}
	if st.log != nil {
		st.log.Close()
	}
	if st.keep == "" {
		os.RemoveAll(st.dir)
	}
}
