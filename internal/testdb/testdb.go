package testdb

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Kind is a kind of database.
type Kind string

// The kinds, in the order in which Each runs them.
const (
	SQLite   Kind = "sqlite"
	Postgres Kind = "postgres"
	MySQL    Kind = "mysql"
	MariaDB  Kind = "mariadb"
)

var kinds = []Kind{SQLite, Postgres, MySQL, MariaDB}

// Each runs fn as a subtest per kind of database, on a database of its own
// that is migrated before and dropped afterwards.
//
// Inside fn, do not call t.Parallel: give the option [Parallel].
func Each(t *testing.T, fn func(t *testing.T, db *gorm.DB), opts ...Option) {
	t.Helper()
	s := settingsOf(opts)
	for _, kind := range kinds {
		if !slices.Contains(s.only, kind) {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			if s.parallel {
				t.Parallel()
			}
			fn(t, Open(t, kind, opts...))
		})
	}
}

// Bench runs a benchmark like [Each] does a test.
func Bench(b *testing.B, fn func(b *testing.B, db *gorm.DB)) {
	for _, kind := range kinds {
		b.Run(string(kind), func(b *testing.B) { fn(b, Open(b, kind)) })
	}
}

// Open is one turn of [Each]: a fresh database of one kind, for the rest of
// this test. It skips or fails the test when there is no such server.
func Open(t testing.TB, kind Kind, opts ...Option) *gorm.DB {
	t.Helper()
	s := settingsOf(opts)
	dsn := create(t, kind, s)
	db := handle(t, kind, dsn, s)
	if !s.empty {
		if err := migrate(db); err != nil {
			t.Fatalf("migrate %s: %v", kind, err)
		}
	}
	return db
}

// Long skips a test that takes minutes, unless GORMJOBS_TEST_LONG is set, as
// `make test-long` does.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv("GORMJOBS_TEST_LONG") == "" {
		t.Skip(longReason)
	}
}

// longReason is the one reason to skip a test that internal/testdb/verify accepts.
const longReason = "takes long; GORMJOBS_TEST_LONG=1 (make test-long) runs it"

// create makes an empty database that lives as long as the test.
func create(t testing.TB, kind Kind, s settings) (dsn string) {
	t.Helper()
	if kind == SQLite {
		record(t, SQLite)
		return sqliteDSN(filepath.Join(t.TempDir(), "test.db"), s)
	}
	srv, err := server(kind)
	var missing *missingError
	switch {
	case errors.As(err, &missing):
		if required(kind, os.Getenv("GORMJOBS_TEST_REQUIRE")) {
			t.Fatalf("GORMJOBS_TEST_REQUIRE asks for %v", err)
		}
		t.Skipf("SKIPPED: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	takeTurn(t, kind, s.alone)
	name := newName()
	if err := srv.createDatabase(name); err != nil {
		t.Fatalf("create a database on %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := srv.dropDatabase(name); err != nil {
			t.Errorf("drop database %s on %s: %v", name, kind, err)
		}
	})
	record(t, kind)
	return srv.dsn(name, s)
}

// Again opens a second handle, with a pool of its own, on the database of db.
// The options that db was made with do not carry over, except those that are
// part of the DSN: isolation and parameters.
func Again(t testing.TB, db *gorm.DB, opts ...Option) *gorm.DB {
	t.Helper()
	o := originOf(db)
	return handle(t, o.kind, o.dsn, settingsOf(opts))
}

// handle opens a pool that is closed when the test ends.
func handle(t testing.TB, kind Kind, dsn string, s settings) *gorm.DB {
	t.Helper()
	db, err := open(kind, dsn, s)
	if err != nil {
		t.Fatalf("open %s: %v", kind, err)
	}
	remember(db)
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() }) // of which the test may have made something else
	return db
}

// poolSize is how many connections a handle may have, and keeps when idle.
const poolSize = 20

// OpenDSN opens the database that [DSN] told about, in whatever process. The
// caller closes it.
func OpenDSN(kind Kind, dsn string, opts ...Option) (*gorm.DB, error) {
	return open(kind, dsn, settingsOf(opts))
}

func open(kind Kind, dsn string, s settings) (*gorm.DB, error) {
	// Not one Config for all: GORM writes into the one it is given.
	config := &gorm.Config{Logger: logger.Discard}
	for _, change := range s.config {
		change(config)
	}
	db, err := gorm.Open(dialector(kind, dsn), config)
	if err != nil {
		return nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	size := cmp.Or(s.pool, poolSize)
	if kind == SQLite {
		// More than one connection only makes writers wait for one another.
		size = 1
	}
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	if err := db.Use(origin{kind, dsn}); err != nil {
		closePool(db)
		return nil, err
	}
	return db, nil
}

func closePool(db *gorm.DB) {
	if pool, err := db.DB(); err == nil {
		pool.Close()
	}
}

// KindOf returns the kind of a database of this package.
func KindOf(db *gorm.DB) Kind { return originOf(db).kind }

// DSN returns the DSN of a database of this package, for [OpenDSN] in another
// process.
func DSN(db *gorm.DB) string { return originOf(db).dsn }

// origin remembers in a handle, and in every session and transaction of it,
// where it leads.
type origin struct {
	kind Kind
	dsn  string
}

// Name implements [gorm.Plugin].
func (origin) Name() string { return "testdb" }

// Initialize implements [gorm.Plugin].
func (origin) Initialize(*gorm.DB) error { return nil }

func originOf(db *gorm.DB) origin {
	o, ok := db.Config.Plugins[origin{}.Name()].(origin)
	if !ok {
		panic("testdb: this handle was not opened by testdb")
	}
	return o
}
