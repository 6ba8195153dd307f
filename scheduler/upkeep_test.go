package scheduler_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
	"github.com/gormjobs/gormjobs/scheduler"
)

// everySecond is upkeep that is soon due.
var everySecond = scheduler.Upkeep{Spec: "@every 1s"}

// enqueue makes a job with some columns as given.
func enqueue(t *testing.T, db *gorm.DB, columns map[string]any, opts ...dispatcher.Option) uint64 {
	t.Helper()
	r, err := dispatcher.EnqueueNow(t.Context(), db, report{}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	if len(columns) > 0 {
		if err := db.Model(&models.Job{}).Where("id = ?", r.ID).Updates(columns).Error; err != nil {
			t.Fatal(err)
		}
	}
	return r.ID
}

// stateOf is "" if there is no such job.
func stateOf(t *testing.T, db *gorm.DB, id uint64) models.State {
	t.Helper()
	var states []models.State
	if err := db.Model(&models.Job{}).Where("id = ?", id).Limit(1).Pluck("state", &states).Error; err != nil {
		t.Fatal(err)
	}
	if len(states) == 0 {
		return ""
	}
	return states[0]
}

// expired are the columns of a job whose worker fell silent an hour ago, and old
// those of one that was completed a year ago.
func expired(now time.Time) map[string]any {
	return map[string]any{"state": models.Processing, "attempts": 1, "reserved_by": "silent.1", "reserved_until": models.At(now.Add(-time.Hour))}
}

func old(now time.Time) map[string]any {
	return map[string]any{"state": models.Completed, "finished_at": models.At(now.Add(-365 * 24 * time.Hour))}
}

func TestJobsOfSilentWorkersAreReaped(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		id := enqueue(t, db, expired(now))
		// The last scheduler stopped days ago: missed or not, it is done at once.
		insertRow(t, db, models.ReapEntry, away(now), now.Add(-72*time.Hour))
		c := cronOnly()
		c.Reap = scheduler.Upkeep{Spec: away(now)}
		run(t, newScheduler(t, db, c))
		until(t, "the job is pending again", func() bool { return stateOf(t, db, id) == models.Pending })
		if row := rowOf(t, db, models.ReapEntry); row.UpdatedAt < models.At(now) || row.LastTick.IsZero() {
			t.Errorf("the row that workers look at is %+v; want it updated", row)
		}
	})
}

func TestOldJobsArePruned(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		id, kept := enqueue(t, db, old(now)), enqueue(t, db, nil)
		c := cronOnly()
		c.Prune = everySecond
		run(t, newScheduler(t, db, c))
		until(t, "the old job is gone", func() bool { return stateOf(t, db, id) == "" })
		if got := stateOf(t, db, kept); got != models.Pending {
			t.Errorf("the new job is %q; want it untouched", got)
		}
	}, testdb.Parallel)
}

func TestBacklogAboveItsThresholdIsReported(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		hour := map[string]any{"available_at": models.At(now.Add(-time.Hour))}
		for range 4 {
			enqueue(t, db, nil, dispatcher.Queue("many"))
			enqueue(t, db, nil, dispatcher.Queue("allowed"))
		}
		enqueue(t, db, hour, dispatcher.Queue("aged"))
		enqueue(t, db, hour, dispatcher.Queue("off"))
		enqueue(t, db, nil, dispatcher.Queue("fine"))
		alarms := make(chan scheduler.Alarm, 100)
		c := cronOnly()
		c.Backlog = everySecond
		c.BacklogThreshold.Due = 3
		c.QueueThresholds = map[string]scheduler.Threshold{"allowed": {Due: 4}, "off": {Off: true}}
		c.OnBacklog = func(_ context.Context, a scheduler.Alarm) { alarms <- a }
		run(t, newScheduler(t, db, c))
		got := map[string]scheduler.Alarm{}
		for range 2 { // one check, sorted by queue
			a := <-alarms
			got[a.Queue] = a
		}
		if a := got["many"]; a.Due != 4 {
			t.Errorf("alarm for many: %+v; want 4 due", a)
		}
		if a := got["aged"]; a.Due != 1 || a.Oldest < time.Hour || a.Oldest > 2*time.Hour {
			t.Errorf("alarm for aged: %+v; want one that is due for an hour", a)
		}
		if a := <-alarms; a.Queue != "aged" { // of the next check
			t.Errorf("alarm for %s; want it for aged and many only", a.Queue)
		}
	}, testdb.Parallel)
}

func TestOnBacklogMayPanic(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite)
	enqueue(t, db, map[string]any{"available_at": 1})
	var logged strings.Builder
	calls := make(chan int, 100)
	c := cronOnly()
	c.Backlog = everySecond
	c.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	c.OnBacklog = func(context.Context, scheduler.Alarm) { calls <- 1; panic("boom") }
	stop := run(t, newScheduler(t, db, c))
	<-calls
	<-calls // it goes on
	stop()
	if s := logged.String(); !strings.Contains(s, "OnBacklog panicked") || !strings.Contains(s, "level=WARN") {
		t.Errorf("the log is %s; want the backlog and the panic in it", s)
	}
}

func TestUpkeepThatIsOffIsNotDone(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		silent, done := enqueue(t, db, expired(now)), enqueue(t, db, old(now))
		names := []string{models.ReapEntry, "gormjobs/backlog", "gormjobs/prune"}
		for i, spec := range []string{"@every 1m", "@every 1m", "@every 10m"} {
			insertRow(t, db, names[i], spec, now.Add(-time.Second))
		}
		c := cronOnly()
		c.OnBacklog = func(_ context.Context, a scheduler.Alarm) { t.Errorf("OnBacklog(%+v)", a) }
		run(t, newScheduler(t, db, c, entryIn("beat", "beat", "@every 1s")))
		until(t, "the scheduler works", func() bool { return len(tickedFor(t, db, "beat")) > 1 })
		if a, b := stateOf(t, db, silent), stateOf(t, db, done); a != models.Processing || b != models.Completed {
			t.Errorf("the jobs are %q and %q; want them untouched", a, b)
		}
		for _, name := range names {
			if got := rowOf(t, db, name).NextTick; got != models.At(now.Add(-time.Second)) {
				t.Errorf("next_tick of %s = %s; want it untouched", name, got)
			}
		}
	}, testdb.Parallel)
}

func TestUpkeepIsRegisteredFromTheStart(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		run(t, newScheduler(t, db, scheduler.Config{Logger: slog.New(slog.DiscardHandler)}))
		for name, spec := range map[string]string{models.ReapEntry: "@every 1m", "gormjobs/backlog": "@every 1m", "gormjobs/prune": "@every 10m"} {
			until(t, name+" has its row", func() bool { return rowOf(t, db, name).Spec == spec })
		}
	})
}

// Upkeep takes its time: it must not hold up the ticks, and not overlap itself.
func TestLongUpkeepHoldsNothingUp(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		enqueue(t, db, map[string]any{"available_at": 1}, dispatcher.Queue("late"))
		var calls atomic.Int32
		c := cronOnly()
		c.Backlog = everySecond
		c.OnBacklog = func(ctx context.Context, _ scheduler.Alarm) { calls.Add(1); <-ctx.Done() }
		stop := run(t, newScheduler(t, db, c, entryIn("beat", "beat", "@every 1s")))
		until(t, "the check has begun", func() bool { return calls.Load() == 1 })
		n := len(tickedFor(t, db, "beat"))
		until(t, "ticks go on", func() bool { return len(tickedFor(t, db, "beat")) >= n+2 })
		stop()
		if got := calls.Load(); got != 1 {
			t.Errorf("%d checks; want the first only, for it has not ended", got)
		}
	}, testdb.Parallel)
}
