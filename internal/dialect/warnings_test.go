package dialect_test

import (
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/testdb"
)

func TestDocumentedSettingsGiveNoWarning(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if w := dialect.Warnings(db); len(w) != 0 {
			t.Errorf("Warnings = %q; want none", w)
		}
	}, testdb.Empty)
}

func TestHarmfulSettingsAreNamed(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		want := []string{"utf8mb4"}
		if testdb.KindOf(db) == testdb.SQLite {
			want = []string{"journal_mode", "busy_timeout"}
		}
		w := dialect.Warnings(db)
		if len(w) != len(want) {
			t.Fatalf("Warnings = %q; want %d", w, len(want))
		}
		for i := range want {
			if !strings.Contains(w[i], want[i]) {
				t.Errorf("warning %d = %q; want %s named", i, w[i], want[i])
			}
		}
	}, testdb.Empty, testdb.Only(testdb.SQLite, testdb.MySQL, testdb.MariaDB),
		testdb.Parameter(testdb.SQLite, "_pragma", "busy_timeout(10)"),
		testdb.Parameter(testdb.MySQL, "charset", "utf8"), testdb.Parameter(testdb.MariaDB, "charset", "utf8"))
}

func TestPoolOfManyConnectionsIsNamedOnSQLite(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite, testdb.Empty)
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 2} {
		pool.SetMaxOpenConns(n)
		if w := dialect.Warnings(db); len(w) != 1 || !strings.Contains(w[0], "SetMaxOpenConns(1)") {
			t.Errorf("with %d connections Warnings = %q; want SetMaxOpenConns(1) named", n, w)
		}
	}
}
