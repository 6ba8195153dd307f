package handlers_test

import (
	"math"
	"testing"
	"time"

	"github.com/gormjobs/gormjobs/handlers"
)

// want is the backoff of DESIGN.md without its jitter.
func want(attempt int) time.Duration {
	d := 5 * time.Second
	for range min(max(attempt, 1), 20) {
		d = min(2*d, time.Hour)
	}
	return d
}

func TestDefaultBackoffIsNeverNegativeAndCapped(t *testing.T) {
	attempts := []int{math.MinInt, -1, math.MaxInt, math.MaxInt32}
	for n := range 10_001 {
		attempts = append(attempts, n)
	}
	for _, n := range attempts {
		d := handlers.DefaultBackoff(n)
		if low, high := want(n)*9/10, want(n)*11/10; d < low || d > high {
			t.Fatalf("DefaultBackoff(%d) = %s; want %s to %s", n, d, low, high)
		}
	}
}

// Without the jitter it never falls: the bounds of each attempt's are those of a
// growing number.
func TestDefaultBackoffNeverFallsWithoutItsJitter(t *testing.T) {
	mean := func(attempt int) time.Duration {
		var sum time.Duration
		for range 2000 {
			sum += handlers.DefaultBackoff(attempt)
		}
		return sum / 2000
	}
	last := time.Duration(0)
	for n := range 13 {
		// The mean of 2000 is within 1 % of the value, and the steps double.
		m := mean(n)
		if m < last*98/100 || m < want(n)*98/100 || m > want(n)*102/100 {
			t.Errorf("the mean backoff after %d attempts is %s, %s before; want about %s", n, m, last, want(n))
		}
		last = m
	}
}

func TestTwentyFiveAttemptsLastAboutSeventeenHours(t *testing.T) {
	for range 100 {
		total := time.Duration(0)
		for n := 1; n < 25; n++ { // no wait after the last
			total += handlers.DefaultBackoff(n)
		}
		if total < 15*time.Hour || total > 18*time.Hour {
			t.Fatalf("25 attempts last %s; want about 17h", total)
		}
	}
}

func TestJitterIsATenthEitherWay(t *testing.T) {
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, 9, 10, 11, time.Second, 1000 * time.Hour} {
		low, high := max(0, d-d/10), max(0, d+d/10)
		var seenLow, seenHigh bool
		for range 1000 {
			j := handlers.Jitter(d)
			if j < low || j > high {
				t.Fatalf("Jitter(%s) = %s; want %s to %s", d, j, low, high)
			}
			seenLow, seenHigh = seenLow || j < d, seenHigh || j > d
		}
		if d >= time.Second && !(seenLow && seenHigh) {
			t.Errorf("Jitter(%s) is never on both sides", d)
		}
	}
	if j := handlers.Jitter(math.MaxInt64); j <= 0 {
		t.Errorf("Jitter of the longest duration = %s; want no overflow", j)
	}
}
