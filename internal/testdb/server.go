package testdb

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed" // the script
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

//go:embed servers.sh
var script string

// missingError says that there is no server of this kind, and why.
type missingError struct {
	kind Kind
	why  string
}

func (e *missingError) Error() string {
	return fmt.Sprintf("%s, and there is none: %s. Set %s to a server, or run make test",
		e.kind, e.why, variable(e.kind))
}

// required reads GORMJOBS_TEST_REQUIRE: "all", or kinds with commas between.
func required(kind Kind, variable string) bool {
	for _, r := range strings.Split(variable, ",") {
		if r = strings.TrimSpace(r); r == "all" || Kind(r) == kind {
			return true
		}
	}
	return false
}

func variable(kind Kind) string {
	return "GORMJOBS_TEST_" + strings.ToUpper(string(kind))
}

// adminServer is a server on which databases can be created.
type adminServer struct {
	kind  Kind
	admin string // DSN
	pool  *sql.DB
}

type once struct {
	sync.Once
	srv *adminServer
	err error
}

var servers = map[Kind]*once{Postgres: {}, MySQL: {}, MariaDB: {}}

// server finds or starts the server, once per process.
func server(kind Kind) (*adminServer, error) {
	o := servers[kind]
	o.Do(func() {
		o.srv, o.err = connect(kind)
		if o.err != nil {
			loudly(fmt.Sprintf("testdb: NOT TESTED ON %v\n", o.err))
		}
	})
	return o.srv, o.err
}

// loudly says a line on stderr, which go test shows of a package only with -v or
// when it fails, and on the terminal, where there is one.
func loudly(line string) {
	fmt.Fprint(os.Stderr, line)
	if terminal, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
		defer terminal.Close()
		fmt.Fprint(terminal, line)
	}
}

func connect(kind Kind) (*adminServer, error) {
	admin := os.Getenv(variable(kind))
	given := admin != ""
	switch admin {
	case "off":
		return nil, &missingError{kind, variable(kind) + " is off"}
	case "":
		var err error
		if admin, err = throwAway(kind); err != nil {
			return nil, err
		}
	}
	pool, version, err := dial(kind, admin)
	if err != nil && !given {
		// One that runs and does not answer must not stop the tests for ever.
		if _, err = run("stop", string(kind)); err == nil {
			if admin, err = throwAway(kind); err == nil {
				pool, version, err = dial(kind, admin)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", kind, origins(kind), err)
	}
	if is := kindOfVersion(version); is != kind {
		return nil, fmt.Errorf("%s at %s is a %s: %s", kind, origins(kind), is, version)
	}
	srv := &adminServer{kind: kind, admin: admin, pool: pool}
	if given {
		srv.sweep()
	}
	return srv, nil
}

// dial connects, within a time that a busy server needs less of.
func dial(kind Kind, dsn string) (pool *sql.DB, version string, err error) {
	driver := "mysql"
	if kind == Postgres {
		driver = "pgx"
	}
	if pool, err = sql.Open(driver, dsn); err != nil {
		return nil, "", err
	}
	pool.SetMaxOpenConns(4)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := pool.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		pool.Close()
		return nil, "", err
	}
	return pool, version, nil
}

func origins(kind Kind) string {
	if os.Getenv(variable(kind)) != "" {
		return variable(kind)
	}
	return "the throw-away server (`internal/testdb/servers.sh stop " + string(kind) + "` removes it)"
}

// kindOfVersion reads what SELECT version() says.
func kindOfVersion(version string) Kind {
	switch {
	case strings.HasPrefix(version, "PostgreSQL"):
		return Postgres
	case strings.Contains(version, "MariaDB"):
		return MariaDB
	}
	return MySQL
}

// throwAway starts a server, or finds the one that another process has
// started, and keeps it running for as long as this process lives.
func throwAway(kind Kind) (dsn string, err error) {
	dir, err := stateDir()
	if err != nil {
		return "", &missingError{kind, err.Error()}
	}
	// Before the start, so that nobody finds the server unused in between.
	if err := use(dir, kind); err != nil {
		return "", &missingError{kind, err.Error()}
	}
	dsn, err = run("start", string(kind))
	if err != nil {
		return "", &missingError{kind, err.Error()}
	}
	return dsn, nil
}

var stateDir = sync.OnceValues(func() (string, error) { return run("dir") })

// run runs servers.sh, and returns what it printed.
func run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", script, "servers.sh"}, args...)...)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) || err == nil {
		return strings.TrimSpace(stdout.String()), nil
	}
	if said := strings.TrimSpace(stderr.String()); said != "" {
		return "", errors.New(strings.TrimPrefix(said, "testdb: "))
	}
	return "", fmt.Errorf("servers.sh %s: %w", strings.Join(args, " "), err)
}

// nameForm is how the name of a database begins: with when it was made.
const nameForm = "gormjobs_20060102t150405_"

func newName() string {
	return time.Now().UTC().Format(nameForm) + strings.ToLower(rand.Text()[:8])
}

// abandoned tells a database of yesterday's tests, which nobody uses any more.
func abandoned(name string, now time.Time) bool {
	if len(name) < len(nameForm) {
		return false
	}
	made, err := time.Parse(nameForm, name[:len(nameForm)])
	return err == nil && now.Sub(made) > 24*time.Hour
}

// sweep drops what tests that were killed have left on a server that lives on.
func (s *adminServer) sweep() {
	list := "SELECT schema_name FROM information_schema.schemata"
	if s.kind == Postgres {
		list = "SELECT datname FROM pg_database"
	}
	rows, err := s.pool.Query(list)
	if err != nil {
		return
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if rows.Scan(&name) == nil && abandoned(name, time.Now()) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		_ = s.dropDatabase(name) // another process may be sweeping too
	}
}

func (s *adminServer) dsn(name string, set settings) string {
	make := mysqlDSNOf(s.kind)
	if s.kind == Postgres {
		make = postgresDSN
	}
	dsn, err := make(s.admin, name, set)
	if err != nil {
		panic(fmt.Sprintf("testdb: DSN of %s: %v", s.kind, err)) // it was good enough to connect
	}
	return dsn
}

func mysqlDSNOf(kind Kind) func(admin, name string, s settings) (string, error) {
	return func(admin, name string, s settings) (string, error) { return mysqlDSN(kind, admin, name, s) }
}

func (s *adminServer) createDatabase(name string) error {
	_, err := s.pool.Exec("CREATE DATABASE " + name)
	return err
}

// dropDatabase also gets rid of what a process that was killed, or a
// transaction that was forgotten, would keep it busy with.
func (s *adminServer) dropDatabase(name string) error {
	if s.kind == Postgres {
		_, err := s.pool.Exec("DROP DATABASE " + name + " WITH (FORCE)")
		return err
	}
	list := "SELECT id FROM information_schema.processlist WHERE db = ?"
	if s.kind == MySQL {
		// Its other list ends in an error while anybody sends a statement with an emoji.
		list = "SELECT processlist_id FROM performance_schema.threads WHERE processlist_db = ? AND processlist_id IS NOT NULL"
	}
	rows, err := s.pool.Query(list, name)
	if err != nil {
		return err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, id := range ids {
		_, _ = s.pool.Exec(fmt.Sprintf("KILL %d", id)) // it may be gone by itself
	}
	_, err = s.pool.Exec("DROP DATABASE " + name)
	return err
}

// record tells .ci/run which databases were there, once per process.
func record(t testing.TB, kind Kind) {
	t.Helper()
	file := os.Getenv("GORMJOBS_TEST_RECORD")
	if file == "" {
		return
	}
	o := recorded[kind]
	o.Do(func() { o.err = writeRecord(file, kind) })
	if o.err != nil {
		t.Fatalf("GORMJOBS_TEST_RECORD: %v", o.err)
	}
}

var recorded = map[Kind]*once{SQLite: {}, Postgres: {}, MySQL: {}, MariaDB: {}}

func writeRecord(file string, kind Kind) error {
	var version string
	var err error
	if kind == SQLite {
		db, err := open(SQLite, ":memory:", settings{})
		if err != nil {
			return err
		}
		defer closePool(db)
		if err := db.Raw("SELECT 'SQLite ' || sqlite_version()").Scan(&version).Error; err != nil {
			return err
		}
	} else if err = servers[kind].srv.pool.QueryRow("SELECT version()").Scan(&version); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s\n", kind, version)
	return errors.Join(err, f.Close())
}
