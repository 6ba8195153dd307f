package jobs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func TestReapReturnsAtOnceFirstAndWithBackoffLater(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		id := enqueue(t, db, ping{}, dispatcher.MaxAttempts(4))
		for attempt := 1; attempt <= 4; attempt++ {
			change(t, db, id, map[string]any{"state": models.Pending, "due_at": nil})
			claimOne(t, db)
			expire(t, db, id)
			want, state := jobs.Reaped{Returned: 1}, models.Scheduled
			switch attempt {
			case 1:
				state = models.Pending
			case 4:
				want, state = jobs.Reaped{Failed: 1}, models.Failed
			}
			reap(t, db, want)
			reap(t, db, jobs.Reaped{}) // once is enough
			wantState(t, db, id, state, attempt)
			j := get(t, db, id)
			if len(j.Failures) != attempt || !strings.Contains(j.LastError, "the lease ended") || j.Failures[attempt-1].Attempt != attempt {
				t.Errorf("after %d attempts: last error %q, failures %+v; want one of each attempt", attempt, j.LastError, j.Failures)
			}
			// 10 s, then 20 s, give or take a tenth.
			backoff := time.Duration(5<<(attempt-1)) * time.Second
			wait := j.DueAt.Time().Sub(j.Failures[attempt-1].FailedAt.Time())
			if state == models.Scheduled && (wait < backoff*85/100 || wait > backoff*115/100+time.Second) {
				t.Errorf("after %d attempts: due after %s; want about %s", attempt, wait, backoff)
			}
			if (state == models.Failed) != (j.FinishedAt > 0) || j.ReservedBy != "" {
				t.Errorf("%s, finished at %q, reserved by %q", j.State, j.FinishedAt, j.ReservedBy)
			}
		}
	})
}

// The reaper has read the expired job; before it writes, the job is completed, or
// renewed, or claimed anew. What happens between is put there by a trigger of the
// test: the reap's transaction begins after its read.
func TestReapChangesNothingOfAJobThatMovedOn(t *testing.T) {
	ways := map[string]func(*testing.T, *gorm.DB, *models.Job){
		"completed": func(t *testing.T, db *gorm.DB, j *models.Job) {
			if err := jobs.Complete(t.Context(), db, j); err != nil {
				t.Error(err)
			}
		},
		"renewed": func(t *testing.T, db *gorm.DB, j *models.Job) {
			if err := jobs.Extend(t.Context(), db, j, time.Hour); err != nil {
				t.Error(err)
			}
		},
		"claimed anew": func(t *testing.T, db *gorm.DB, j *models.Job) {
			if err := jobs.Release(t.Context(), db, j, 0); err != nil {
				t.Error(err)
			}
			claimOne(t, db)
		},
		"deleted": func(t *testing.T, db *gorm.DB, j *models.Job) {
			if err := db.Delete(&models.Job{}, j.ID).Error; err != nil {
				t.Error(err)
			}
		},
	}
	for name, move := range ways {
		t.Run(name, func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				id := enqueue(t, db, ping{})
				job := claimOne(t, db)
				expire(t, db, id)
				var moved *models.Job
				between := onBegin(t, db, func() {
					move(t, db, &job)
					moved, _ = jobs.Get(t.Context(), db, id)
				})
				reap(t, between, jobs.Reaped{})
				after, err := jobs.Get(t.Context(), db, id)
				if moved == nil {
					if !errors.Is(err, jobs.ErrNotFound) {
						t.Errorf("Get = %v; want it gone", err)
					}
					return
				}
				if after.State != moved.State || after.ReservedBy != moved.ReservedBy || after.ReservedUntil != moved.ReservedUntil || len(after.Failures) > 0 {
					t.Errorf("the reaper made %+v of %+v", after, moved)
				}
			})
		})
	}
}

func TestReapLeavesLiveJobsAndLockedRowsAlone(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ids := enqueuePings(t, db, 3)
		for range ids {
			claimOne(t, db)
		}
		expire(t, db, ids[0])
		expire(t, db, ids[1])
		app := testdb.Again(t, db).Begin()
		defer app.Rollback()
		if err := app.Model(&models.Job{}).Where("id = ?", ids[0]).Update("last_error", "seen").Error; err != nil {
			t.Fatal(err)
		}
		reap(t, db, jobs.Reaped{Returned: 1}) // without waiting for the application
		if err := app.Rollback().Error; err != nil {
			t.Fatal(err)
		}
		wantState(t, db, ids[1], models.Pending, 1)
		wantState(t, db, ids[2], models.Processing, 1)
		reap(t, db, jobs.Reaped{Returned: 1})
		wantState(t, db, ids[0], models.Pending, 1)
	}, testdb.Servers)
}

func TestReapTakesManyBatches(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		enqueuePings(t, db, 250)
		c, err := jobs.NewClaimer(db, jobs.ClaimerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if claimed, err := c.Claim(t.Context(), 250); err != nil || len(claimed) != 250 {
			t.Fatalf("Claim = %d, %v; want 250", len(claimed), err)
		}
		if err := db.Model(&models.Job{}).Where("1 = 1").Update("reserved_until", 1).Error; err != nil {
			t.Fatal(err)
		}
		reap(t, db, jobs.Reaped{Returned: 250})
	})
}
