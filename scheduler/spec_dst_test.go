package scheduler_test

import (
	"slices"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

func TestTicksWhenClocksChange(t *testing.T) {
	for _, c := range []struct {
		claim, zone, spec, from, to string
		want                        []string
	}{
		{"a time that is passed over fires at the change", "Europe/Berlin",
			"30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z",
			[]string{"03-29 03:00:00 +0200", "03-30 02:30:00 +0200"}},
		{"so it does if asked in the second before", "Europe/Berlin",
			"30 2 * * *", "2026-03-29T00:59:59.5Z", "2026-03-30T12:00:00Z",
			[]string{"03-29 03:00:00 +0200", "03-30 02:30:00 +0200"}},
		{"several times that are passed over fire once", "Europe/Berlin",
			"*/10 2,3 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:15:00Z",
			[]string{"03-29 03:00:00 +0200", "03-29 03:10:00 +0200"}},
		{"a time that is shown twice fires at the first", "Europe/Berlin",
			"30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z",
			[]string{"10-25 02:30:00 +0200", "10-26 02:30:00 +0100"}},
		{"every hour fires in both repeated hours", "Europe/Berlin",
			"0 * * * *", "2026-10-24T23:30:00Z", "2026-10-25T02:30:00Z",
			[]string{"10-25 02:00:00 +0200", "10-25 02:00:00 +0100", "10-25 03:00:00 +0100"}},
		{"every hour is not doubled in the gap", "Europe/Berlin",
			"0 * * * *", "2026-03-28T23:30:00Z", "2026-03-29T02:30:00Z",
			[]string{"03-29 01:00:00 +0100", "03-29 03:00:00 +0200", "03-29 04:00:00 +0200"}},
		{"every half hour keeps its pace through the gap", "Europe/Berlin",
			"15,45 0-23 * * *", "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z",
			[]string{"03-29 01:15:00 +0100", "03-29 01:45:00 +0100", "03-29 03:15:00 +0200", "03-29 03:45:00 +0200"}},
		{"every two hours names its hours", "Europe/Berlin",
			"0 */2 * * *", "2026-10-24T23:00:00Z", "2026-10-25T04:00:00Z",
			[]string{"10-25 02:00:00 +0200", "10-25 04:00:00 +0100"}},
		{"half an hour is passed over", "Australia/Lord_Howe",
			"15 2 * * *", "2026-10-03T00:00:00Z", "2026-10-05T00:00:00Z",
			[]string{"10-04 02:30:00 +1100", "10-05 02:15:00 +1100"}},
		{"half an hour is shown twice", "Australia/Lord_Howe",
			"45 1 * * *", "2026-04-04T00:00:00Z", "2026-04-06T00:00:00Z",
			[]string{"04-05 01:45:00 +1100", "04-06 01:45:00 +1030"}},
		{"no midnight in São Paulo", "America/Sao_Paulo",
			"0 0 * * *", "2018-11-03T12:00:00Z", "2018-11-05T12:00:00Z",
			[]string{"11-04 01:00:00 -0200", "11-05 00:00:00 -0200"}},
		{"the hour before midnight twice in São Paulo", "America/Sao_Paulo",
			"30 23 * * *", "2018-02-17T12:00:00Z", "2018-02-19T12:00:00Z",
			[]string{"02-17 23:30:00 -0200", "02-18 23:30:00 -0300"}},
		{"no midnight in Beirut", "Asia/Beirut",
			"@daily", "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z",
			[]string{"03-29 01:00:00 +0300", "03-30 00:00:00 +0300"}},
		{"no midnight in Cairo on the one day that is named", "Africa/Cairo",
			"0 0 24 * *", "2026-04-01T12:00:00Z", "2026-05-30T12:00:00Z",
			[]string{"04-24 01:00:00 +0300", "05-24 00:00:00 +0300"}},
		{"midnight twice in Havana", "America/Havana",
			"0 0 * * *", "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z",
			[]string{"11-01 00:00:00 -0400", "11-02 00:00:00 -0500"}},
		{"the day's last hour passed over in Nuuk fires as the day ends", "America/Nuuk",
			"30 23 * * *", "2024-03-30T12:00:00Z", "2024-04-01T12:00:00Z",
			[]string{"03-31 00:00:00 -0100", "03-31 23:30:00 -0100"}},
		{"a day that does not exist has no tick", "Pacific/Apia",
			"0 12 * * *", "2011-12-29T12:00:00Z", "2012-01-01T12:00:00Z",
			[]string{"12-29 12:00:00 -1000", "12-31 12:00:00 +1400", "01-01 12:00:00 +1400"}},
		{"nor is its midnight made up for", "Pacific/Apia",
			"0 0 30 12 *", "2011-12-29T12:00:00Z", "2012-12-30T12:00:00Z",
			[]string{"12-30 00:00:00 +1400"}},
		{"every hour goes on after the day that does not exist", "Pacific/Apia",
			"0 * * * *", "2011-12-30T08:30:00Z", "2011-12-30T11:30:00Z",
			[]string{"12-29 23:00:00 -1000", "12-31 00:00:00 +1400", "12-31 01:00:00 +1400"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			loc := location(t, c.zone)
			var got []string
			for _, tick := range ticks(t, c.spec, loc, at(t, c.from), at(t, c.to)) {
				got = append(got, tick.Format("01-02 15:04:05 -0700"))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q ticks at %q; want %q", c.spec, got, c.want)
			}
		})
	}
}

// years in which each zone does something that a naive schedule gets wrong.
var years = map[string]int{
	"UTC": 2024, "Europe/Berlin": 2026, "America/New_York": 2040, "Australia/Lord_Howe": 2026,
	"America/Sao_Paulo": 2018, "Asia/Beirut": 2026, "Africa/Cairo": 2026, "America/Havana": 2026,
	"America/Nuuk": 2024, "Atlantic/Azores": 2026, "Africa/Casablanca": 2026, "Antarctica/Troll": 2026,
	"Asia/Pyongyang": 2018, "Pacific/Apia": 2011, "Pacific/Kwajalein": 1993, "Asia/Gaza": 2011,
	"America/Caracas": 2016, "Africa/Monrovia": 1972,
}

func TestDailyJobFiresOncePerExistingDay(t *testing.T) {
	for name, year := range years {
		loc := location(t, name)
		from := time.Date(year, 1, 1, 12, 0, 0, 0, loc)
		to := time.Date(year+1, 1, 1, 12, 0, 0, 0, loc)
		days := map[string]bool{}
		for now := from; !now.After(to); now = now.Add(time.Hour) {
			days[now.Format(time.DateOnly)] = true
		}
		want := len(days) - 1 // from noon to noon
		for _, spec := range []string{"0 0 * * *", "30 0 * * *", "15 1 * * *", "30 2 * * *", "0 12 * * *", "45 23 * * *"} {
			if got := len(ticks(t, spec, loc, from, to)); got != want {
				t.Errorf("%s in %s: %d ticks in %d days", spec, name, got, want)
			}
		}
	}
}

// The rules again, written down as a watcher who looks at the clock each minute
// and remembers the latest time it has shown.
func TestTicksAreThoseOfAWatcherOfTheClock(t *testing.T) {
	hours := []string{"0 0 * * *", "30 2 * * *", "*/20 1-3 * * *", "59 23 * * *", "5,35 */2 * * *", "0 9 30 * *", "0 3 * * 0,5"}
	all := []string{"*/10 * * * *", "0 * * * *", "30 * 30 * *", "0,30 0-23 * * *"}
	for name, year := range years {
		if name == "Africa/Monrovia" {
			continue // its clock was half a minute off
		}
		loc := location(t, name)
		for _, change := range changes(loc, year) {
			from, to := change.AddDate(0, 0, -2), change.AddDate(0, 0, 3)
			for _, spec := range slices.Concat(hours, all) {
				want := watch(t, spec, slices.Contains(all, spec), loc, from, to)
				got := ticks(t, spec, loc, from, to)
				if !slices.EqualFunc(got, want, time.Time.Equal) {
					t.Errorf("%s in %s: ticks %v; want %v", spec, name, got, want)
				}
			}
		}
	}
}

// changes returns the days of a year in which the zone's offset changes.
func changes(loc *time.Location, year int) (days []time.Time) {
	for d := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); d.Year() == year; d = d.AddDate(0, 0, 1) {
		_, before := d.In(loc).Zone()
		_, after := d.AddDate(0, 0, 1).In(loc).Zone()
		if before != after {
			days = append(days, d)
		}
	}
	return days
}

func watch(t *testing.T, spec string, hourly bool, loc *time.Location, from, to time.Time) (want []time.Time) {
	t.Helper()
	s, err := cron.ParseStandard(spec)
	if err != nil {
		t.Fatal(err)
	}
	matches := map[time.Time]bool{} // wall times, as if in UTC
	for w := s.Next(from.AddDate(0, 0, -2)); w.Before(to.AddDate(0, 0, 2)); w = s.Next(w) {
		matches[w] = true
	}
	wall := func(instant time.Time) time.Time {
		_, offset := instant.In(loc).Zone()
		return instant.Add(time.Duration(offset) * time.Second).UTC()
	}
	latest := wall(from)
	for now := from.Add(time.Minute); !now.After(to); now = now.Add(time.Minute) {
		shows := wall(now)
		fires := hourly && matches[shows]
		for w := latest.Add(time.Minute); !hourly && !w.After(shows); w = w.Add(time.Minute) {
			midnight := w.Truncate(24 * time.Hour)
			exists := w.Equal(shows) || !midnight.After(latest) || midnight.AddDate(0, 0, 1).After(shows)
			fires = fires || matches[w] && exists
		}
		if shows.After(latest) {
			latest = shows
		}
		if fires {
			want = append(want, now)
		}
	}
	return want
}

func ticks(t *testing.T, spec string, loc *time.Location, from, to time.Time) (all []time.Time) {
	t.Helper()
	for tick := next(t, spec, loc, from); !tick.After(to); tick = next(t, spec, loc, tick) {
		all = append(all, tick)
	}
	return all
}
