package scheduler_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the results must not depend on the machine

	"github.com/gormjobs/gormjobs/scheduler"
)

func TestSpecThatCannotWorkIsRefusedWithWhatToWriteInstead(t *testing.T) {
	for spec, says := range map[string]string{
		"":                                      `write "minute hour day-of-month month day-of-week"`,
		" \t ":                                  "has no fields",
		"0 0 30 2 *":                            "never fires",
		"0 0 31 4,6,9,11 *":                     "never fires",
		"* * * *":                               "has 4 fields; write five",
		"* * * * * * *":                         "has 7 fields; write five",
		"60 * * * *":                            `wrong minute "60"`,
		"0 24 * * *":                            "write 0-23",
		"0 22-6 * * *":                          "beyond end of range",
		"0 0 * * 7":                             "Sunday is 0",
		"0 0 * jann *":                          "JAN-DEC",
		"x * * * * *":                           `wrong second "x"`,
		"*/90 * * * *":                          "step 90 leaves the field",
		"0 */24 * * *":                          "step 24 leaves the field",
		"*/9223372036854775807 * * * *":         "leaves the field",
		"*/99999999999999999999999 * * * *":     `wrong minute`,
		"*/0 * * * *":                           "step of range should be a positive number",
		"*-banana * * * *":                      "a range from *",
		", * * * *":                             "an empty item",
		"1,,2 * * * *":                          "an empty item",
		"@dayly":                                "@daily",
		"@reboot":                               "not understood",
		"@every":                                `write "@every 1h30m"`,
		"@every 1h 30m":                         "without spaces",
		"@every 0s":                             "whole seconds from 1s on",
		"@every -5m":                            "whole seconds from 1s on",
		"@every 100ms":                          "whole seconds from 1s on",
		"@every 1.5s":                           "whole seconds from 1s on",
		"@every 9999999h":                       "no duration",
		"TZ=":                                   "names no time zone",
		"CRON_TZ= 0 0 * * *":                    "names no time zone",
		"TZ=Local 0 0 * * *":                    "the same on every machine",
		"TZ=UTC":                                "has no fields",
		"TZ=Europe/Berlyn 0 0 * * *":            "unknown time zone Europe/Berlyn",
		"TZ=../../etc/passwd 0 0 * * *":         "cannot be loaded",
		"TZ=UTC TZ=UTC * * * *":                 "once, before the fields",
		"* * * * TZ=":                           "once, before the fields",
		"TZ=UTC @every 1h":                      "leave the zone out",
		strings.Repeat("1,", 100) + "1 * * * *": "longer than 200 bytes",
	} {
		_, err := scheduler.Next(spec, nil, time.Time{})
		if !errors.Is(err, scheduler.ErrSpec) || !strings.Contains(err.Error(), says) {
			t.Errorf("Next(%q) = %v; want an ErrSpec that says %q", spec, err, says)
		}
	}
}

func TestZoneInASpecIsRefusedBesideALocation(t *testing.T) {
	_, err := scheduler.Next("TZ=Europe/Berlin 0 0 * * *", time.UTC, time.Time{})
	if !errors.Is(err, scheduler.ErrSpec) || !strings.Contains(err.Error(), "give one of them") {
		t.Errorf("Next = %v; want an ErrSpec about two zones", err)
	}
}

func TestNextTick(t *testing.T) {
	for _, c := range []struct{ spec, zone, after, want string }{
		{"30 2 * * *", "", "2026-05-05T02:30:00Z", "2026-05-06T02:30:00Z"},
		{"30 2 * * *", "", "2026-05-05T02:29:59.999999999Z", "2026-05-05T02:30:00Z"},
		{"*/15 30 2 * * *", "", "2026-05-05T02:30:00.5Z", "2026-05-05T02:30:15Z"},
		{"0 9 * * MON-FRI", "", "2026-05-08T12:00:00Z", "2026-05-11T09:00:00Z"},
		{"0 0 13 * FRI", "", "2026-05-05T00:00:00Z", "2026-05-08T00:00:00Z"}, // either day suffices
		{"@hourly", "", "2026-05-05T02:30:00Z", "2026-05-05T03:00:00Z"},
		{"@weekly", "", "2026-05-05T02:30:00Z", "2026-05-10T00:00:00Z"},
		{"@monthly", "", "2026-05-05T02:30:00Z", "2026-06-01T00:00:00Z"},
		{"@yearly", "Asia/Kolkata", "2026-05-05T02:30:00Z", "2027-01-01T00:00:00+05:30"},
		{"TZ=Europe/Berlin @daily", "", "2026-05-05T02:30:00Z", "2026-05-06T00:00:00+02:00"},
		{" CRON_TZ=Asia/Tokyo\t30  2 * * *", "", "2026-05-05T02:30:00Z", "2026-05-06T02:30:00+09:00"},
		{"0 0 29 2 *", "", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"}, // 2100 has none
		{"0 12 31 12 *", "Europe/Berlin", "2040-12-31T00:30:00+01:00", "2040-12-31T12:00:00+01:00"},
		{"0 * 31 12 *", "Europe/Berlin", "2040-12-31T12:00:00+01:00", "2040-12-31T13:00:00+01:00"},
		{"0 0 2 1 *", "", "0001-01-01T00:00:00Z", "1970-01-02T00:00:00Z"},
		{"@every 10m", "", "2026-05-05T02:30:00Z", "2026-05-05T02:40:00Z"},
		{"@every 10m", "", "2026-05-05T02:31:07.3Z", "2026-05-05T02:40:00Z"},
		{"@every 6h", "Asia/Kolkata", "2026-05-05T02:31:07Z", "2026-05-05T11:30:00+05:30"},
		{"@every 7s", "", "1970-01-01T00:00:21Z", "1970-01-01T00:00:28Z"},
		{"@every 1h", "", "1960-01-01T00:00:21Z", "1970-01-01T00:00:00Z"},
	} {
		var loc *time.Location
		if c.zone != "" {
			loc = location(t, c.zone)
		}
		if got := next(t, c.spec, loc, at(t, c.after)).Format(time.RFC3339Nano); got != c.want {
			t.Errorf("Next(%q, %s, %s) = %s; want %s", c.spec, loc, c.after, got, c.want)
		}
	}
}

func TestThereIsNoTickBeyondTheYear9999(t *testing.T) {
	for _, spec := range []string{"@every 1s", "* * * * * *", "0 0 29 2 *"} {
		for _, after := range []time.Time{at(t, "9999-12-31T23:59:59Z"), time.Unix(1<<63-1, 0)} {
			if got := next(t, spec, nil, after); !got.IsZero() {
				t.Errorf("Next(%q, %s) = %s; want zero", spec, after, got)
			}
		}
	}
}

func next(t *testing.T, spec string, loc *time.Location, after time.Time) time.Time {
	t.Helper()
	tick, err := scheduler.Next(spec, loc, after)
	if err != nil {
		t.Fatal(err)
	}
	return tick
}

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func at(t *testing.T, rfc3339 string) time.Time {
	t.Helper()
	instant, err := time.Parse(time.RFC3339Nano, rfc3339)
	if err != nil {
		t.Fatal(err)
	}
	return instant
}
