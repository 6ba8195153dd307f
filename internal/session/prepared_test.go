package session_test

import (
	"context"
	"database/sql"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/internal/testdb"
)

// texts counts how often a pool is given one that it has to parse.
type texts struct {
	*sql.DB
	n int
}

func (p *texts) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	p.n++
	return p.DB.ExecContext(ctx, text, args...)
}

func TestOnlyThePoolItselfPrepares(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		s, err := session.In(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		pool, plain := s.Statement.ConnPool.(*sql.DB)
		if !plain {
			t.Fatalf("the pool is a %T", s.Statement.ConnPool)
		}
		want := 0
		if testdb.KindOf(db) == testdb.SQLite {
			want = 1
		}
		exec := func() error {
			return session.Exec(session.Statement(session.Prepared(s), "delete", func() string { return "DELETE FROM queue_schedules WHERE name = ?" }, "x")).Error
		}
		for range 3 {
			if err := exec(); err != nil || len(session.PreparedOn(s)) != want {
				t.Fatalf("%d statements are prepared, %v; want %d", len(session.PreparedOn(s)), err, want)
			}
		}
		other, err := testdb.Again(t, db).DB()
		if err != nil {
			t.Fatal(err)
		}
		if s.Statement.ConnPool = other; session.Prepared(s).Statement.ConnPool != gorm.ConnPool(other) {
			t.Error("on a pool that is not the handle's own, statements are kept")
		}
		applications := &texts{DB: pool}
		s.Statement.ConnPool = applications
		for i := range 3 {
			if err := exec(); err != nil || applications.n != i+1 {
				t.Fatalf("the application's own pool has got %d statements, %v; want %d", applications.n, err, i+1)
			}
		}
		err = db.Transaction(func(tx *gorm.DB) error {
			in, err := session.In(t.Context(), tx)
			if err == nil && session.Prepared(in).Statement.ConnPool != tx.Statement.ConnPool {
				t.Errorf("in a transaction the pool is a %T", session.Prepared(in).Statement.ConnPool)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}
