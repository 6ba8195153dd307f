// Package pgnotify wakes workers through PostgreSQL's LISTEN and NOTIFY, so that a
// job enqueued by another process starts within milliseconds instead of at the
// next poll. It is a package of its own because it links pgx; an application on
// PostgreSQL names it in one line:
//
//	worker, err := jobs.NewWorker(db, registry, jobs.Config{Listener: pgnotify.New()})
//
// The enqueuing side needs nothing: Enqueue notifies in the caller's transaction
// while a worker is listening and idle, so a notification comes exactly when the
// job does, and not after a rollback. A busy worker polls every few milliseconds
// and asks for none: notifications make the commits of all transactions that send
// them wait for one another. A process that has seen that nobody asks looks again
// after a quarter of a second.
package pgnotify

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/models"
)

// ErrDriver: the *gorm.DB does not use pgx, which gorm.io/driver/postgres does by
// default, or an instrumented driver hides it. The worker goes on polling.
var ErrDriver = errors.New("pgnotify: the connection is not pgx's")

// ErrPool: the pool has one connection, which the listener would keep for itself.
// Allow more with SetMaxOpenConns, or give the listener one of its own with [DSN].
// The worker goes on polling.
var ErrPool = errors.New("pgnotify: the pool has one connection: allow more, or give the Listener a DSN of its own")

// ErrDatabase: the *gorm.DB is not PostgreSQL's. Leave the Listener out.
var ErrDatabase = errors.New("pgnotify: only PostgreSQL notifies: leave the Listener out")

// Listener implements jobs.Listener.
type Listener struct{ dsn string }

// Option is a setting of a [Listener].
type Option func(*Listener)

// DSN makes the listener open a connection of its own instead of taking one from
// the pool: for an application that reaches its database through PgBouncer in
// transaction mode, where LISTEN hears nothing, and for drivers that hide pgx.
func DSN(dsn string) Option { return func(l *Listener) { l.dsn = dsn } }

// New returns a listener. While a worker runs, it keeps one connection of the
// worker's pool, or one of its own with [DSN].
func New(opts ...Option) *Listener {
	l := &Listener{}
	for _, o := range opts {
		o(l)
	}
	return l
}

// Listen calls wake with the name of a queue in which a job was committed, until
// ctx ends or the connection is lost.
func (l *Listener) Listen(ctx context.Context, db *gorm.DB, wake func(queue string)) error {
	if l.dsn != "" {
		conn, err := pgx.Connect(ctx, l.dsn)
		if err != nil {
			return errors.New("pgnotify: cannot connect") // the error may have the DSN's password
		}
		defer conn.Close(context.WithoutCancel(ctx))
		return wait(ctx, conn, wake)
	}
	if !dialect.HasNotify(db) {
		return ErrDatabase
	}
	pool, err := db.DB()
	if err != nil {
		return fmt.Errorf("pgnotify: %w", err)
	}
	if pool.Stats().MaxOpenConnections == 1 {
		return ErrPool
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("pgnotify: %w", err)
	}
	defer conn.Close()
	var waitErr error
	err = conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("%w but a %T: give the Listener a DSN of its own", ErrDriver, driver)
		}
		waitErr = wait(ctx, c.Conn(), wake)
		// A connection that listens must not go back to the pool.
		_ = c.Conn().Close(context.WithoutCancel(ctx))
		return nil
	})
	return errors.Join(err, waitErr)
}

func wait(ctx context.Context, conn *pgx.Conn, wake func(queue string)) error {
	if _, err := conn.Exec(ctx, "LISTEN "+models.NotifyChannel); err != nil {
		return fmt.Errorf("pgnotify: listen: %w", err)
	}
	wake("") // what came before is not heard
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("pgnotify: wait: %w", err)
		}
		wake(n.Payload)
	}
}
