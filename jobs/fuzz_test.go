package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// Whatever a handler says, or panics with, its job reaches its state, and what is
// recorded is what it said, made storable.
func FuzzErrorTextIsRecorded(f *testing.F) {
	for _, s := range []string{"", "plain", "a\x00b", "\xff", "\xed\xa0\x80", "é😀", strings.Repeat("😀", 3000), "%s%d", "'; --"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	db := testdb.Open(f, testdb.SQLite)
	var text string
	var panics bool
	reg := onPing(func(context.Context, ping) error {
		if panics {
			panic(text)
		}
		return errors.New(text)
	})
	w := newWorker(f, db, reg, jobs.Config{})
	f.Fuzz(func(t *testing.T, s string, p bool) {
		text, panics = s, p
		id := enqueue(t, db, ping{}, dispatcher.MaxAttempts(1))
		drain(t, w, 1)
		j := get(t, db, id)
		if j.State != models.Failed || len(j.Failures) != 1 || j.Failures[0].Error != j.LastError {
			t.Fatalf("the job is %s with %d failures, %q", j.State, len(j.Failures), j.LastError)
		}
		want := s
		if p {
			want = "panic: " + s
		}
		got := j.LastError
		if !utf8.ValidString(got) || strings.Contains(got, "\x00") || len(got) > models.MaxErrorText {
			t.Errorf("%d bytes are recorded: %q", len(got), got)
		}
		if utf8.ValidString(want) && !strings.Contains(want, "\x00") && len(want) <= models.MaxErrorText && got != want {
			t.Errorf("recorded %q; want %q", got, want)
		}
		if stack := j.Failures[0].Stack; p != (stack != "") || len(stack) > models.MaxStack {
			t.Errorf("a stack of %d bytes; panicked: %t", len(stack), p)
		}
		if err := jobs.Delete(t.Context(), db, id); err != nil {
			t.Fatal(err)
		}
	})
}

// Whatever a claimer is called: its token fits, tells it from every other claim,
// and has its name in what is recorded of a failure.
func FuzzWorkerName(f *testing.F) {
	for _, s := range []string{"", "host-1", "a.b", "é", "\x00", "\xff", strings.Repeat("x", 200), "'; --", "..."} {
		f.Add(s)
	}
	db := testdb.Open(f, testdb.SQLite)
	f.Fuzz(func(t *testing.T, name string) {
		seen := map[string]bool{}
		for range 2 {
			c, err := jobs.NewClaimer(db, jobs.ClaimerConfig{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			id := enqueue(t, db, ping{})
			claimed, err := c.Claim(t.Context(), 1)
			if err != nil || len(claimed) != 1 {
				t.Fatalf("Claim = %v, %v", claimed, err)
			}
			token := claimed[0].ReservedBy
			if len(token) > 100 || seen[token] || strings.Count(token, ".") != 1 {
				t.Errorf("the token is %q", token)
			}
			seen[token] = true
			if err := jobs.Fail(t.Context(), db, &claimed[0], handlers.Discard(nil)); err != nil {
				t.Fatal(err)
			}
			worker, _, _ := strings.Cut(token, ".")
			if got := get(t, db, id).Failures[0].Worker; got != worker || got == "" {
				t.Errorf("the failure's worker is %q; want %q", got, worker)
			}
			if err := jobs.Delete(t.Context(), db, id); err != nil {
				t.Fatal(err)
			}
		}
	})
}
