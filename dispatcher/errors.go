package dispatcher

import (
	"errors"

	"github.com/gormjobs/gormjobs/internal/session"
)

// Errors that a caller can act on. They come before any SQL was sent, so the
// transaction stays usable, on PostgreSQL too. Match them with errors.Is.
var (
	// ErrNoTransaction: the handle is in no transaction, so the job would be there
	// whatever becomes of the caller's writes. Inside db.Transaction, enqueue
	// through its tx; for a job that belongs to no transaction, use [EnqueueNow]
	// outside of any.
	ErrNoTransaction = errors.New("gormjobs: the *gorm.DB is in no transaction: inside db.Transaction(func(tx *gorm.DB) error) pass its tx, not the outer db; for a job that belongs to no transaction call EnqueueNow, outside of any")
	// ErrInTransaction: EnqueueNow was given a handle that is in a transaction
	// already. Use [Enqueue].
	ErrInTransaction = session.ErrInTransaction
	// ErrPayload: the payload cannot be stored: it is nil, its type's name is not
	// one, JSON cannot encode it, or its JSON is larger than 8 MiB or nested deeper
	// than 1000 levels.
	ErrPayload = errors.New("gormjobs: the payload cannot be stored")
	// ErrOption: an option has a value that no row can hold.
	ErrOption = errors.New("gormjobs: an option cannot be used")
	// ErrNoAutocommit: the connections of a MySQL or MariaDB have autocommit=0, so
	// that nothing would commit what EnqueueNow inserts. Take it out of the DSN.
	ErrNoAutocommit = session.ErrNoAutocommit
	// ErrDryRun: the handle only prints SQL, so nothing would be enqueued.
	ErrDryRun = session.ErrDryRun
)
