//go:build linux

package server

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// each starts a server of each kind.
func each(t *testing.T, fn func(t *testing.T, s *Server)) {
	for _, kind := range []string{"postgres", "mysql", "mariadb"} {
		t.Run(kind, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "gormjobs-chaos-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			s, err := Start(t.Context(), kind, dir, false)
			if errors.Is(err, ErrMissing) && os.Getenv("GORMJOBS_TEST_REQUIRE") == "" {
				t.Skipf("SKIPPED: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Stop)
			fn(t, s)
		})
	}
}

func open(t *testing.T, s *Server) *sql.DB {
	t.Helper()
	db, err := sql.Open(s.flavour.driver(), s.DSN(s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// The faults are real, and what was committed before them is there afterwards.
func TestServerCanBeBroken(t *testing.T) {
	each(t, func(t *testing.T, s *Server) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		db := open(t, s)
		exec := func(stmt string) error { _, err := db.ExecContext(ctx, stmt); return err }
		if err := exec("CREATE TABLE t (n int)"); err != nil {
			t.Fatal(err)
		}
		if err := exec("INSERT INTO t VALUES (1)"); err != nil {
			t.Fatal(err)
		}

		if err := s.SetReadOnly(ctx, true); err != nil {
			t.Fatal(err)
		}
		readOnly := false
		for end := time.Now().Add(5 * time.Second); !readOnly && time.Now().Before(end); time.Sleep(10 * time.Millisecond) { // a reload takes effect when it likes
			err := exec("INSERT INTO t VALUES (100)")
			readOnly = err != nil && strings.Contains(err.Error(), "read")
		}
		if !readOnly {
			t.Error("writes are not refused while read only")
		}
		if err := s.SetReadOnly(ctx, false); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(5 * time.Second); exec("INSERT INTO t VALUES (2)") != nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("still read only")
			}
		}

		held, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		if n, err := s.CutAll(ctx); n == 0 || err != nil {
			t.Errorf("cut %d connections, %v", n, err)
		}
		if err := held.PingContext(ctx); err == nil {
			t.Error("a connection lives on after it was cut")
		}

		s.Crash()
		if err := exec("INSERT INTO t VALUES (100)"); err == nil {
			t.Error("a killed server answers")
		}
		if err := s.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM t WHERE n < 100").Scan(&n); err != nil || n != 2 {
			t.Errorf("%d rows after the crash, %v; want 2", n, err)
		}
	})
}
