package jobs

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/models"
)

// The functions below end or prolong the run of a job that a [Claimer] returned.
// Each requires the token of that very claim, and returns [ErrLost] and changes
// nothing if the row has another by now. db may be a transaction: the change then
// commits with it, which makes the run's other writes in it happen exactly once.

// Complete marks the job completed.
func Complete(ctx context.Context, db *gorm.DB, job *models.Job) error {
	return wrap(job, "completed", recordOne(ctx, db, outcomeOf(job, complete)))
}

// Retry records a failed attempt and runs the job again after the given time,
// counted by the database's clock, zero or less meaning at once. It does not look
// at MaxAttempts; when they are used up, [Fail] the job.
func Retry(ctx context.Context, db *gorm.DB, job *models.Job, cause error, after time.Duration) error {
	o := outcomeOf(job, retry)
	o.after, o.failure = max(0, after), failureOf(job, cause, "")
	return wrap(job, "for a retry", recordOne(ctx, db, o))
}

// Fail records a failed attempt and gives the job up.
func Fail(ctx context.Context, db *gorm.DB, job *models.Job, cause error) error {
	o := outcomeOf(job, fail)
	o.failure = failureOf(job, cause, "")
	return wrap(job, "failed", recordOne(ctx, db, o))
}

// Release puts the job back to run after the given time, zero or less meaning at
// once and in its old place. The attempt is not counted.
func Release(ctx context.Context, db *gorm.DB, job *models.Job, after time.Duration) error {
	o := outcomeOf(job, release)
	o.after, o.keepPlace = max(0, after), after <= 0
	return wrap(job, "released", recordOne(ctx, db, o))
}

// Extend makes the job's lease end after the given time from now, which is at least
// 1s. To give the job up, [Release] it.
func Extend(ctx context.Context, db *gorm.DB, job *models.Job, lease time.Duration) error {
	if lease < minLease {
		return fmt.Errorf("extend job %d: the lease %s is shorter than %s", job.ID, lease, minLease)
	}
	o := outcomeOf(job, extend)
	o.after = lease
	return wrap(job, "extended", recordOne(ctx, db, o))
}

func wrap(job *models.Job, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("mark job %d %s: %w", job.ID, what, err)
}
