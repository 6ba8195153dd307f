package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

var errBoom = errors.New("boom")

// answers are all ways in which a run can end, and what comes of each.
var answers = []struct {
	name     string
	handler  func() error
	max      int // attempts
	state    models.State
	attempts int
	after    time.Duration // until the next run, give or take the jitter of the backoff
	failed   string        // in the failure row and last_error; "": no failure
	stack    string        // in the failure's stack
}{
	{"nil", func() error { return nil }, 25, models.Completed, 1, 0, "", ""},
	{"error", func() error { return errBoom }, 25, models.Scheduled, 1, 10 * time.Second, "boom", ""},
	{"error in the last attempt", func() error { return errBoom }, 1, models.Failed, 1, 0, "boom", ""},
	{"Discard", func() error { return handlers.Discard(errBoom) }, 25, models.Failed, 1, 0, "discard: boom", ""},
	{"Discard of nothing", func() error { return handlers.Discard(nil) }, 25, models.Failed, 1, 0, "discarded by its handler", ""},
	{"Discard, wrapped", func() error { return fmt.Errorf("mail: %w", handlers.Discard(errBoom)) }, 25, models.Failed, 1, 0, "mail: discard: boom", ""},
	{"Discard, joined", func() error { return errors.Join(errors.New("first"), handlers.Discard(errBoom)) }, 25, models.Failed, 1, 0, "first\ndiscard: boom", ""},
	{"Snooze", func() error { return handlers.Snooze(time.Hour) }, 25, models.Scheduled, 0, time.Hour, "", ""},
	{"Snooze, wrapped", func() error { return fmt.Errorf("early: %w", handlers.Snooze(time.Hour)) }, 25, models.Scheduled, 0, time.Hour, "", ""},
	{"Snooze in the last attempt", func() error { return handlers.Snooze(time.Hour) }, 1, models.Scheduled, 0, time.Hour, "", ""},
	{"RetryAfter", func() error { return handlers.RetryAfter(2*time.Hour, errBoom) }, 25, models.Scheduled, 1, 2 * time.Hour, "boom", ""},
	{"RetryAfter, wrapped", func() error { return fmt.Errorf("api: %w", handlers.RetryAfter(2*time.Hour, errBoom)) }, 25, models.Scheduled, 1, 2 * time.Hour, "api: boom", ""},
	{"RetryAfter in the last attempt", func() error { return handlers.RetryAfter(time.Hour, errBoom) }, 1, models.Failed, 1, 0, "boom", ""},
	{"panic with an error", func() error { panic(errBoom) }, 25, models.Scheduled, 1, 10 * time.Second, "panic: boom", "run_test.go"},
	{"panic with a value", func() error { panic(42) }, 25, models.Scheduled, 1, 10 * time.Second, "panic: 42", "run_test.go"},
	{"panic with nil", func() error { panic(nil) }, 25, models.Scheduled, 1, 10 * time.Second, "panic: panic called with nil", "run_test.go"},
	{"panic in the last attempt", func() error { panic(errBoom) }, 1, models.Failed, 1, 0, "panic: boom", "run_test.go"},
	{"nil map write", func() error { noMap()["a"] = 1; return nil }, 25, models.Scheduled, 1, 10 * time.Second, "assignment to entry in nil map", "run_test.go"},
	{"Goexit", func() error { runtime.Goexit(); return nil }, 25, models.Scheduled, 1, 10 * time.Second, "runtime.Goexit", "run_test.go"},
	{"an error that panics", func() error { return (*brokenError)(nil) }, 25, models.Scheduled, 1, 10 * time.Second, "a *jobs_test.brokenError whose Error method panicked", ""},
}

// brokenError panics in all its methods when it is nil, like many that are
// returned by mistake.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

func TestEveryAnswerHasItsOneState(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		reg := onPing(func(_ context.Context, p ping) error { return answers[p.N].handler() })
		ids := make([]uint64, len(answers))
		for i, a := range answers {
			ids[i] = enqueue(t, db, ping{i}, dispatcher.MaxAttempts(a.max))
		}
		drain(t, newWorker(t, db, reg, jobs.Config{}), len(answers))
		for i, a := range answers {
			t.Run(a.name, func(t *testing.T) {
				wantState(t, db, ids[i], a.state, a.attempts)
				j := get(t, db, ids[i])
				if a.failed == "" && (len(j.Failures) > 0 || j.LastError != "") {
					t.Errorf("%d failures, last error %q; want none", len(j.Failures), j.LastError)
				}
				if a.failed != "" {
					wantFailure(t, j, a.failed, a.stack)
				}
				if a.state.Finished() != (j.FinishedAt > 0) {
					t.Errorf("finished at %q in state %s", j.FinishedAt, j.State)
				}
				if a.state == models.Scheduled {
					wait := j.DueAt.Time().Sub(j.ReservedAt.Time())
					if wait < a.after*9/10 || wait > a.after*11/10+20*time.Second || j.AvailableAt != j.DueAt {
						t.Errorf("due %s after the run, available at %s, due at %s; want about %s", wait, j.AvailableAt, j.DueAt, a.after)
					}
				} else if j.DueAt != 0 {
					t.Errorf("due_at is %s in state %s; want none", j.DueAt, j.State)
				}
			})
		}
	})
}

func wantFailure(t *testing.T, j *models.Job, text, stack string) {
	t.Helper()
	if len(j.Failures) != 1 {
		t.Fatalf("%d failures; want 1", len(j.Failures))
	}
	f := j.Failures[0]
	if !strings.Contains(f.Error, text) || f.Error != j.LastError {
		t.Errorf("failure %q, last error %q; want both with %q", f.Error, j.LastError, text)
	}
	if (f.Stack != "") != (stack != "") || !strings.Contains(f.Stack, stack) {
		t.Errorf("stack %.200q; want %q in it", f.Stack, stack)
	}
	if f.Attempt != 1 || f.Worker == "" || f.StartedAt != j.ReservedAt || f.FailedAt < f.StartedAt {
		t.Errorf("failure of attempt %d by %q from %s to %s; want attempt 1, a worker, from %s", f.Attempt, f.Worker, f.StartedAt, f.FailedAt, j.ReservedAt)
	}
}

func TestErrorTextsThatNoDatabaseTakesAreRecorded(t *testing.T) {
	texts := []string{
		"nul\x00nul", "invalid \xff\xfe", "lone surrogate \xed\xa0\x80", "", strings.Repeat("é", 5<<19),
		strings.Repeat("a", models.MaxErrorText-1) + "😀", "quote ' \\ \" %s ? $1", "emoji 😀",
	}
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		reg := onPing(func(_ context.Context, p ping) error { return errors.New(texts[p.N]) })
		ids := enqueuePings(t, db, len(texts), dispatcher.MaxAttempts(1))
		drain(t, newWorker(t, db, reg, jobs.Config{}), len(texts))
		for i, id := range ids {
			wantState(t, db, id, models.Failed, 1)
			j := get(t, db, id)
			got := j.LastError
			if !utf8.ValidString(got) || strings.Contains(got, "\x00") || len(got) > models.MaxErrorText {
				t.Errorf("%.30q became %.30q of %d bytes; want clean text of at most %d", texts[i], got, len(got), models.MaxErrorText)
			}
			if len(j.Failures) != 1 || j.Failures[0].Error != got {
				t.Errorf("%.30q: failures %.60v; want one with the last error", texts[i], j.Failures)
			}
			if utf8.ValidString(texts[i]) && !strings.Contains(texts[i], "\x00") && !strings.HasPrefix(texts[i], got) {
				t.Errorf("%.30q became %.30q; want a prefix", texts[i], got)
			}
		}
	})
}

func TestJobThatNeverSucceedsFailsAfterItsLastAttempt(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		runs := 0
		atOnce := handlers.Backoff(func(int) time.Duration { return 0 })
		reg := onPing(func(context.Context, ping) error { runs++; return fmt.Errorf("run %d", runs) }, atOnce)
		id := enqueue(t, db, ping{}, dispatcher.MaxAttempts(3))
		w := newWorker(t, db, reg, jobs.Config{Name: "one"})
		drain(t, w, 3)
		drain(t, w, 0)
		wantState(t, db, id, models.Failed, 3)
		j := get(t, db, id)
		if runs != 3 || len(j.Failures) != 3 || j.LastError != "run 3" {
			t.Fatalf("%d runs, %d failures, last error %q; want 3, 3, run 3", runs, len(j.Failures), j.LastError)
		}
		for i, f := range j.Failures {
			if f.Attempt != i+1 || f.Error != fmt.Sprintf("run %d", i+1) || f.Worker != "one" {
				t.Errorf("failure %d is of attempt %d by %s: %q", i, f.Attempt, f.Worker, f.Error)
			}
		}
		if s := w.Stats(); s.Retried != 2 || s.Failed != 1 || s.Completed != 0 {
			t.Errorf("Stats = %+v; want 2 retried, 1 failed", s)
		}
	})
}

func TestPanickingBackoffIsReplacedByTheDefault(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite)
	reg := onPing(func(context.Context, ping) error { return errBoom }, handlers.Backoff(func(int) time.Duration { panic("no idea") }))
	id := enqueue(t, db, ping{})
	drain(t, newWorker(t, db, reg, jobs.Config{}), 1)
	wantState(t, db, id, models.Scheduled, 1)
}

func TestPayloadThatDoesNotDecodeIsAFailedAttempt(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ids := enqueuePings(t, db, 10)
		change(t, db, ids[4], map[string]any{"payload": `{"n":"a text"}`})
		drain(t, newWorker(t, db, onPing(func(context.Context, ping) error { return nil }), jobs.Config{}), 10)
		for i, id := range ids {
			if i != 4 {
				wantState(t, db, id, models.Completed, 1)
			}
		}
		wantState(t, db, ids[4], models.Scheduled, 1)
		if j := get(t, db, ids[4]); !strings.Contains(j.LastError, "decode the payload of job") {
			t.Errorf("last error %q; want that the payload does not decode", j.LastError)
		}
	})
}

// noMap is a nil map that staticcheck does not see through.
func noMap() map[string]int { return nil }
