package jobs_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// oneOfEach enqueues a job of every state.
func oneOfEach(t *testing.T, db *gorm.DB) map[models.State]uint64 {
	t.Helper()
	ids := map[models.State]uint64{}
	for _, end := range []struct {
		state models.State
		do    func(*models.Job) error
	}{
		{models.Completed, func(j *models.Job) error { return jobs.Complete(t.Context(), db, j) }},
		{models.Failed, func(j *models.Job) error { return jobs.Fail(t.Context(), db, j, errBoom) }},
		{models.Processing, func(*models.Job) error { return nil }},
	} {
		ids[end.state] = enqueue(t, db, ping{})
		j := claimOne(t, db)
		if err := end.do(&j); err != nil {
			t.Fatal(err)
		}
	}
	ids[models.Pending] = enqueue(t, db, ping{})
	ids[models.Scheduled] = enqueue(t, db, ping{}, dispatcher.Delay(time.Hour))
	ids[models.Cancelled] = enqueue(t, db, ping{})
	if err := jobs.Cancel(t.Context(), db, ids[models.Cancelled]); err != nil {
		t.Fatal(err)
	}
	for state, id := range ids {
		if j := get(t, db, id); j.State != state {
			t.Fatalf("job %d is %s; want %s", id, j.State, state)
		}
	}
	return ids
}

func TestOperatorsVerbsKeepToTheirStates(t *testing.T) {
	verbs := []struct {
		name    string
		do      func(db *gorm.DB, id uint64) error
		becomes map[models.State]models.State // "": gone
	}{
		{"requeue", func(db *gorm.DB, id uint64) error { return jobs.Requeue(t.Context(), db, id) },
			map[models.State]models.State{models.Failed: models.Pending, models.Cancelled: models.Pending}},
		{"cancel", func(db *gorm.DB, id uint64) error { return jobs.Cancel(t.Context(), db, id) },
			map[models.State]models.State{models.Pending: models.Cancelled, models.Scheduled: models.Cancelled}},
		{"delete", func(db *gorm.DB, id uint64) error { return jobs.Delete(t.Context(), db, id) },
			map[models.State]models.State{models.Completed: "", models.Failed: "", models.Cancelled: ""}},
	}
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, v := range verbs {
			if err := db.Where("1 = 1").Delete(&models.Job{}).Error; err != nil {
				t.Fatal(err)
			}
			for state, id := range oneOfEach(t, db) {
				after, allowed := v.becomes[state]
				// In a transaction of the caller, which a refusal must not hurt.
				err := db.Transaction(func(tx *gorm.DB) error {
					err := v.do(tx, id)
					if werr := tx.Model(&models.Job{}).Where("id = ?", id).Update("metadata", models.JSON(`{"seen":"1"}`)).Error; werr != nil {
						t.Errorf("the caller's transaction after %s of a %s job: %v", v.name, state, werr)
					}
					if allowed {
						return err
					}
					var refused *jobs.StateError
					if !errors.As(err, &refused) || refused.ID != id || refused.State != state || refused.Verb != v.name {
						t.Errorf("%s of a %s job = %v; want a StateError", v.name, state, err)
					}
					return nil
				})
				if err != nil {
					t.Errorf("%s of a %s job = %v", v.name, state, err)
				}
				j, err := jobs.Get(t.Context(), db, id)
				switch {
				case allowed && after == "":
					if !errors.Is(err, jobs.ErrNotFound) {
						t.Errorf("Get after delete = %v, %v; want ErrNotFound", j, err)
					}
				case err != nil:
					t.Error(err)
				case allowed && j.State != after, !allowed && j.State != state:
					t.Errorf("%s made a %s job %s", v.name, state, j.State)
				case j.Metadata != `{"seen":"1"}`:
					t.Errorf("the caller's own write after %s of a %s job is gone", v.name, state)
				case j.State.Finished() != (j.FinishedAt > 0):
					t.Errorf("%s of a %s job: %s, finished at %q", v.name, state, j.State, j.FinishedAt)
				case v.name == "requeue" && allowed && j.Attempts != 0:
					t.Errorf("requeued with %d attempts; want 0", j.Attempts)
				}
			}
			if err := v.do(db, 1<<40); !errors.Is(err, jobs.ErrNotFound) {
				t.Errorf("%s of no job = %v; want ErrNotFound", v.name, err)
			}
		}
	})
}

func TestRequeueTakesTheUniqueKeyAgainOrSaysWhoHasIt(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		first := enqueue(t, db, ping{}, dispatcher.Unique("k"))
		if err := jobs.Cancel(t.Context(), db, first); err != nil {
			t.Fatal(err)
		}
		second := enqueue(t, db, ping{}, dispatcher.Unique("k"))
		if second == first {
			t.Fatal("the key of a cancelled job is not free")
		}
		err := db.Transaction(func(tx *gorm.DB) error {
			err := jobs.Requeue(t.Context(), tx, first)
			var taken *jobs.DuplicateError
			if !errors.As(err, &taken) || taken.ID != first || taken.Holder != second {
				t.Errorf("Requeue = %v; want a DuplicateError that names job %d", err, second)
			}
			return jobs.Cancel(t.Context(), tx, second) // the transaction goes on
		})
		if err != nil {
			t.Fatalf("the caller's transaction after a DuplicateError: %v", err)
		}
		if err := jobs.Requeue(t.Context(), db, first); err != nil {
			t.Fatal(err)
		}
		r, err := dispatcher.EnqueueNow(t.Context(), db, ping{}, dispatcher.Unique("k"))
		if err != nil || !r.Duplicate || r.ID != first {
			t.Errorf("an enqueue of the key = %+v, %v; want a duplicate of job %d", r, err, first)
		}
	})
}

func TestDeleteTakesTheFailuresAlong(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ids := oneOfEach(t, db)
		other := enqueue(t, db, ping{})
		claimOne(t, db) // the pending one of each
		j := claimOne(t, db)
		if err := jobs.Fail(t.Context(), db, &j, errBoom); err != nil || j.ID != other {
			t.Fatalf("fail job %d (%d): %v", j.ID, other, err)
		}
		if err := jobs.Delete(t.Context(), db, ids[models.Failed]); err != nil {
			t.Fatal(err)
		}
		var left []uint64
		if err := db.Model(&models.Failure{}).Pluck("job_id", &left).Error; err != nil || !slices.Equal(left, []uint64{other}) {
			t.Errorf("failures of the jobs %v, %v; want of %d only", left, err, other)
		}
	})
}

func TestListAndCountShowWhatIsThere(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ids := oneOfEach(t, db)
		mail := enqueue(t, db, foreign{}, dispatcher.Queue("mail"))
		counts, err := jobs.Count(t.Context(), db)
		if err != nil || len(counts) != len(models.States()) {
			t.Fatalf("Count = %v, %v; want all states", counts, err)
		}
		for state := range ids {
			want := int64(1)
			if state == models.Pending {
				want = 2
			}
			if counts[state] != want {
				t.Errorf("%d %s jobs; want %d", counts[state], state, want)
			}
		}
		for _, c := range []struct {
			filter jobs.Filter
			want   []uint64
		}{
			{jobs.Filter{Limit: 2}, []uint64{mail, ids[models.Cancelled]}},
			{jobs.Filter{Limit: 1, Before: mail}, []uint64{ids[models.Cancelled]}},
			{jobs.Filter{State: models.Pending}, []uint64{mail, ids[models.Pending]}},
			{jobs.Filter{State: models.Pending, Queue: "default"}, []uint64{ids[models.Pending]}},
			{jobs.Filter{Type: "foreign"}, []uint64{mail}},
			{jobs.Filter{Queue: "none"}, nil},
		} {
			found, err := jobs.List(t.Context(), db, c.filter)
			var got []uint64
			for _, j := range found {
				got = append(got, j.ID)
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("List(%+v) = %v, %v; want %v", c.filter, got, err, c.want)
			}
		}
		if all, err := jobs.List(t.Context(), db, jobs.Filter{Limit: -1}); err != nil || len(all) != 7 {
			t.Errorf("List of a negative limit = %d, %v; want the default's", len(all), err)
		}
		if _, err := jobs.Get(t.Context(), db, 1<<40); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("Get of no job = %v; want ErrNotFound", err)
		}
	})
}
