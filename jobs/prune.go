package jobs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// PruneOptions says what [Prune] keeps. The zero value works.
type PruneOptions struct {
	// Completed is how long completed jobs are kept. Default 7 days.
	Completed time.Duration
	// Cancelled is how long cancelled jobs are kept. Default 7 days.
	Cancelled time.Duration
	// Failed is how long failed jobs are kept. Default 30 days.
	Failed time.Duration
	// Batch is how many jobs one transaction deletes. Default 500, at most 1000.
	Batch int
	// Pause is the wait between batches, in which others get their turn. Default
	// 50ms.
	Pause time.Duration
}

func (o PruneOptions) withDefaults() PruneOptions {
	o.Completed = cmp.Or(o.Completed, 7*24*time.Hour)
	o.Cancelled = cmp.Or(o.Cancelled, 7*24*time.Hour)
	o.Failed = cmp.Or(o.Failed, 30*24*time.Hour)
	o.Batch = min(cmp.Or(max(0, o.Batch), 500), 1000)
	o.Pause = cmp.Or(o.Pause, 50*time.Millisecond)
	return o
}

// Prune deletes finished jobs that are older than o says, with their failures, in
// batches, until none is left, and returns how many. When ctx ends it stops
// between two batches, with ctx's error; what is deleted stays deleted.
func Prune(ctx context.Context, db *gorm.DB, o PruneOptions) (int, error) {
	if err := session.Root(db, "prune"); err != nil {
		return 0, err
	}
	o = o.withDefaults()
	total := 0
	for _, keep := range []struct {
		state models.State
		age   time.Duration
	}{{models.Completed, o.Completed}, {models.Cancelled, o.Cancelled}, {models.Failed, o.Failed}} {
		cursor := models.Timestamp(0)
		for {
			if err := ctx.Err(); err != nil {
				return total, err
			}
			n, next, more, err := pruneBatch(ctx, db, keep.state, keep.age, o.Batch, cursor)
			total += n
			if err != nil {
				return total, fmt.Errorf("prune: %w", err)
			}
			if !more {
				break
			}
			cursor = next
			if err := session.Sleep(ctx, o.Pause); err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// pruneBatch deletes one batch of those finished at from or later, and returns how
// far it got, so that the next does not walk again over rows that are locked.
func pruneBatch(ctx context.Context, db *gorm.DB, state models.State, age time.Duration, batch int, from models.Timestamp) (n int, next models.Timestamp, more bool, err error) {
	// Not cut short by ctx: a batch is short, and then it is whole.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
	defer cancel()
	s, err := session.In(ctx, db)
	if err != nil {
		return 0, from, false, err
	}
	// States are literals, as everywhere. A plain read, then a write by ids: a
	// direct DELETE locks index entries in the order opposite to a claim's.
	old := fmt.Sprintf("state = '%s' AND finished_at < %s - %d", state, dialect.Now(s), age.Microseconds())
	var rows []models.Job
	err = s.Select("id", "finished_at").Where(old).Where("finished_at >= ?", int64(from)).
		Order("finished_at").Limit(batch).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return 0, from, false, err
	}
	ids := make([]uint64, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	if n, err = deleteJobs(ctx, db, ids, old); err != nil {
		return 0, from, false, err
	}
	next = rows[len(rows)-1].FinishedAt
	return n, next, n > 0 || next != from, nil // else all are locked by somebody: another time
}

// deleteJobs deletes the jobs of ids for which the guard still holds, and their
// failures.
func deleteJobs(ctx context.Context, db *gorm.DB, ids []uint64, guard string) (int, error) {
	var deleted int
	err := session.Transaction(ctx, db, func(tx *gorm.DB) error {
		deleted = 0
		if !dialect.LocksRows(tx) {
			n, err := deleteGuarded(tx, ids, guard)
			deleted = n
			return err
		}
		free, err := lockFree(tx, ids, guard)
		if err != nil || len(free) == 0 {
			return err
		}
		deleted, err = deleteGuarded(tx, free, guard)
		return err
	})
	return deleted, err
}

// deleteGuarded deletes them. On the servers either all rows pass the guard,
// because they are locked, or it is a single one.
func deleteGuarded(tx *gorm.DB, ids []uint64, guard string) (int, error) {
	failures, jobs := models.FailuresTable(tx), models.JobsTable(tx)
	del := dialect.DeleteByList(tx, jobs, "id", "PRIMARY", ids, guard)
	write := tx.Exec(del.SQL, del.Vars...)
	if write.Error != nil {
		return 0, fmt.Errorf("delete the jobs: %w", write.Error)
	}
	theirs := "1 = 1"
	switch n := write.RowsAffected; {
	case n == 0:
		return 0, nil
	case n < int64(len(ids)) && dialect.LocksRows(tx):
		return 0, fmt.Errorf("%w: locked %d, deleted %d", errTorn, len(ids), n)
	case n < int64(len(ids)):
		// Never on the servers: InnoDB answers the subquery from whatever index it
		// likes and locks all that it reads, though the isolation is READ COMMITTED.
		theirs = "NOT EXISTS (SELECT 1 FROM " + tx.Statement.Quote(jobs) + " j WHERE j.id = job_id)"
	}
	del = dialect.DeleteByList(tx, failures, "job_id", models.FailuresIndex(tx), ids, theirs)
	if err := tx.Exec(del.SQL, del.Vars...).Error; err != nil {
		return 0, fmt.Errorf("delete their failures: %w", err)
	}
	return int(write.RowsAffected), nil
}
