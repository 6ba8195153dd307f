package scheduler_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/models"
	"github.com/gormjobs/gormjobs/scheduler"
)

type report struct {
	From string `json:"from"`
}

func (report) JobType() string { return "report" }

// flaky is a payload whose first failures encodings fail.
type flaky struct{ failures *atomic.Int32 }

func (flaky) JobType() string { return "flaky" }

func (f flaky) MarshalJSON() ([]byte, error) {
	if f.failures.Add(-1) >= 0 {
		return nil, errors.New("not yet")
	}
	return json.Marshal(map[string]string{})
}

var off = scheduler.Upkeep{Off: true}

// cronOnly leaves the upkeep out.
func cronOnly() scheduler.Config {
	return scheduler.Config{Reap: off, Backlog: off, Prune: off, Logger: slog.New(slog.DiscardHandler)}
}

func newScheduler(t *testing.T, db *gorm.DB, c scheduler.Config, entries ...scheduler.Entry) *scheduler.Scheduler {
	t.Helper()
	s, err := scheduler.New(db, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := s.Cron(e); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// run runs s until stop is called, or the test ends. stop fails the test if Run
// does not return nil within 5 s.
func run(t *testing.T, s *scheduler.Scheduler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var stopped atomic.Bool
	stop = func() {
		t.Helper()
		if stopped.Swap(true) {
			return
		}
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run = %v; want nil", err)
			}
		case <-time.After(5 * time.Second):
			t.Error("Run has not returned 5 s after its context ended")
		}
	}
	t.Cleanup(stop)
	return stop
}

// poolOf returns the pool of a handle that is about to get another, and closes it
// when the test ends: testdb will not find it.
func poolOf(t *testing.T, db *gorm.DB) *sql.DB {
	t.Helper()
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return pool
}

// until waits for a claim about the database to become true.
func until(t *testing.T, claim string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	late := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("not within 30 s: %s", claim)
		}
	}
}

// clock is the database's clock.
func clock(t *testing.T, db *gorm.DB) time.Time {
	t.Helper()
	r, err := dispatcher.EnqueueNow(t.Context(), db, report{"clock"}, dispatcher.Queue("clock"))
	if err != nil {
		t.Fatal(err)
	}
	var j models.Job
	if err := db.Where("id = ?", r.ID).Limit(1).Find(&j).Error; err != nil {
		t.Fatal(err)
	}
	if err := db.Delete(&j).Error; err != nil {
		t.Fatal(err)
	}
	return j.CreatedAt.Time()
}

// away is an hourly spec that ticks half an hour from now, so that no tick is
// within the grace.
func away(now time.Time) string { return now.Add(30 * time.Minute).UTC().Format("4 * * * *") }

// insertRow makes the row that an earlier run would have left.
func insertRow(t *testing.T, db *gorm.DB, name, spec string, next time.Time) {
	t.Helper()
	row := models.Schedule{Name: name, Spec: spec, NextTick: models.At(next), UpdatedAt: 1}
	if err := db.Create(&row).Error; err != nil {
		t.Fatal(err)
	}
}

func setNext(t *testing.T, db *gorm.DB, name string, next time.Time) {
	t.Helper()
	if err := db.Model(&models.Schedule{}).Where("name = ?", name).Update("next_tick", models.At(next)).Error; err != nil {
		t.Fatal(err)
	}
}

func rowOf(t *testing.T, db *gorm.DB, name string) models.Schedule {
	t.Helper()
	var rows []models.Schedule
	if err := db.Where("name = ?", name).Limit(1).Find(&rows).Error; err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		return models.Schedule{}
	}
	return rows[0]
}

// tickedFor returns the ticks of all jobs of a queue, sorted.
func tickedFor(t *testing.T, db *gorm.DB, queue string) []time.Time {
	t.Helper()
	var jobs []models.Job
	if err := db.Where("queue = ?", queue).Order("id").Limit(1000).Find(&jobs).Error; err != nil {
		t.Fatal(err)
	}
	var all []time.Time
	for _, j := range jobs {
		tick, ok := scheduler.Tick(&j)
		if !ok {
			t.Fatalf("job %d has no tick in %q", j.ID, j.Metadata)
		}
		all = append(all, tick)
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

func wantTicks(t *testing.T, db *gorm.DB, queue string, want ...time.Time) {
	t.Helper()
	same := func(a, b time.Time) bool { return a.Equal(b) }
	if got := tickedFor(t, db, queue); !slices.EqualFunc(got, want, same) {
		t.Errorf("jobs for the ticks %v; want %v", got, want)
	}
}
