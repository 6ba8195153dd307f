package session_test

import (
	"database/sql"
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/internal/testdb"
)

// isolationOf is how to ask for the isolation of a statement.
var isolationOf = map[testdb.Kind]string{
	testdb.Postgres: "SELECT current_setting('transaction_isolation')",
	testdb.SQLite:   "SELECT 'its only one'",
}

// autocommitted tells whether fn of an Autocommit was outside of a transaction.
func autocommitted(t *testing.T, db *gorm.DB, fail error) (plain bool) {
	t.Helper()
	err := session.Autocommit(t.Context(), db, func(s *gorm.DB) error {
		plain = !session.InTransaction(s)
		if query, ok := isolationOf[testdb.KindOf(db)]; ok {
			var is string
			if err := s.Raw(query).Scan(&is).Error; err != nil {
				return err
			}
			if testdb.KindOf(db) == testdb.Postgres && is != "read committed" {
				t.Errorf("the statement is %s", is)
			}
		}
		return fail
	})
	if !errors.Is(err, fail) {
		t.Fatal(err)
	}
	return plain
}

func TestAutocommitLeavesTheTransactionOutWhereTheIsolationIsReadCommitted(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				want := testdb.KindOf(db) == testdb.Postgres && level == sql.LevelReadCommitted
				if got := autocommitted(t, db, nil); got != want {
					t.Errorf("the statement was outside of a transaction: %t; want %t", got, want)
				}
			}, testdb.Empty, testdb.Isolation(level))
		})
	}
}

func TestAutocommitAsksForTheIsolationAgainAfterAnError(t *testing.T) {
	db := testdb.Open(t, testdb.Postgres, testdb.Empty, testdb.Pool(1))
	if !autocommitted(t, db, nil) {
		t.Fatal("the first statement was in a transaction")
	}
	if err := db.Exec("SET default_transaction_isolation = 'serializable'").Error; err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	_ = session.Autocommit(t.Context(), db, func(*gorm.DB) error { return refused })
	if autocommitted(t, db, nil) {
		t.Error("a statement is serializable, and was outside of a transaction")
	}
}
