package scheduler

import (
	"math"
	"slices"
	"testing"
	"time"
)

// In the package: the rest cannot wait for the minutes and years of these.

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

func entryFor(t *testing.T, e Entry) *entry {
	t.Helper()
	e.Name = "x"
	checked, err := newEntry(e)
	if err != nil {
		t.Fatal(err)
	}
	return checked
}

func TestTickWhoseEnqueueFailedForAnHourIsStillOwed(t *testing.T) {
	first, now := at("2026-05-01T10:00:00Z"), at("2026-05-01T11:00:30Z")
	fresh := at("2026-05-01T11:00:00Z")
	for _, c := range []struct {
		policy Missed
		want   []time.Time
	}{
		{Skip, []time.Time{first, fresh}},
		{Once, []time.Time{fresh}}, // one for all of them
		{All, []time.Time{first, at("2026-05-01T10:59:00Z"), fresh}},
	} {
		e := entryFor(t, Entry{Spec: "* * * * *", Missed: c.policy, MissedCap: 2})
		if got := e.due(first, now, true); !slices.EqualFunc(got, c.want, time.Time.Equal) {
			t.Errorf("%s: due = %v; want %v", c.policy, got, c.want)
		}
	}
}

func TestPauseOfLessThanAMinuteLosesNoTick(t *testing.T) {
	e := entryFor(t, Entry{Spec: "@every 1s"})
	if got := e.due(at("2026-05-01T10:00:00Z"), at("2026-05-01T10:00:59.5Z"), false); len(got) != 60 {
		t.Errorf("%d ticks are due after 59.5 s; want 60", len(got))
	}
	// Longer, and only those of the last minute are left.
	if got := e.due(at("2026-05-01T10:00:00Z"), at("2026-05-01T12:00:00.5Z"), false); len(got) != 60 {
		t.Errorf("%d ticks are due after two hours; want 60", len(got))
	}
}

func TestLatestTicksAreThoseThatASlowWalkFinds(t *testing.T) {
	for _, spec := range []string{"@every 7m", "*/5 * * * *", "30 2 * * *", "0 9 * * MON-FRI", "0 0 29 2 *"} {
		s, err := parse(spec, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		first := s.next(at("2025-01-30T11:11:11Z"))
		for _, d := range []time.Duration{0, time.Millisecond, time.Second, 61 * time.Minute, 50 * time.Hour, 900 * time.Hour} {
			now := first.Add(d)
			var want []time.Time
			for tick := first; !tick.After(now); tick = s.next(tick) {
				want = append(want, tick)
			}
			if got := latest(s, first, now, first, math.MaxInt); !slices.EqualFunc(got, want, time.Time.Equal) {
				t.Errorf("%s after %s: %v; want %v", spec, d, got, want)
			}
		}
	}
}

func TestYearsOfMissedSecondsAreNotWalkedThrough(t *testing.T) {
	e := entryFor(t, Entry{Spec: "@every 1s", Missed: Once})
	began := time.Now()
	got := e.due(at("1990-01-01T00:00:00Z"), at("2026-05-01T10:00:00Z"), false)
	if want := at("2026-05-01T10:00:00Z"); len(got) != 1 || !got[0].Equal(want) {
		t.Errorf("due = %v; want %v", got, want)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("it took %s", d)
	}
}

func TestStoredSpecHasAllThatDecidesAboutTheTicks(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec string
		loc  *time.Location
		want string
	}{
		{" 30  2 * * * ", nil, "30 2 * * *"},
		{"30 2 * * *", time.UTC, "30 2 * * *"},
		{"30 2 * * *", berlin, "TZ=Europe/Berlin 30 2 * * *"},
		{"TZ=Europe/Berlin 30 2 * * *", nil, "TZ=Europe/Berlin 30 2 * * *"},
		{"@every 1h", berlin, "@every 1h"},
	} {
		if got := entryFor(t, Entry{Spec: c.spec, Location: c.loc}).stored; got != c.want {
			t.Errorf("%q in %v is stored as %q; want %q", c.spec, c.loc, got, c.want)
		}
	}
}
