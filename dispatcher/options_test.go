package dispatcher_test

import (
	"math"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

var later = time.Date(2100, 3, 1, 12, 0, 0, 123456789, time.FixedZone("", -5*3600))

// digest has defaults of its own.
type digest struct{ N int }

func (digest) JobType() string { return "digest" }

func (digest) JobOptions() []dispatcher.Option {
	return []dispatcher.Option{
		dispatcher.Queue("mail"), dispatcher.MaxAttempts(3), dispatcher.Priority(9), dispatcher.Delay(time.Hour),
		dispatcher.Metadata(map[string]string{"from": "defaults", "kept": "yes"}),
	}
}

func TestOptionsAreInTheRow(t *testing.T) {
	type opts = []dispatcher.Option
	cases := []struct {
		name    string
		payload models.Payload
		opts    opts
		want    models.Job // the fields that the row's are compared with
	}{
		{"none", welcome{7}, nil, models.Job{State: models.Pending, Queue: "default", MaxAttempts: 25}},
		{"all", welcome{7}, opts{
			dispatcher.Queue("a:b/c.D-_9"), dispatcher.Priority(math.MaxInt16), dispatcher.MaxAttempts(math.MaxInt16),
			dispatcher.Metadata(map[string]string{"a": "<1>"}), dispatcher.Metadata(map[string]string{"b": "é\xff"}),
		}, models.Job{State: models.Pending, Queue: "a:b/c.D-_9", Priority: math.MaxInt16, MaxAttempts: math.MaxInt16, Metadata: `{"a":"\u003c1\u003e","b":"é\ufffd"}`}},
		{"a pointer", &welcome{7}, nil, models.Job{State: models.Pending, Queue: "default", MaxAttempts: 25}},
		{"best priority", welcome{7}, opts{dispatcher.Priority(math.MinInt16)}, models.Job{State: models.Pending, Queue: "default", Priority: math.MinInt16, MaxAttempts: 25}},
		{"a delay of nothing", welcome{7}, opts{dispatcher.Delay(0)}, models.Job{State: models.Pending, Queue: "default", MaxAttempts: 25}},
		{"a negative delay", welcome{7}, opts{dispatcher.Delay(-time.Hour)}, models.Job{State: models.Pending, Queue: "default", MaxAttempts: 25}},
		{"in the past", welcome{7}, opts{dispatcher.At(time.Now().Add(-time.Hour))}, models.Job{State: models.Pending, Queue: "default", MaxAttempts: 25}},
		{"long past", welcome{7}, opts{dispatcher.At(time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC))}, models.Job{State: models.Pending, Queue: "default", MaxAttempts: 25}},
		{"the epoch", welcome{7}, opts{dispatcher.At(time.Unix(0, 0))}, models.Job{State: models.Pending, Queue: "default", MaxAttempts: 25}},
		{"never", welcome{7}, opts{dispatcher.Delay(time.Hour), dispatcher.At(time.Time{})}, models.Job{State: models.Pending, Queue: "default", MaxAttempts: 25}},
		{"the future", welcome{7}, opts{dispatcher.Delay(-1), dispatcher.At(later)}, models.Job{State: models.Scheduled, Queue: "default", MaxAttempts: 25, DueAt: models.At(later)}},
		{"own option", welcome{7}, opts{func(r *dispatcher.Request) {
			r.Queue, r.Priority = "user", r.Payload.(welcome).UserID
		}, nil}, models.Job{State: models.Pending, Queue: "user", Priority: 7, MaxAttempts: 25}},
		{"defaults", digest{}, opts{dispatcher.At(later)}, models.Job{State: models.Scheduled, Queue: "mail", Priority: 9, MaxAttempts: 3, DueAt: models.At(later), Metadata: `{"from":"defaults","kept":"yes"}`}},
		{"over defaults", digest{}, opts{
			dispatcher.Queue("slow"), dispatcher.MaxAttempts(1), dispatcher.Priority(0), dispatcher.Delay(0), dispatcher.Metadata(map[string]string{"from": "call"}),
		}, models.Job{State: models.Pending, Queue: "slow", MaxAttempts: 1, Metadata: `{"from":"call","kept":"yes"}`}},
	}
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				clearJobs(t, db)
				r, err := dispatcher.EnqueueNow(t.Context(), db, c.payload, c.opts...)
				if err != nil {
					t.Fatal(err)
				}
				j := theJob(t, db)
				got := models.Job{State: j.State, Queue: j.Queue, Priority: j.Priority, MaxAttempts: j.MaxAttempts, DueAt: j.DueAt, Metadata: j.Metadata}
				if !same(got, c.want) || j.ID != r.ID || j.Type != c.payload.JobType() {
					t.Errorf("row = %+v; want %+v of type %s", got, c.want, c.payload.JobType())
				}
				if j.Attempts != 0 || j.UniqueKey != nil || j.UniqueLive != nil || j.ReservedBy != "" || j.FinishedAt != 0 || j.LastError != "" {
					t.Errorf("row = %+v; want a fresh one", j)
				}
				if j.State == models.Pending && j.AvailableAt != j.CreatedAt {
					t.Errorf("available_at = %s; want created_at, %s", j.AvailableAt, j.CreatedAt)
				}
				if j.State == models.Scheduled && j.AvailableAt != j.DueAt {
					t.Errorf("available_at = %s; want due_at, %s", j.AvailableAt, j.DueAt)
				}
			})
		}
	})
}

func same(a, b models.Job) bool {
	return a.State == b.State && a.Queue == b.Queue && a.Priority == b.Priority &&
		a.MaxAttempts == b.MaxAttempts && a.DueAt == b.DueAt && a.Metadata == b.Metadata
}

// created_at is the database's, so the difference is exact.
func TestDelayCountsFromTheDatabasesClock(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, d := range []time.Duration{time.Microsecond, 1500 * time.Millisecond, 20 * 365 * 24 * time.Hour} {
			clearJobs(t, db)
			if _, err := dispatcher.EnqueueNow(t.Context(), db, welcome{7}, dispatcher.At(later), dispatcher.Delay(d)); err != nil {
				t.Fatal(err)
			}
			j := theJob(t, db)
			if got := time.Duration(j.DueAt-j.CreatedAt) * time.Microsecond; got != d || j.State != models.Scheduled {
				t.Errorf("due after %v, %s; want %v, scheduled", got, j.State, d)
			}
		}
	})
}
