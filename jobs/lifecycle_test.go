package jobs_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// verbs are what can be done to a claimed job, and the state that comes of it.
var verbs = []struct {
	name     string
	do       func(context.Context, *gorm.DB, *models.Job) error
	state    models.State
	attempts int
	failures int
}{
	{"Complete", jobs.Complete, models.Completed, 1, 0},
	{"Retry", func(ctx context.Context, db *gorm.DB, j *models.Job) error {
		return jobs.Retry(ctx, db, j, errBoom, time.Minute)
	}, models.Scheduled, 1, 1},
	{"Retry at once", func(ctx context.Context, db *gorm.DB, j *models.Job) error {
		return jobs.Retry(ctx, db, j, errBoom, -time.Minute)
	}, models.Pending, 1, 1},
	{"Fail", func(ctx context.Context, db *gorm.DB, j *models.Job) error {
		return jobs.Fail(ctx, db, j, errBoom)
	}, models.Failed, 1, 1},
	{"Fail without a cause", func(ctx context.Context, db *gorm.DB, j *models.Job) error {
		return jobs.Fail(ctx, db, j, nil)
	}, models.Failed, 1, 1},
	{"Release", func(ctx context.Context, db *gorm.DB, j *models.Job) error {
		return jobs.Release(ctx, db, j, 0)
	}, models.Pending, 0, 0},
	{"Release for a while", func(ctx context.Context, db *gorm.DB, j *models.Job) error {
		return jobs.Release(ctx, db, j, time.Minute)
	}, models.Scheduled, 0, 0},
	{"Extend", func(ctx context.Context, db *gorm.DB, j *models.Job) error {
		return jobs.Extend(ctx, db, j, time.Hour)
	}, models.Processing, 1, 0},
}

func TestVerbsDoWhatTheySay(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, v := range verbs {
			t.Run(v.name, func(t *testing.T) {
				id := enqueue(t, db, ping{})
				job := claimOne(t, db)
				if err := v.do(t.Context(), db, &job); err != nil {
					t.Fatal(err)
				}
				wantState(t, db, id, v.state, v.attempts)
				j := get(t, db, id)
				if len(j.Failures) != v.failures || (j.LastError != "") != (v.failures > 0) {
					t.Errorf("%d failures, last error %q; want %d", len(j.Failures), j.LastError, v.failures)
				}
				if v.name == "Extend" && j.ReservedUntil.Time().Sub(j.ReservedAt.Time()) < time.Hour {
					t.Errorf("reserved until %s; want an hour after %s", j.ReservedUntil, j.ReservedAt)
				}
				if v.name == "Release" && j.AvailableAt != job.AvailableAt {
					t.Errorf("available at %s; want %s as before", j.AvailableAt, job.AvailableAt)
				}
				if err := db.Where("1 = 1").Delete(&models.Job{}).Error; err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

func TestStaleWorkerCannotFinishAReapedJob(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		id := enqueue(t, db, ping{})
		stale := claimOne(t, db)
		expire(t, db, id)
		reap(t, db, jobs.Reaped{Returned: 1})
		stages := []struct {
			name string
			next func()
		}{
			{"pending again", func() {}},
			{"claimed anew", func() { claimOne(t, db) }},
			{"completed by the second run", func() {
				current := *get(t, db, id)
				if err := jobs.Complete(t.Context(), db, &current); err != nil {
					t.Fatal(err)
				}
			}},
		}
		for _, stage := range stages {
			stage.next()
			before := get(t, db, id)
			for _, v := range verbs {
				if err := v.do(t.Context(), db, &stale); !errors.Is(err, jobs.ErrLost) {
					t.Errorf("%s: %s by the first claim = %v; want ErrLost", stage.name, v.name, err)
				}
				if after := get(t, db, id); !reflect.DeepEqual(after, before) {
					t.Errorf("%s: %s by the first claim changed\n%+v to\n%+v", stage.name, v.name, before, after)
				}
			}
		}
	})
}

func TestVerbsOnADeletedJobAreLost(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		id := enqueue(t, db, ping{})
		job := claimOne(t, db)
		if err := db.Delete(&models.Job{}, id).Error; err != nil {
			t.Fatal(err)
		}
		for _, v := range verbs {
			if err := v.do(t.Context(), db, &job); !errors.Is(err, jobs.ErrLost) {
				t.Errorf("%s = %v; want ErrLost", v.name, err)
			}
		}
		var n int64
		if err := db.Model(&models.Failure{}).Count(&n).Error; err != nil || n != 0 {
			t.Errorf("%d failure rows, %v; want none", n, err)
		}
	})
}

func TestVerbsCommitWithTheCallersTransaction(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, v := range verbs {
			id := enqueue(t, db, ping{})
			job := claimOne(t, db)
			before := get(t, db, id)
			err := db.Transaction(func(tx *gorm.DB) error {
				if err := v.do(t.Context(), tx, &job); err != nil {
					t.Errorf("%s in a transaction = %v", v.name, err)
				}
				return errBoom
			})
			if after := get(t, db, id); !errors.Is(err, errBoom) || !reflect.DeepEqual(after, before) {
				t.Errorf("%s, rolled back, changed\n%+v to\n%+v", v.name, before, after)
			}
			err = db.Transaction(func(tx *gorm.DB) error {
				other := job
				other.ReservedBy = "somebody.1"
				if err := v.do(t.Context(), tx, &other); !errors.Is(err, jobs.ErrLost) {
					t.Errorf("%s by another's token = %v; want ErrLost", v.name, err)
				}
				return v.do(t.Context(), tx, &job) // the refusal has not hurt the transaction
			})
			if err != nil {
				t.Errorf("%s after a refusal = %v", v.name, err)
			}
			wantState(t, db, id, v.state, v.attempts)
			if err := db.Where("1 = 1").Delete(&models.Job{}).Error; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A lease of no time is one that anybody may take back at once.
func TestExtendRefusesALeaseOfNoTime(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		id := enqueue(t, db, ping{})
		job := claimOne(t, db)
		for _, lease := range []time.Duration{-time.Hour, 0, time.Second - 1} {
			if err := jobs.Extend(t.Context(), db, &job, lease); err == nil {
				t.Errorf("Extend by %s returned nil", lease)
			}
		}
		if j := get(t, db, id); j.ReservedUntil != job.ReservedUntil {
			t.Errorf("the lease ends at %s; want %s", j.ReservedUntil.Time(), job.ReservedUntil.Time())
		}
	})
}
