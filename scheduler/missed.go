package scheduler

import (
	"math"
	"slices"
	"sort"
	"time"
)

// Grace is how late a tick may be and still not be missed. A deploy, a restart or
// a busy database loses no tick: each that is at most this old gets its job,
// whatever the entry's policy.
const Grace = time.Minute

// Missed is what becomes of ticks that nobody acted on within [Grace], because no
// scheduler ran, or none reached the database. It does not touch a tick whose
// enqueue failed: the scheduler that tried goes on trying.
type Missed int

const (
	// Skip drops them. Those of the last minute still run.
	Skip Missed = iota
	// Once enqueues one job for all of them, with the latest tick.
	Once
	// All enqueues a job for each, oldest first, within MissedWindow and up to
	// MissedCap; the rest is dropped.
	All
)

// String is the policy's name.
func (m Missed) String() string {
	switch m {
	case Skip:
		return "skip"
	case Once:
		return "once"
	case All:
		return "all"
	}
	return "unknown"
}

// due returns the ticks to act on, oldest first, when first is the tick that the
// row has and now has come. owed: this scheduler has failed to enqueue first.
func (e *entry) due(first, now time.Time, owed bool) []time.Time {
	window, limit := Grace, math.MaxInt
	if missed(first, now) {
		switch e.Missed {
		case Once:
			window, limit = now.Sub(first), 1
		case All:
			window, limit = max(Grace, e.MissedWindow), e.MissedCap
		}
	}
	ticks := latest(e.schedule, first, now, now.Add(-window), limit)
	if owed && (len(ticks) == 0 || e.Missed != Once && !ticks[0].Equal(first)) {
		ticks = slices.Insert(ticks, 0, first)
	}
	return ticks
}

func missed(tick, now time.Time) bool { return now.Sub(tick) > Grace }

// latest returns the last ticks up to now, at most limit and none before since,
// oldest first. first is the earliest, and a tick whether the spec says so or not.
func latest(s schedule, first, now, since time.Time, limit int) []time.Time {
	var ticks []time.Time
	for t := now; len(ticks) < limit && !t.Before(first); {
		tick := before(s, first, t)
		if tick.Before(since) {
			break
		}
		ticks = append(ticks, tick)
		t = tick.Add(-time.Microsecond)
	}
	slices.Reverse(ticks)
	return ticks
}

// before returns the last tick up to t, or first if there is none after it. It
// halves the time between them: an entry may tick every second and have been
// away for a year.
func before(s schedule, first, t time.Time) time.Time {
	seconds := int(t.Sub(first)/time.Second) + 1
	passed := func(i int) bool {
		next := s.next(t.Add(-time.Duration(i) * time.Second))
		return !next.IsZero() && !next.After(t)
	}
	i := sort.Search(seconds, passed) // the shortest way back to before a tick
	if i == seconds {
		return first
	}
	if tick := s.next(t.Add(-time.Duration(i) * time.Second)); tick.After(first) {
		return tick
	}
	return first
}
