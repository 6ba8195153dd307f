package testdb_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
)

func TestEachKindIsWhatItClaims(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		query, want := "SELECT version()", map[testdb.Kind]string{
			testdb.Postgres: "PostgreSQL", testdb.MariaDB: "MariaDB", testdb.MySQL: "", testdb.SQLite: "3.",
		}[testdb.KindOf(db)]
		if testdb.KindOf(db) == testdb.SQLite {
			query = "SELECT sqlite_version()"
		}
		var version string
		if err := db.Raw(query).Scan(&version).Error; err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(version, want) {
			t.Errorf("version = %q; want %q in it", version, want)
		}
		if testdb.KindOf(db) == testdb.MySQL && strings.Contains(version, "MariaDB") {
			t.Errorf("version = %q; want MySQL's own", version)
		}
		t.Log(version)
	})
}

func TestEachDatabaseIsMigrated(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		tables, err := db.Migrator().GetTables()
		if err != nil || len(tables) == 0 {
			t.Errorf("tables = %v, %v; want the library's", tables, err)
		}
	})
}

type note struct {
	ID   uint
	Text string
}

func TestEachDatabaseIsItsOwn(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		other := testdb.Open(t, testdb.KindOf(db), testdb.Empty)
		for _, db := range []*gorm.DB{db, other} {
			if err := db.AutoMigrate(&note{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Create(&note{Text: "here"}).Error; err != nil {
			t.Fatal(err)
		}
		var n int64
		if err := other.Model(&note{}).Count(&n).Error; err != nil || n != 0 {
			t.Errorf("the other database has %d notes, %v; want 0", n, err)
		}
	}, testdb.Empty)
}

func TestAgainAndOpenDSNLeadToTheSameDatabase(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if err := db.AutoMigrate(&note{}); err != nil {
			t.Fatal(err)
		}
		if err := db.Create(&note{Text: "here"}).Error; err != nil {
			t.Fatal(err)
		}
		third, err := testdb.OpenDSN(testdb.KindOf(db), testdb.DSN(db))
		if err != nil {
			t.Fatal(err)
		}
		for _, db := range []*gorm.DB{testdb.Again(t, db), third} {
			var n int64
			if err := db.Model(&note{}).Count(&n).Error; err != nil || n != 1 {
				t.Errorf("notes = %d, %v; want 1", n, err)
			}
		}
		pool, err := third.DB()
		if err != nil {
			t.Fatal(err)
		}
		pool.Close()
	}, testdb.Empty)
}

func TestDatabaseIsGoneAfterTheTest(t *testing.T) {
	var kinds []testdb.Kind
	var dsns []string
	ctx, forget := context.WithCancel(context.Background())
	defer forget()
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		kinds, dsns = append(kinds, testdb.KindOf(db)), append(dsns, testdb.DSN(db))
		// A forgotten transaction must not keep it.
		if err := db.WithContext(ctx).Begin().Exec("CREATE TABLE forgotten (id int)").Error; err != nil {
			t.Fatal(err)
		}
	}, testdb.Servers)
	for i, dsn := range dsns {
		if _, err := testdb.OpenDSN(kinds[i], dsn); err == nil {
			t.Errorf("%s: the database is still there", kinds[i])
		}
	}
}

func TestIsolationIsTheSessionsDefault(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				for _, db := range []*gorm.DB{db, testdb.Again(t, db)} {
					query := map[testdb.Kind]string{
						testdb.Postgres: "SHOW transaction_isolation",
						testdb.MySQL:    "SELECT @@transaction_isolation",
						testdb.MariaDB:  "SELECT @@tx_isolation",
					}[testdb.KindOf(db)]
					var got string
					if err := db.Raw(query).Scan(&got).Error; err != nil {
						t.Fatal(err)
					}
					if !strings.EqualFold(strings.ReplaceAll(got, "-", " "), level.String()) {
						t.Errorf("isolation = %s; want %s", got, level)
					}
				}
			}, testdb.Servers, testdb.Empty, testdb.Isolation(level))
		})
	}
}

func TestSQLiteIsOpenedAsDocumented(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite, testdb.Empty)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000"} {
		var got string
		if err := db.Raw("PRAGMA " + pragma).Scan(&got).Error; err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", pragma, got, err, want)
		}
	}
}

func TestDeadlocksCountsADeadlock(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if err := db.AutoMigrate(&note{}); err != nil {
			t.Fatal(err)
		}
		if err := db.Create([]note{{ID: 1}, {ID: 2}}).Error; err != nil {
			t.Fatal(err)
		}
		before := testdb.Deadlocks(t, db)
		write := func(tx *gorm.DB, id uint) error {
			return tx.Exec("UPDATE notes SET text = 'x' WHERE id = ?", id).Error
		}
		a, b := db.Begin(), testdb.Again(t, db).Begin()
		defer a.Rollback()
		defer b.Rollback()
		if err := write(a, 1); err != nil {
			t.Fatal(err)
		}
		if err := write(b, 2); err != nil {
			t.Fatal(err)
		}
		waits := make(chan error)
		go func() {
			err := write(a, 2)
			a.Rollback()
			waits <- err
		}()
		err := write(b, 1)
		b.Rollback()
		if first := <-waits; (err == nil) == (first == nil) {
			t.Fatalf("errors = %v, %v; want one of two", first, err)
		}
		if n := testdb.Deadlocks(t, db) - before; n != 1 {
			t.Errorf("deadlocks = %d; want 1", n)
		}
	}, testdb.Servers, testdb.Empty, testdb.Alone)
}
