package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func TestQueueRunsNoMoreAtOnceThanItsSlots(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		slots := jobs.Queues{"mail": 2, "default": 5}
		var mu sync.Mutex
		now, most := map[string]int{}, map[string]int{}
		full := make(chan struct{})
		reg := onPing(func(ctx context.Context, _ ping) error {
			j, _ := handlers.JobFrom(ctx)
			mu.Lock()
			now[j.Queue]++
			most[j.Queue] = max(most[j.Queue], now[j.Queue])
			if most["mail"] == 2 && most["default"] == 5 {
				select {
				case <-full:
				default:
					close(full)
				}
			}
			mu.Unlock()
			<-full // so that all slots are seen to be used at once
			mu.Lock()
			now[j.Queue]--
			mu.Unlock()
			return nil
		})
		enqueuePings(t, db, 60)
		enqueuePings(t, db, 60, dispatcher.Queue("mail"))
		other := enqueue(t, db, ping{}, dispatcher.Queue("other"))
		w := newWorker(t, db, reg, jobs.Config{Queues: slots})
		stop := start(t, w)
		waitFor(t, 30*time.Second, "all are completed", func() bool { return w.Stats().Completed == 120 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for queue, n := range slots {
			if most[queue] != n {
				t.Errorf("%d jobs of %s at once; want %d", most[queue], queue, n)
			}
		}
		wantState(t, db, other, models.Pending, 0) // of a queue that is not this worker's
	})
}

func TestJobsRunByPriorityThenAge(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var order []int
		reg := onPing(func(_ context.Context, p ping) error { order = append(order, p.N); return nil })
		for n, priority := range []int{5, 0, -3, 0, 5, -3} {
			enqueue(t, db, ping{n}, dispatcher.Priority(priority))
		}
		drain(t, newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": 1}}), 6)
		if want := []int{2, 5, 1, 3, 0, 4}; !slices.Equal(order, want) {
			t.Errorf("order %v; want %v", order, want)
		}
	})
}

func TestDelayedJobRunsWhenItIsDue(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ran := make(chan int, 2)
		reg := onPing(func(_ context.Context, p ping) error { ran <- p.N; return nil })
		// Without the promotion's own alarm, the next look would be in an hour.
		w := newWorker(t, db, reg, jobs.Config{PollInterval: time.Hour})
		start(t, w)
		id := enqueue(t, db, ping{1}, dispatcher.Delay(300*time.Millisecond))
		enqueue(t, db, ping{2}, dispatcher.Delay(time.Hour))
		receive(t, ran, "the delayed job runs")
		j := get(t, db, id)
		if wait := j.ReservedAt.Time().Sub(j.CreatedAt.Time()); wait < 300*time.Millisecond || wait > 2*time.Second {
			t.Errorf("it ran %s after its enqueue; want 300ms", wait)
		}
		if len(ran) > 0 {
			t.Error("the job of the future ran too")
		}
	})
}

// The lookout's first glance comes back while the first claim is still on its way,
// so that no queue is waiting at that moment.
func TestJobsOfAnotherProcessAreFoundWithoutAWholePollInterval(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		glanced := make(chan struct{})
		glance := sync.OnceFunc(func() { close(glanced) })
		own := hooked(t, db, hooks{
			done: func(q string) {
				if strings.Contains(q, "min(due_at)") {
					glance()
				}
			},
			committed: func(string) bool {
				if testdb.KindOf(db) != testdb.SQLite { // which has one connection
					<-glanced
				}
				return false
			},
		})
		ran := make(chan int, 10)
		reg := onPing(func(_ context.Context, p ping) error { ran <- p.N; return nil })
		w := newWorker(t, own, reg, jobs.Config{Queues: jobs.Queues{"default": 2}, PollInterval: time.Hour})
		start(t, w)
		receive(t, glanced, "the worker looks")
		for n := range 30 {
			enqueuePings(t, db, 1+n%4) // db is not the worker's handle: it hears nothing
			for range 1 + n%4 {
				receive(t, ran, "the worker finds the job without an hour's sleep")
			}
		}
	})
}

type foreign struct{}

func (foreign) JobType() string { return "foreign" }

func TestUnknownTypeIsLeftForAnotherWorker(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var ids []uint64
		for range 25 {
			ids = append(ids, enqueue(t, db, foreign{}))
		}
		known := enqueue(t, db, ping{})
		book := &logbook{}
		w := newWorker(t, db, onPing(func(context.Context, ping) error { return nil }), jobs.Config{Logger: book.logger()})
		drain(t, w, 1)
		wantState(t, db, known, models.Completed, 1)
		for _, id := range ids {
			j := get(t, db, id)
			if wait := j.DueAt.Time().Sub(j.ReservedAt.Time()); j.State != models.Scheduled || j.Attempts != 0 || wait < time.Minute || wait > 2*time.Minute {
				t.Errorf("job %d is %s with %d attempts, due after %s; want scheduled, 0, a minute", id, j.State, j.Attempts, wait)
			}
			if len(j.Failures) > 0 || j.AvailableAt > j.ReservedAt {
				t.Errorf("job %d has %d failures, available at %s; want none and its old place", id, len(j.Failures), j.AvailableAt)
			}
		}
		if lines := book.with("no handler is registered"); len(lines) != 1 || !strings.Contains(lines[0], "foreign") {
			t.Errorf("log %q; want one line that names the type", lines)
		}
		backlog, err := jobs.Backlog(t.Context(), db, 100)
		if err != nil || len(backlog) != 1 || backlog[0].Due != 25 {
			t.Errorf("Backlog = %+v, %v; want the 25", backlog, err)
		}
	})
}

func TestMiddlewareRunsOutermostFirst(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite)
	var order []string
	note := func(name string) handlers.Middleware {
		return func(next handlers.Func) handlers.Func {
			return func(ctx context.Context, job *models.Job) error {
				order = append(order, name, string(job.Payload))
				err := next(ctx, job)
				order = append(order, "after "+name)
				return err
			}
		}
	}
	reg := onPing(func(ctx context.Context, p ping) error {
		j, ok := handlers.JobFrom(ctx)
		if !ok || j.Queue != "default" || j.Attempts != 1 || j.Metadata != `{"trace":"abc"}` {
			t.Errorf("JobFrom = %+v, %t", j, ok)
		}
		order = append(order, "handler")
		return nil
	})
	reg.Use(note("first"), note("second"))
	enqueue(t, db, ping{3}, dispatcher.Metadata(map[string]string{"trace": "abc"}))
	drain(t, newWorker(t, db, reg, jobs.Config{}), 1)
	want := []string{"first", `{"n":3}`, "second", `{"n":3}`, "handler", "after second", "after first"}
	if !slices.Equal(order, want) {
		t.Errorf("order %q; want %q", order, want)
	}
}

func TestHandlerTimeoutIsAFailedAttemptThatSaysSo(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		reg := onPing(func(ctx context.Context, _ ping) error { <-ctx.Done(); return ctx.Err() }, handlers.Timeout(20*time.Millisecond))
		id := enqueue(t, db, ping{})
		drain(t, newWorker(t, db, reg, jobs.Config{}), 1)
		wantState(t, db, id, models.Scheduled, 1)
		if j := get(t, db, id); !strings.Contains(j.LastError, "timed out after 20ms") {
			t.Errorf("last error %q; want that it timed out after 20ms", j.LastError)
		}
	})
}

func TestHandlerDeafToItsTimeoutIsCountedAndHoldsUpNoOther(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		release := make(chan struct{})
		reg := onPing(func(_ context.Context, p ping) error {
			if p.N == 0 {
				<-release
			}
			return nil
		}, handlers.Timeout(time.Millisecond))
		enqueuePings(t, db, 50)
		book := &logbook{}
		w := newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": 2}, Logger: book.logger(), ShutdownTimeout: time.Millisecond})
		stop := start(t, w)
		waitFor(t, 20*time.Second, "the others are completed", func() bool { return w.Stats().Completed == 49 })
		waitFor(t, 20*time.Second, "the deaf one is counted", func() bool { return w.Stats().Stuck == 1 })
		began := time.Now()
		err := stop()
		close(release)
		var stuck *jobs.StuckError
		if !errors.As(err, &stuck) || len(stuck.Jobs) != 1 || !strings.Contains(err.Error(), "ping (job ") {
			t.Errorf("Run = %v; want a StuckError that names the job", err)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("the shutdown took %s; want some 2s", took)
		}
		if lines := book.with("past its timeout"); len(lines) != 1 || book.above(slog.LevelError) > 0 {
			t.Errorf("log %q; want one line about the timeout and no error", book.with(""))
		}
	}, testdb.Parallel)
}
