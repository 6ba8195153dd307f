package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// ErrSpec is wrapped by every refusal of a spec. The text says what is wrong
// with the spec and what to write instead.
var ErrSpec = errors.New("cron spec")

const maxSpec = 200 // bytes

// Next returns the first tick of spec after the given instant, in loc; nil
// means UTC. It is what a [Scheduler] goes by, for people who want to show it.
//
// A spec is five fields, minute hour day-of-month month day-of-week, with a
// field of seconds before them if wanted; or @hourly, @daily, @weekly,
// @monthly, @yearly; or "@every 10m". Where both day fields are restricted,
// either suffices. A time zone may be written before the fields, as in
// "TZ=Europe/Berlin 30 2 * * *", if loc is nil. Everything else is an
// [ErrSpec], and so is a spec that could never fire.
//
// "@every d" takes whole seconds and ticks at the multiples of d since
// 1970-01-01 00:00 UTC, whatever loc is and whenever it is asked: every 6h is
// 00, 06, 12 and 18 h UTC. Fields are read off the clock of loc:
//
//   - A spec that names its hours fires once for each time it names. If the
//     clock is put forward over that time, it fires at the moment of the
//     change, once for all that was passed over; if the clock shows the time
//     twice, it fires at the first. A day that does not exist has no ticks.
//   - A spec that takes all 24 hours fires whenever the clock shows a time that
//     it names: again in an hour that is repeated, not for one passed over.
//
// The answer is the same for every instant between two ticks, so schedulers
// agree; a loc of [time.Local] makes the ticks depend on the machine. Ticks
// begin in 1970; where there is none before the year 10000, Next returns the
// zero time.
func Next(spec string, loc *time.Location, after time.Time) (time.Time, error) {
	s, err := parse(spec, loc)
	if err != nil {
		return time.Time{}, err
	}
	return s.next(after), nil
}

// parse reads a spec as [Next] describes it.
func parse(spec string, loc *time.Location) (schedule, error) {
	if len(spec) > maxSpec {
		return nil, refuse(spec[:40]+"…", "is longer than %d bytes; write it as two entries", maxSpec)
	}
	fields := strings.Fields(spec)
	if len(fields) > 0 && isZone(fields[0]) {
		zone, err := loadZone(fields[0], loc)
		if err != nil {
			return nil, refuse(spec, "%w", err)
		}
		if fields = fields[1:]; len(fields) > 0 && fields[0] == "@every" {
			return nil, refuse(spec, "@every counts from 1970 in UTC and knows no time zone; leave the zone out")
		}
		loc = zone
	}
	if loc == nil {
		loc = time.UTC
	}
	if len(fields) == 0 {
		return nil, refuse(spec, `has no fields; write "minute hour day-of-month month day-of-week", as "30 2 * * *", or @daily, or "@every 10m"`)
	}
	if fields[0] == "@every" {
		return parseEvery(spec, fields[1:], loc)
	}
	return parseClock(spec, fields, loc)
}

// parseEvery does not leave the duration to the library, which makes one
// second of 100ms and of -5m, and drops fractions.
func parseEvery(spec string, fields []string, loc *time.Location) (schedule, error) {
	d, err := time.ParseDuration(strings.Join(fields, " "))
	if err != nil {
		return nil, refuse(spec, `has no duration that Go understands (%w); write "@every 1h30m", without spaces`, err)
	}
	if d < time.Second || d%time.Second != 0 {
		return nil, refuse(spec, `is not in whole seconds from 1s on; write "@every 1s" or more`)
	}
	return every{seconds: int64(d / time.Second), loc: loc}, nil
}

var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour |
	cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

func parseClock(spec string, fields []string, loc *time.Location) (schedule, error) {
	if !strings.HasPrefix(fields[0], "@") {
		if err := checkFields(fields); err != nil {
			return nil, refuse(spec, "%w", err)
		}
	}
	s, err := parser.Parse(strings.Join(fields, " "))
	if err != nil {
		return nil, refuse(spec, `is not understood (%w); write five fields, or one of @hourly, @daily, @weekly, @monthly, @yearly, or "@every 10m"`, err)
	}
	wall := s.(*cron.SpecSchedule) // all but @every are
	if wall.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, refuse(spec, "never fires: its months do not have the day it names; write a day that they have, 28 or less is in all")
	}
	return clock{wall: wall, loc: loc}, nil
}

func refuse(spec, why string, args ...any) error {
	return fmt.Errorf("%w %q "+why, append([]any{ErrSpec, spec}, args...)...)
}

func isZone(field string) bool {
	return strings.HasPrefix(field, "TZ=") || strings.HasPrefix(field, "CRON_TZ=")
}

func loadZone(field string, loc *time.Location) (*time.Location, error) {
	_, name, _ := strings.Cut(field, "=")
	if loc != nil {
		return nil, fmt.Errorf("has a time zone and a Location (%s) beside it; give one of them", loc)
	}
	if name == "" || name == "Local" {
		return nil, errors.New(`names no time zone; write one that is the same on every machine, as "TZ=Europe/Berlin 30 2 * * *"`)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf(`has a time zone that cannot be loaded (%w); write a name such as Europe/Berlin, and import _ "time/tzdata" if the machine has no zone data`, err)
	}
	return zone, nil
}
