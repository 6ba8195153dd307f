package session

import (
	"context"
	"database/sql"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
)

// Prepared is s with its executed texts prepared once for all, where the driver
// parses in this process whatever it gets: on SQLite that is much of a lone insert.
// It is for the few texts that [Statement] remembers. It is s in a transaction, where
// there may be no other connection to prepare on, and on a pool that is not the
// handle's own, which its statements would outlive here.
//
// Not GORM's PrepareStmt: who needs a text first prepares it there for all who come
// meanwhile, and if the first one's context ends these get its error.
func Prepared(s *gorm.DB) *gorm.DB {
	n, ok := s.NamingStrategy.(*namer)
	pool, plain := s.Statement.ConnPool.(*sql.DB)
	if !ok || !plain || s.Config.ConnPool != gorm.ConnPool(pool) || !dialect.ParsesInProcess(s) {
		return s
	}
	s = s.Session(&gorm.Session{NewDB: true, Context: s.Statement.Context})
	s.Statement.ConnPool = preparing{pool, n}
	return s
}

type preparing struct {
	*sql.DB
	namer *namer
}

// ExecContext implements gorm.ConnPool. A statement is closed with its pool.
func (p preparing) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	stmt, ok := p.namer.prepared.Load(text)
	if !ok {
		made, err := p.PrepareContext(ctx, text)
		if err != nil {
			return nil, err
		}
		if stmt, ok = p.namer.prepared.LoadOrStore(text, made); ok {
			go made.Close() // another was first; it waits for what its connection is doing
		}
	}
	return stmt.(*sql.Stmt).ExecContext(ctx, args...)
}
