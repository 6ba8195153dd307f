package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// batchSize is how many rows one short transaction of upkeep touches.
const batchSize = 100

// Reaped is what [Reap] found.
type Reaped struct {
	Returned int // to their queue, to run again
	Failed   int // for good: it was their last attempt
}

// errExpired is the failure of an attempt whose worker fell silent.
var errExpired = errors.New("the lease ended: the worker died, was stopped, or could not reach the database")

// Reap takes jobs back whose lease has ended by the database's clock: their worker
// has died or lost the database. The attempt stays counted and gets a failure row.
// A job goes back at once the first time, and after the default backoff later, so
// that one which kills its process does not loop; after its last attempt it fails.
//
// It changes nothing of a job that was completed, renewed or claimed anew
// meanwhile, and leaves rows alone that somebody has locked. Several may run at
// once. The scheduler calls it every minute.
func Reap(ctx context.Context, db *gorm.DB) (Reaped, error) {
	var total Reaped
	if err := session.Root(db, "reap"); err != nil {
		return total, err
	}
	for after := uint64(0); ; {
		n, last, err := reapBatch(ctx, db, after, &total)
		if err != nil {
			return total, fmt.Errorf("reap: %w", err)
		}
		if n < batchSize {
			return total, nil
		}
		after = last
	}
}

// expired is the guard of a reap, in its read and again in its write.
func expired(db *gorm.DB) string {
	return "state = 'processing' AND reserved_until < " + dialect.Now(db)
}

func reapBatch(ctx context.Context, db *gorm.DB, after uint64, total *Reaped) (n int, last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	s, err := session.In(ctx, db)
	if err != nil {
		return 0, 0, err
	}
	var ids []uint64
	err = s.Model(&models.Job{}).Where(expired(s)).Where("id > ?", after).Order("id").Limit(batchSize).Pluck("id", &ids).Error
	if err != nil || len(ids) == 0 {
		return 0, 0, err
	}
	var batch Reaped
	err = session.Transaction(ctx, db, func(tx *gorm.DB) (err error) {
		batch, err = reapRows(tx, ids)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	total.Returned += batch.Returned
	total.Failed += batch.Failed
	return len(ids), ids[len(ids)-1], nil
}

func reapRows(tx *gorm.DB, ids []uint64) (Reaped, error) {
	var r Reaped
	var jobs []models.Job
	free, err := lockFree(tx, ids, expired(tx))
	if err != nil || len(free) == 0 {
		return r, err
	}
	var failures []*outcome
	if !dialect.LocksRows(tx) {
		// The first statement of a transaction must be a write on SQLite: a read
		// that wants to write later is refused if anybody wrote in between.
		if err := tx.Model(&models.Job{}).Where(dialect.IDIn(tx, free)).Where(expired(tx)).
			Update("reserved_until", gorm.Expr("reserved_until")).Error; err != nil {
			return r, err
		}
	}
	if err := tx.Where(dialect.IDIn(tx, free)).Where(expired(tx)).Order("id").Find(&jobs).Error; err != nil {
		return r, err
	}
	for i := range jobs {
		j := &jobs[i]
		o := outcomeOf(j, retry)
		o.failure = failureOf(j, errExpired, "")
		switch {
		case j.Attempts >= j.MaxAttempts:
			o.verb = fail
		case j.Attempts > 1:
			o.after = handlers.DefaultBackoff(j.Attempts - 1)
		}
		set := columnsOf(tx, &o)
		set["reserved_by"] = nil // so that the silent worker's outcome finds another's token
		write := fence(tx, []*outcome{&o}).Where(expired(tx)).Updates(set)
		if write.Error != nil {
			return r, write.Error
		}
		if write.RowsAffected == 0 {
			continue
		}
		failures = append(failures, &o)
		if o.verb == fail {
			r.Failed++
		} else {
			r.Returned++
		}
	}
	return r, insertFailures(tx, failures)
}

// reapPatience is how long a worker waits for a scheduler to reap before it does
// so itself.
const reapPatience = 5 * time.Minute
