package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
)

// tries bounds how often a transaction is run again after a deadlock or a busy
// database; with the pauses between them that is some 3 s.
const tries = 12

// Transaction runs fn in a transaction of the library's own: on the isolated
// session, READ COMMITTED on the servers (claims at MySQL's REPEATABLE READ take
// gap locks, and callers' inserts wait for them), run again after a deadlock, a
// lock wait or a busy SQLite. fn must have no effect outside tx.
//
// It never touches a transaction of the application: db must not be in one.
func Transaction(ctx context.Context, db *gorm.DB, fn func(tx *gorm.DB) error) error {
	s, err := In(ctx, db)
	if err != nil {
		return err
	}
	s = Unprepared(s)
	return Retry(ctx, func() error { return s.Transaction(fn, Options(s)...) })
}

// Unprepared is s without GORM's prepared statements, for texts that are different
// each time: with PrepareStmt they would stay on the server by the thousands.
func Unprepared(s *gorm.DB) *gorm.DB {
	u := s.Session(&gorm.Session{NewDB: true, Context: s.Statement.Context})
	switch p := s.Statement.ConnPool.(type) {
	case *gorm.PreparedStmtDB:
		u.Statement.ConnPool = p.ConnPool
	case *gorm.PreparedStmtTX:
		u.Statement.ConnPool = p.Tx
	}
	return u
}

// Options are those a transaction of the library begins with. SQLite has one
// isolation level, and its drivers refuse to be asked for another.
func Options(db *gorm.DB) []*sql.TxOptions {
	if !dialect.LocksRows(db) {
		return nil
	}
	return []*sql.TxOptions{{Isolation: sql.LevelReadCommitted}}
}

// Retry runs fn again, after a growing and jittered pause, while its error is one
// that may pass by itself.
func Retry(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		if err == nil || try == tries || !dialect.Retryable(err) {
			return err
		}
		pause := min(5*time.Millisecond<<try, 500*time.Millisecond)
		if Sleep(ctx, pause/2+rand.N(pause)) != nil {
			return err
		}
	}
}

// Sleep waits for d, or until ctx ends, whose error it then returns.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// InTransaction tells whether db is in a transaction, by what GORM's own
// interfaces say: with PrepareStmt the *sql.Tx is wrapped.
func InTransaction(db *gorm.DB) bool {
	committer, ok := db.Statement.ConnPool.(gorm.TxCommitter)
	return ok && committer != nil
}

// PoolExhausted tells whether all connections that the pool of db may have are in
// use.
func PoolExhausted(db *gorm.DB) bool {
	pool, err := db.DB()
	if err != nil {
		return false
	}
	s := pool.Stats()
	return s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections
}

// ErrInTransaction is returned for a handle that must not be in a transaction.
var ErrInTransaction = errors.New("the handle is in a transaction; pass the *gorm.DB that the application opened")

// Root returns ErrInTransaction if db is in a transaction, naming what was asked.
func Root(db *gorm.DB, what string) error {
	if db == nil {
		return fmt.Errorf("%s: the *gorm.DB is nil", what)
	}
	if InTransaction(db) {
		return fmt.Errorf("%s: %w", what, ErrInTransaction)
	}
	return nil
}
