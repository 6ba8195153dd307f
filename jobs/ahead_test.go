package jobs_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// count counts the jobs in a state.
func count(t testing.TB, db *gorm.DB, s models.State) int64 {
	t.Helper()
	counts, err := jobs.Count(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return counts[s]
}

// maxUnrecorded is what the documentation says of runs that have ended and are not
// recorded yet, beside those of the slots.
const maxUnrecorded = 2000

// Many queues have a claim each, and one recorder.
func TestEndedRunsWaitForTheirRecord(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		const queues, each, slots = 4, 3000, 5
		config := jobs.Config{Queues: jobs.Queues{}}
		for q := range queues {
			name := fmt.Sprint("q", q)
			config.Queues[name] = slots
			for range each / 1000 {
				enqueuePings(t, db, 1000, dispatcher.Queue(name))
			}
		}
		var w *jobs.Worker
		var ran, most atomic.Int64
		w = newWorker(t, db, onPing(func(context.Context, ping) error {
			if n := ran.Add(1) - int64(w.Stats().Completed); n > most.Load() {
				most.Store(n)
			}
			return nil
		}), config)
		start(t, w)
		waitFor(t, time.Minute, "all are completed", func() bool { return w.Stats().Completed == queues*each })
		if n := most.Load(); n > maxUnrecorded+queues*slots {
			t.Errorf("%d runs had ended and were not recorded; want at most %d", n, maxUnrecorded+queues*slots)
		}
	}, testdb.Parallel)
}

// heldBack is a registry whose handler begins, and goes on when it is told to.
func heldBack() (reg *handlers.Registry, began, goOn chan struct{}) {
	began, goOn = make(chan struct{}, 1000), make(chan struct{})
	return onPing(func(ctx context.Context, p ping) error {
		began <- struct{}{}
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return nil
	}), began, goOn
}

// Jobs were short, many are claimed ahead, and then they are long. Those that wait
// go back though the slots go on, and a job of a better priority is next.
func TestClaimedAheadJobsGoBackWhenTheOnesBeforeAreLong(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ids := enqueuePings(t, db, 100)
		reg, began, goOn := heldBack()
		w := newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": 2}, ShutdownTimeout: time.Millisecond})
		w.TakeForShort()
		start(t, w)
		receive(t, began, "the first job begins")
		if n := w.Reserved(); n != len(ids) {
			t.Fatalf("%d jobs are reserved; want all %d claimed ahead", n, len(ids))
		}
		step := time.NewTicker(100 * time.Millisecond) // a run each
		defer step.Stop()
		for limit := time.Now().Add(20 * time.Second); w.Reserved() > 4; {
			if time.Now().After(limit) {
				t.Fatalf("%d jobs are still reserved; want those that wait put back", w.Reserved())
			}
			<-step.C
			select {
			case goOn <- struct{}{}:
			default:
			}
		}
		if n := count(t, db, models.Pending); n < 50 {
			t.Errorf("%d jobs are pending; want most of the %d put back", n, len(ids))
		}
		wantState(t, db, ids[len(ids)-1], models.Pending, 0)
		urgent := enqueue(t, db, ping{}, dispatcher.Priority(-1))
		for range 5 {
			goOn <- struct{}{}
		}
		waitFor(t, 20*time.Second, "the urgent job is one of the next", func() bool { return get(t, db, urgent).State != models.Pending })
	}, testdb.Parallel)
}

// All slots are used at once by jobs that are no longer short.
func TestAllSlotsAreUsedByJobsThatWereTakenForShort(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		const slots = 50
		enqueuePings(t, db, slots+10)
		reg, began, goOn := heldBack()
		w := newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": slots}})
		w.TakeForShort()
		start(t, w)
		for range slots {
			receive(t, began, "a job begins beside the others")
		}
		close(goOn)
		waitFor(t, 20*time.Second, "all are completed", func() bool { return w.Stats().Completed == slots+10 })
	}, testdb.Parallel)
}

// heavy is a payload of a mebibyte.
type heavy struct{ Text string }

func (heavy) JobType() string { return "heavy" }

// The claim that meets the first big payloads knows of small ones only.
func TestPayloadsClaimedAheadHaveABound(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		const mega, slots, big = 1 << 20, 2, 24
		for range big {
			enqueue(t, db, heavy{strings.Repeat("x", mega)})
		}
		var w *jobs.Worker
		var most atomic.Int64
		began, goOn := make(chan struct{}, big), make(chan struct{})
		reg := handlers.NewRegistry()
		handlers.Register(reg, func(context.Context, heavy) error {
			most.Store(max(most.Load(), int64(w.BytesAhead())))
			began <- struct{}{}
			<-goOn
			return nil
		})
		w = newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": slots}})
		w.TakeForShort()
		start(t, w)
		for n := range big {
			receive(t, began, "the big jobs begin")
			if n >= slots-1 { // both are there: let one go
				goOn <- struct{}{}
			}
		}
		close(goOn)
		waitFor(t, 20*time.Second, "all are completed", func() bool { return w.Stats().Completed == big })
		if n := most.Load(); n > 8<<20 || n < 4<<20 {
			t.Errorf("payloads of %d MiB were held for later; want up to 8 MiB", n/mega)
		}
		for _, j := range all(t, db) {
			if j.Attempts != 1 {
				t.Errorf("job %d has %d attempts; want 1", j.ID, j.Attempts)
			}
		}
	}, testdb.Parallel)
}

// A kill would fail it for good, though it has not begun.
func TestJobOnItsLastAttemptIsNotClaimedAhead(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		const slots = 2
		ids := enqueuePings(t, db, 100, dispatcher.MaxAttempts(1))
		ids = append(ids, enqueuePings(t, db, 100)...)
		reg, began, goOn := heldBack()
		w := newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": slots}, ShutdownTimeout: time.Millisecond})
		w.TakeForShort()
		start(t, w)
		for range 3 {
			for range slots {
				receive(t, began, "a job begins")
			}
			for _, j := range all(t, db) {
				if j.MaxAttempts == 1 && j.State == models.Processing && j.ID > ids[3*slots-1] {
					t.Errorf("job %d is reserved; want those that run", j.ID)
				}
			}
			for range slots {
				goOn <- struct{}{}
			}
		}
		waitFor(t, 20*time.Second, "the outcomes are recorded", func() bool { return w.Stats().Completed >= 3*slots })
		for _, id := range ids[5*slots : 100] {
			wantState(t, db, id, models.Pending, 0)
		}
		close(goOn)
		waitFor(t, 20*time.Second, "all are completed", func() bool { return w.Stats().Completed == 200 })
		for _, j := range all(t, db) {
			if j.Attempts != 1 {
				t.Errorf("job %d has %d attempts; want 1", j.ID, j.Attempts)
			}
		}
	}, testdb.Parallel)
}

// all are all jobs.
func all(t testing.TB, db *gorm.DB) (rows []models.Job) {
	t.Helper()
	if err := db.Omit("payload").Order("id").Find(&rows).Error; err != nil {
		t.Fatal(err)
	}
	return rows
}

// Somebody makes an index on the failures' table, which locks it for writes.
func TestLockedFailuresHoldUpNoOtherOutcome(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		failing := enqueue(t, db, ping{N: 0})
		var once atomic.Bool
		began, goOn := make(chan struct{}), make(chan struct{})
		reg := onPing(func(_ context.Context, p ping) error {
			if p.N == 0 && once.CompareAndSwap(false, true) {
				close(began)
				<-goOn
				return errBoom
			}
			return nil
		}, handlers.Backoff(func(int) time.Duration { return 0 }))
		w := newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": 10}, Lease: 3 * time.Second})
		start(t, w)
		receive(t, began, "the failing job runs")
		err := testdb.Again(t, db).Connection(func(other *gorm.DB) error {
			lock, unlock := "LOCK TABLES queue_failures READ", "UNLOCK TABLES"
			if testdb.KindOf(db) == testdb.Postgres {
				lock, unlock = "BEGIN; LOCK TABLE queue_failures IN SHARE MODE", "COMMIT"
			}
			if err := other.Exec(lock).Error; err != nil {
				return err
			}
			defer other.Exec(unlock)
			close(goOn)
			for n := 1; n <= 100; n++ {
				enqueue(t, db, ping{N: n})
			}
			waitFor(t, 40*time.Second, "the others are completed", func() bool { return w.Stats().Completed == 100 })
			wantState(t, db, failing, models.Processing, 1)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, 40*time.Second, "the failure is recorded, and the job run again", func() bool { return w.Stats().Completed == 101 })
		wantState(t, db, failing, models.Completed, 2)
		if j := get(t, db, failing); len(j.Failures) != 1 {
			t.Errorf("it has %d failures; want 1", len(j.Failures))
		}
	}, testdb.Servers, testdb.Parallel)
}
