package handlers_test

import (
	"context"
	"errors"
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/gormjobs/gormjobs/handlers"
)

// The wait before the next attempt: never negative, an hour at most, the documented
// doubling give or take a tenth, and so never falling but for that tenth.
func FuzzDefaultBackoff(f *testing.F) {
	for _, n := range []int{0, 1, 2, 9, 10, 11, 62, 63, 64, 65, 10_000, math.MaxInt, math.MinInt, -1} {
		f.Add(n)
	}
	plain := func(attempt int) time.Duration {
		d := 10 * time.Second
		for range min(max(attempt, 1), 100) - 1 {
			d = min(2*d, time.Hour)
		}
		return d
	}
	f.Fuzz(func(t *testing.T, attempt int) {
		want := plain(attempt)
		if got := handlers.DefaultBackoff(attempt); got < want-want/10 || got > want+want/10 {
			t.Errorf("DefaultBackoff(%d) = %s; want %s give or take a tenth", attempt, got, want)
		}
		if attempt < math.MaxInt && plain(attempt+1) < want {
			t.Errorf("the wait falls after attempt %d", attempt)
		}
	})
}

func FuzzJitter(f *testing.F) {
	for _, n := range []int64{0, 1, 9, 10, 11, -1, math.MaxInt64, math.MaxInt64 - 9, math.MinInt64, int64(time.Hour)} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d := max(0, time.Duration(n))
		for range 20 {
			if got := handlers.Jitter(time.Duration(n)); got < d-d/10 || got-d > d/10 {
				t.Fatalf("Jitter(%d) = %d; want it give or take a tenth, and not negative", n, got)
			}
		}
	})
}

// What a handler asks for is never a wait into the past.
func FuzzAskedWaits(f *testing.F) {
	for _, n := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d, cause := time.Duration(n), errors.New("cause")
		if v := handlers.Judge(handlers.Snooze(d)); v.After != max(0, d) || !v.Snooze || v.Err != nil {
			t.Errorf("Judge(Snooze(%d)) = %+v", n, v)
		}
		if v := handlers.Judge(handlers.RetryAfter(d, cause)); v.After != max(0, d) || !v.HasAfter || !errors.Is(v.Err, cause) {
			t.Errorf("Judge(RetryAfter(%d)) = %+v", n, v)
		}
		reg := handlers.NewRegistry()
		fuzzedType = "fuzzed"
		handlers.Register(reg, func(context.Context, fuzzed) error { return nil },
			handlers.Backoff(func(int) time.Duration { return d }), handlers.Timeout(d))
		h, _ := reg.Lookup("fuzzed")
		if h.Backoff(1) != max(0, d) || h.Timeout() != max(0, d) {
			t.Errorf("of %d: a backoff of %s and a timeout of %s", n, h.Backoff(1), h.Timeout())
		}
	})
}

// fuzzed is a job whose type is what the fuzzer says.
type fuzzed struct{}

var fuzzedType string

func (fuzzed) JobType() string { return fuzzedType }

// documented is what names are made of.
var documented = regexp.MustCompile(`\A[A-Za-z0-9_.:/-]{1,100}\z`)

func FuzzRegisteredType(f *testing.F) {
	for _, s := range []string{"", "send_welcome", "a b", "é", "a\x00", "A-Z.a:z/0_9", "x\n", "\xff", "'; DROP TABLE users; --", `"`, "`"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		fuzzedType = name
		reg := handlers.NewRegistry()
		panicked := func() (v any) {
			defer func() { v = recover() }()
			handlers.Register(reg, func(context.Context, fuzzed) error { return nil })
			return nil
		}()
		if accepted := panicked == nil; accepted != documented.MatchString(name) {
			t.Errorf("Register of the type %q: %v; want it refused unless it is of the documented letters", name, panicked)
		}
		if _, ok := reg.Lookup(name); ok != (panicked == nil) {
			t.Errorf("Lookup(%q) = %t after %v", name, ok, panicked)
		}
	})
}
