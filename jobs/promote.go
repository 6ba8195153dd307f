package jobs

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// promoteBatch is how many scheduled jobs one transaction makes pending.
const promoteBatch = 500

// Promote makes scheduled jobs pending whose time has come by the database's
// clock, in all queues, and returns how many. Several may run at once. Workers do
// it by themselves.
func Promote(ctx context.Context, db *gorm.DB) (int, error) {
	if err := session.Root(db, "promote"); err != nil {
		return 0, err
	}
	total := 0
	for {
		found, n, err := promoteSome(ctx, db)
		total += n
		if err != nil {
			return total, fmt.Errorf("promote: %w", err)
		}
		// None of a full batch: others have them.
		if found < promoteBatch || n == 0 {
			return total, nil
		}
	}
}

func promoteSome(ctx context.Context, db *gorm.DB) (found, promoted int, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	s, err := session.In(ctx, db)
	if err != nil {
		return 0, 0, err
	}
	due := "due_at <= " + dialect.Now(s)
	var ids []uint64
	if err := s.Model(&models.Job{}).Where(due).Order("due_at").Limit(promoteBatch).Pluck("id", &ids).Error; err != nil || len(ids) == 0 {
		return 0, 0, err
	}
	guard := "state = 'scheduled' AND " + due
	err = session.Transaction(ctx, db, func(tx *gorm.DB) error {
		promoted = 0
		free, err := lockFree(tx, ids, guard)
		if err != nil || len(free) == 0 {
			return err
		}
		write := tx.Model(&models.Job{}).Clauses(dialect.ByID(tx)).Where(dialect.IDIn(tx, free)).Where(guard).
			Updates(map[string]any{"state": models.Pending, "due_at": nil})
		promoted = int(write.RowsAffected)
		return write.Error
	})
	if err != nil {
		return 0, 0, err
	}
	return len(ids), promoted, nil
}
