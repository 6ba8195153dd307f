package session

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
)

// Autocommit is [Transaction] for an fn that runs one statement, which the server
// may then commit by itself: BEGIN and COMMIT are two round trips of three, and
// each of them waits until a busy process gets to its answer. Where the
// application's connections have another isolation than READ COMMITTED, and on
// databases whose fn has to be several statements elsewhere, it is Transaction.
//
// An error of the connection may come after the statement was committed, and an
// error that fn itself returns undoes nothing.
func Autocommit(ctx context.Context, db *gorm.DB, fn func(s *gorm.DB) error) error {
	s, err := In(ctx, db)
	if err != nil {
		return err
	}
	p, err := of(db)
	if err != nil {
		return err
	}
	s = Unprepared(s)
	return Retry(ctx, func() error {
		yes, err := p.plain.is(s)
		if err != nil {
			return err
		}
		if !yes {
			return s.Transaction(fn, Options(s)...)
		}
		if err = fn(s); err != nil {
			p.plain.forget()
		}
		return err
	})
}

// plain remembers whether a statement outside of a transaction is READ COMMITTED.
// It is asked of one connection and taken for all. Should that be wrong, or change,
// a statement fails with a serialization error at worst, and it is asked again.
type plain struct{ answer atomic.Int32 }

const (
	plainYes int32 = 1 + iota
	plainNo
)

func (p *plain) is(s *gorm.DB) (bool, error) {
	if a := p.answer.Load(); a != 0 {
		return a == plainYes, nil
	}
	yes, err := dialect.ReadCommitted(s)
	if err != nil {
		return false, err
	}
	a := plainNo
	if yes {
		a = plainYes
	}
	p.answer.Store(a)
	return yes, nil
}

func (p *plain) forget() { p.answer.Store(0) }

// ErrNoAutocommit is returned for a pool whose statements outside of transactions
// are never committed.
var ErrNoAutocommit = errors.New("gormjobs: the connections have autocommit=0: statements outside of a transaction are lost, and reads do not see what is new; take it out of the DSN")

// Autocommits returns [ErrNoAutocommit] for such a pool. It asks until it has been
// told that all is well.
func Autocommits(ctx context.Context, db *gorm.DB) error {
	p, err := of(db)
	if err != nil || p.commits.Load() {
		return err
	}
	s, err := In(ctx, db)
	if err != nil {
		return err
	}
	yes, err := dialect.Autocommits(s)
	switch {
	case err != nil:
		return fmt.Errorf("look at autocommit: %w", err)
	case !yes:
		return ErrNoAutocommit
	}
	p.commits.Store(true)
	return nil
}
