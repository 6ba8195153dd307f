package jobs

import (
	"cmp"
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// Get returns a job with its failures, oldest first, or [ErrNotFound].
func Get(ctx context.Context, db *gorm.DB, id uint64) (*models.Job, error) {
	s, err := session.In(ctx, db)
	if err != nil {
		return nil, err
	}
	var found []models.Job
	err = s.Preload("Failures", func(q *gorm.DB) *gorm.DB { return q.Order("id") }).
		Where("id = ?", id).Limit(1).Find(&found).Error
	if err != nil {
		return nil, fmt.Errorf("get job %d: %w", id, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("get job %d: %w", id, ErrNotFound)
	}
	return &found[0], nil
}

// Filter says which jobs [List] returns. The zero value means the newest 100.
type Filter struct {
	State models.State // empty: any
	Queue string       // empty: any
	Type  string       // empty: any
	// Before returns jobs with a smaller id, for the next page. Zero: the newest.
	Before uint64
	// Limit is how many at most. Default 100, at most 1000.
	Limit int
}

// List returns jobs by descending id. It serves people, not loops: a filter that
// matches few of many rows reads them all.
func List(ctx context.Context, db *gorm.DB, f Filter) ([]models.Job, error) {
	s, err := session.In(ctx, db)
	if err != nil {
		return nil, err
	}
	q := s.Model(&models.Job{})
	for column, value := range map[string]string{"state": string(f.State), "queue": f.Queue, "type": f.Type} {
		if value != "" {
			q = q.Where(clause.Eq{Column: column, Value: value})
		}
	}
	if f.Before > 0 {
		q = q.Where("id < ?", f.Before)
	}
	var found []models.Job
	if err := q.Order("id DESC").Limit(min(cmp.Or(max(0, f.Limit), 100), 1000)).Find(&found).Error; err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	return found, nil
}

// Count returns how many jobs are in each state. It reads the whole table or an
// index of it: for people, not for loops; those use [Backlog].
func Count(ctx context.Context, db *gorm.DB) (map[models.State]int64, error) {
	s, err := session.In(ctx, db)
	if err != nil {
		return nil, err
	}
	var rows []struct {
		State models.State
		N     int64
	}
	if err := s.Model(&models.Job{}).Select("state, count(*) AS n").Group("state").Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	counts := map[models.State]int64{}
	for _, state := range models.States() {
		counts[state] = 0
	}
	for _, r := range rows {
		counts[r.State] = r.N
	}
	return counts, nil
}

// Requeue makes a failed or cancelled job pending again, with all its attempts
// before it. It returns a *[StateError] for any other job, and a *[DuplicateError]
// if the job is unique and another has its key by now. db may be a transaction.
func Requeue(ctx context.Context, db *gorm.DB, id uint64) error {
	change := func(tx *gorm.DB) error {
		return operate(tx, id, "requeue", requeueable, map[string]any{
			"state": models.Pending, "attempts": 0, "available_at": now(tx, 0), "due_at": nil,
			"finished_at": nil, "unique_live": gorm.Expr("unique_key"),
		})
	}
	return inTx(ctx, db, func(tx *gorm.DB) error {
		if err := keyHolder(tx, id); err != nil {
			return err
		}
		// A savepoint: should another take the key at this moment, the statement
		// fails by the unique index, and a caller's transaction must survive that.
		err := tx.Transaction(change)
		if err != nil {
			if held := keyHolder(tx, id); held != nil {
				return held
			}
		}
		return err
	})
}

const requeueable = "state IN ('failed', 'cancelled')"

// keyHolder returns a *DuplicateError if job id could be requeued but for another
// that has its key.
func keyHolder(tx *gorm.DB, id uint64) error {
	key := tx.Model(&models.Job{}).Select("unique_key").Where("id = ?", id).Where(requeueable)
	var holder []uint64
	err := tx.Model(&models.Job{}).Where("unique_live = (?) AND id <> ?", key, id).Limit(1).Pluck("id", &holder).Error
	if err != nil || len(holder) == 0 {
		return err
	}
	return &DuplicateError{ID: id, Holder: holder[0]}
}

// Cancel calls a pending or scheduled job off. It returns a *[StateError] for one
// that is running or has finished. db may be a transaction.
func Cancel(ctx context.Context, db *gorm.DB, id uint64) error {
	return inTx(ctx, db, func(tx *gorm.DB) error {
		return operate(tx, id, "cancel", "state IN ('pending', 'scheduled')", map[string]any{
			"state": models.Cancelled, "finished_at": now(tx, 0), "due_at": nil, "unique_live": freeKey(),
		})
	})
}

func operate(tx *gorm.DB, id uint64, verb, guard string, set map[string]any) error {
	write := tx.Model(&models.Job{}).Clauses(dialect.ByID(tx)).Where("id = ?", id).Where(guard).Updates(set)
	if write.Error != nil {
		return fmt.Errorf("%s job %d: %w", verb, id, write.Error)
	}
	if write.RowsAffected == 0 {
		return refused(tx, id, verb)
	}
	return nil
}

// refused explains a guarded write that changed nothing.
func refused(tx *gorm.DB, id uint64, verb string) error {
	var states []models.State
	if err := tx.Model(&models.Job{}).Where("id = ?", id).Limit(1).Pluck("state", &states).Error; err != nil {
		return fmt.Errorf("%s job %d: %w", verb, id, err)
	}
	if len(states) == 0 {
		return fmt.Errorf("%s job %d: %w", verb, id, ErrNotFound)
	}
	return &StateError{ID: id, State: states[0], Verb: verb}
}

// Delete deletes a finished job and its failures. It returns a *[StateError] for
// one that is not finished: [Cancel] it first. db may be a transaction.
func Delete(ctx context.Context, db *gorm.DB, id uint64) error {
	return inTx(ctx, db, func(tx *gorm.DB) error {
		n, err := deleteGuarded(tx, []uint64{id}, "state IN ('completed', 'failed', 'cancelled')")
		if err != nil {
			return fmt.Errorf("delete job %d: %w", id, err)
		}
		if n == 0 {
			return refused(tx, id, "delete")
		}
		return nil
	})
}
