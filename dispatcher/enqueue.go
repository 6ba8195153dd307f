package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// Receipt tells what became of an enqueue.
type Receipt struct {
	// ID is the job's.
	ID uint64
	// Duplicate: a job of the same unique key was there already, and ID is that
	// one's. Nothing was inserted.
	Duplicate bool
}

// Enqueue inserts a job for p in tx and returns its receipt. The job becomes
// visible to workers when tx commits, and never existed if tx rolls back. ctx
// wins over tx's own context.
//
// It returns [ErrNoTransaction], [ErrPayload], [ErrOption] or [ErrDryRun] before
// any SQL is sent; tx stays usable. An error of the database is returned as it
// is, and what it means for tx is the database's rule.
func Enqueue(ctx context.Context, tx *gorm.DB, p models.Payload, opts ...Option) (Receipt, error) {
	return one(enqueue(ctx, tx, []models.Payload{p}, opts))
}

// EnqueueMany is like [Enqueue] for many jobs at once: a few statements instead
// of one a job. The receipts are in the order of ps. Either all jobs pass the
// checks or none is inserted.
//
// Unique keys come from a payload's own options, see [Defaults], or from an
// [Option] that looks at Request.Payload. Jobs that have one cost a statement each,
// are inserted after the others and in an order of their own: their ids do not
// ascend as ps does.
func EnqueueMany[T models.Payload](ctx context.Context, tx *gorm.DB, ps []T, opts ...Option) ([]Receipt, error) {
	payloads := make([]models.Payload, len(ps))
	for i, p := range ps {
		payloads[i] = p
	}
	return enqueue(ctx, tx, payloads, opts)
}

// EnqueueNow is like [Enqueue] in a transaction of its own: the job is there when
// it returns. Use it where there is nothing else to write, and never inside
// db.Transaction: the job would not roll back with it, and where the pool has one
// connection, as on SQLite, it waits for the one that the transaction has until ctx
// ends.
//
// After an error of the connection, whether the job is there is not known; a
// [Unique] key makes it safe to try again.
func EnqueueNow(ctx context.Context, db *gorm.DB, p models.Payload, opts ...Option) (Receipt, error) {
	if err := usable(db); err != nil {
		return Receipt{}, err
	}
	if err := session.Root(db, "EnqueueNow"); err != nil {
		return Receipt{}, err
	}
	rows, err := newRows([]models.Payload{p}, opts)
	if err != nil {
		return Receipt{}, err
	}
	if err := session.Autocommits(ctx, db); err != nil {
		return Receipt{}, explain(db, err)
	}
	s, err := session.ForCaller(ctx, db)
	if err != nil {
		return Receipt{}, err
	}
	hub, err := session.HubOf(db)
	if err != nil {
		return Receipt{}, err
	}
	var receipts []Receipt
	err = session.Retry(ctx, func() error {
		insertAll := func(s *gorm.DB) (err error) { receipts, err = insert(s, hub, rows); return err }
		if rows[0].unique == "" {
			return insertAll(session.Prepared(s)) // one statement is a transaction of its own
		}
		return s.Transaction(insertAll, session.Options(s)...)
	})
	if err == nil {
		tell(hub, rows, true)
	}
	return one(receipts, explain(db, err))
}

// explain adds to an error what its user can do about it.
func explain(db *gorm.DB, err error) error {
	switch {
	case err == nil:
		return nil
	case dialect.MissingTable(err):
		return fmt.Errorf("%w: run models.Migrate at every start", err)
	case errors.Is(err, context.DeadlineExceeded) && session.PoolExhausted(db):
		return fmt.Errorf("%w: all connections of the pool are in use; inside a transaction enqueue through its tx", err)
	}
	return err
}

// Transaction is db.Transaction that tells the workers of this process when it
// has committed. It is seldom needed: after an Enqueue in any other transaction they
// look for its jobs every few milliseconds for two seconds.
func Transaction(ctx context.Context, db *gorm.DB, fn func(tx *gorm.DB) error) error {
	hub, err := session.HubOf(db) // first: an error after the commit would deny it
	if err != nil {
		return err
	}
	if err := db.WithContext(ctx).Transaction(fn); err != nil {
		return err
	}
	if !session.InTransaction(db) { // else it was a savepoint
		hub.Tell(session.News{Committed: true})
	}
	return nil
}

func one(receipts []Receipt, err error) (Receipt, error) {
	if err != nil {
		return Receipt{}, err
	}
	return receipts[0], nil
}

func enqueue(ctx context.Context, tx *gorm.DB, ps []models.Payload, opts []Option) ([]Receipt, error) {
	if err := usable(tx); err != nil {
		return nil, err
	}
	if !session.InTransaction(tx) {
		return nil, ErrNoTransaction
	}
	rows, err := newRows(ps, opts)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	s, err := session.ForCaller(ctx, tx)
	if err != nil {
		return nil, err
	}
	hub, err := session.HubOf(tx)
	if err != nil {
		return nil, err
	}
	receipts, err := insert(s, hub, rows)
	if err != nil {
		return nil, explain(tx, err)
	}
	tell(hub, rows, false)
	return receipts, nil
}

// usable looks at what a session copies from the application's handle: an error
// that makes every further call do nothing, and DryRun, where a Create succeeds
// without a row.
func usable(db *gorm.DB) error {
	switch {
	case db == nil:
		return fmt.Errorf("%w (the *gorm.DB is nil)", ErrNoTransaction)
	case db.Error != nil:
		return fmt.Errorf("enqueue: the *gorm.DB has an error already: %w", db.Error)
	case db.DryRun:
		return ErrDryRun
	}
	return nil
}

func newRows(ps []models.Payload, opts []Option) ([]row, error) {
	rows := make([]row, len(ps))
	for i, p := range ps {
		var err error
		if rows[i], err = newRow(p, opts); err != nil && len(ps) > 1 {
			return nil, fmt.Errorf("enqueue: number %d of %d: %w", i+1, len(ps), err)
		} else if err != nil {
			return nil, fmt.Errorf("enqueue: %w", err)
		}
	}
	return rows, nil
}

// tell passes the news on, once for each queue.
func tell(hub *session.Hub, rows []row, committed bool) {
	var queues []string
	for _, r := range rows {
		if !slices.Contains(queues, r.queue) {
			queues = append(queues, r.queue)
			hub.Tell(session.News{Queue: r.queue, Committed: committed})
		}
	}
}
