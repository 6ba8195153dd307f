//go:build unix

package testdb

import (
	"database/sql"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMissingServerFailsOnlyWhereItIsRequired(t *testing.T) {
	for _, c := range []struct {
		require string
		kind    Kind
		want    bool
	}{
		{"", Postgres, false},
		{"all", Postgres, true},
		{"all", MySQL, true},
		{"postgres, mariadb", MariaDB, true},
		{"postgres, mariadb", MySQL, false},
		{"mysql8", MySQL, false},
	} {
		if got := required(c.kind, c.require); got != c.want {
			t.Errorf("required(%s, %q) = %t; want %t", c.kind, c.require, got, c.want)
		}
	}
}

// The decision above, seen from outside: this very binary, told that there is
// no MySQL.
func TestMissingServerIsSkippedLoudly(t *testing.T) {
	for require, wantErr := range map[string]bool{"": false, "all": true} {
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestEachDatabaseIsMigrated$/^mysql$")
		cmd.Env = append(os.Environ(), "GORMJOBS_TEST_MYSQL=off", "GORMJOBS_TEST_RECORD=", "GORMJOBS_TEST_REQUIRE="+require)
		out, err := cmd.CombinedOutput()
		if (err != nil) != wantErr {
			t.Errorf("GORMJOBS_TEST_REQUIRE=%q: %v; want an error: %t\n%s", require, err, wantErr, out)
		}
		for _, want := range []string{"NOT TESTED ON mysql", "GORMJOBS_TEST_MYSQL is off"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("GORMJOBS_TEST_REQUIRE=%q says:\n%s\nwant %q in it", require, out, want)
			}
		}
	}
}

func TestVersionTellsTheKind(t *testing.T) {
	for version, want := range map[string]Kind{
		"PostgreSQL 15.3 (Debian 15.3-1) on x86_64": Postgres,
		"10.11.3-MariaDB-1":                         MariaDB,
		"9.7.0":                                     MySQL,
		"8.0.36-0ubuntu1":                           MySQL,
	} {
		if got := kindOfVersion(version); got != want {
			t.Errorf("kindOfVersion(%q) = %s; want %s", version, got, want)
		}
	}
}

func TestDSNKeepsWhatItIsNotAskedToChange(t *testing.T) {
	set := settingsOf([]Option{Isolation(sql.LevelRepeatableRead), Parameter(Postgres, "search_path", "a b"), Parameter(MySQL, "clientFoundRows", "true")})
	for _, c := range []struct{ admin, want string }{
		{"postgres://u:p%40@h:1/postgres?sslmode=disable", "postgres://u:p%40@h:1/n?default_transaction_isolation=repeatable%20read&search_path=a%20b&sslmode=disable"},
		{"host=h user=u", "host=h user=u dbname=n default_transaction_isolation='repeatable read' search_path='a b'"},
	} {
		if got, err := postgresDSN(c.admin, "n", set); got != c.want || err != nil {
			t.Errorf("postgresDSN(%q) =\n%s, %v; want\n%s", c.admin, got, err, c.want)
		}
	}
	got, err := mysqlDSN(MySQL, "u:p@/@tcp(h:1)/?loc=Local", "n", set)
	want := "u:p@/@tcp(h:1)/n?clientFoundRows=true&loc=Local&parseTime=true&transaction_isolation=%27REPEATABLE-READ%27"
	if got != want || err != nil {
		t.Errorf("mysqlDSN =\n%s, %v; want\n%s", got, err, want)
	}
}

func TestOnlyOldDatabasesOfOursAreAbandoned(t *testing.T) {
	now := time.Date(2026, 5, 3, 12, 0, 0, 0, time.UTC)
	for name, want := range map[string]bool{
		"gormjobs_20260501t120000_abcdefgh":  true,
		"gormjobs_20260503t110000_abcdefgh":  false,
		"gormjobs_production_of_the_company": false,
		"gormjobs":                           false,
	} {
		if got := abandoned(name, now); got != want {
			t.Errorf("abandoned(%s) = %t; want %t", name, got, want)
		}
	}
	if abandoned(newName(), time.Now()) {
		t.Error("a new database counts as abandoned")
	}
}

// servers.sh in a folder of its own: what it starts is found again, replaced
// when it has died, left alone while somebody uses it, and stopped afterwards.
func TestThrowAwayServerLivesAsLongAsItIsUsed(t *testing.T) {
	// Not t.TempDir, into which the server's user could not look.
	home, err := os.MkdirTemp("", "gormjobs-testdb-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	sh := func(args ...string) (string, error) {
		cmd := exec.Command("bash", append([]string{"servers.sh"}, args...)...)
		cmd.Env = append(os.Environ(), "GORMJOBS_TEST_DIR="+home, "GORMJOBS_TEST_IDLE=2")
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	defer sh("wipe", "postgres")
	start := func() string {
		t.Helper()
		dsn, err := sh("start", "postgres")
		if err != nil {
			t.Fatalf("start: %v", err)
		}
		return dsn
	}
	running := func() bool {
		_, err := sh("dsn", "postgres")
		return err == nil
	}
	eventuallyGone := func() {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); running(); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the server still runs")
			}
		}
	}

	if _, err := sh("start", "postgres"); err != nil {
		t.Logf("no PostgreSQL to start: %v", err) // no skip: one that is elsewhere is tested by the others
		return
	}
	sh("stop", "postgres")

	inUse, err := lock(filepath.Join(home, "postgres"), "use.lock", syscall.LOCK_SH, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	first := start()
	if again := start(); again != first {
		t.Errorf("a second start leads to %s; want the server that runs, %s", again, first)
	}

	sh("stop", "postgres")
	if running() {
		t.Error("the server runs after stop")
	}
	second := start()
	if second == first {
		t.Error("the DSN of a new server is the old one's")
	}

	time.Sleep(5 * time.Second) // longer than the watcher's patience: nothing must happen
	if !running() {
		t.Error("the server was stopped while somebody used it")
	}
	inUse.Close()
	eventuallyGone()

	u, err := url.Parse(start())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(home, "postgres")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			break
		}
		conn.Close()
		if time.Now().After(end) {
			t.Fatal("a server whose folder was deleted still runs")
		}
	}
}
