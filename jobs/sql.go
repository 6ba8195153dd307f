package jobs

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// statementTimeout bounds what the library runs on its own: a server that drops
// every packet must not stop a loop for ever.
const statementTimeout = 30 * time.Second

// skipLocked makes a read reserve its rows and leave out those that somebody else
// has locked.
func skipLocked() clause.Locking {
	return clause.Locking{Strength: clause.LockingStrengthUpdate, Options: clause.LockingOptionsSkipLocked}
}

// now is the database's clock plus d, for a column.
func now(db *gorm.DB, d time.Duration) clause.Expr {
	if d == 0 {
		return gorm.Expr(dialect.Now(db))
	}
	return gorm.Expr(dialect.Now(db)+" + ?", d.Microseconds())
}

// freeKey is unique_live of a job that has finished: free, unless the key is taken
// for a period.
func freeKey() clause.Expr {
	return gorm.Expr("CASE WHEN unique_live LIKE 'p%' THEN unique_live END")
}

// inTx runs fn in db's transaction if it is in one, else in one of the library's
// own, again after a deadlock.
func inTx(ctx context.Context, db *gorm.DB, fn func(tx *gorm.DB) error) error {
	if session.InTransaction(db) {
		tx, err := session.In(ctx, db)
		if err != nil {
			return err
		}
		return fn(tx)
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	return session.Transaction(ctx, db, fn)
}

// lockFree locks those of ids for which the guard holds and that nobody else has
// locked, and returns them in ascending order. A write after it waits for nobody.
// On SQLite nobody else can write, so all ids come back and the write's own guard
// decides. ids ascend: transactions that lock in one order do not deadlock.
func lockFree(tx *gorm.DB, ids []uint64, guard string, args ...any) ([]uint64, error) {
	if !dialect.LocksRows(tx) {
		return ids, nil
	}
	var free []uint64
	err := tx.Model(&models.Job{}).Clauses(dialect.ByID(tx), skipLocked()).
		Where(dialect.IDIn(tx, ids)).Where(guard, args...).Order("id").Pluck("id", &free).Error
	if err != nil {
		return nil, fmt.Errorf("lock the rows: %w", err)
	}
	return free, nil
}
