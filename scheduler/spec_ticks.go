package scheduler

import (
	"math"
	"time"

	"github.com/robfig/cron/v3"
)

// A schedule is a parsed spec. next returns the first tick after an instant and
// depends on nothing else; where there is none before the year 10000 it is the
// zero time.
type schedule interface {
	next(after time.Time) time.Time
}

// Times below are int64 seconds since 1970: an instant counts them in UTC, a
// wall time as if the clock of the schedule's zone were one in UTC.
const (
	day      = 24 * 60 * 60
	lastTick = 253402300799 // 9999-12-31 23:59:59 UTC
)

// following returns the first tick after an instant, when from returns the
// first one from a whole second on.
func following(after time.Time, loc *time.Location, from func(sec int64) int64) time.Time {
	if after.Unix() >= lastTick {
		return time.Time{}
	}
	tick := from(max(after.Unix()+1, 0))
	if tick > lastTick {
		return time.Time{}
	}
	return time.Unix(tick, 0).In(loc)
}

// every ticks at the multiples of a number of seconds.
type every struct {
	seconds int64
	loc     *time.Location // to show the ticks in
}

func (e every) next(after time.Time) time.Time {
	return following(after, e.loc, func(sec int64) int64 {
		return (sec + e.seconds - 1) / e.seconds * e.seconds
	})
}

// clock ticks when the clock on a wall in loc shows certain times. The library
// decides only which wall times those are, and is asked in UTC, where it is
// right. Asked in a zone, it leaves out 02:30 on the day that has none and
// midnight where clocks change then, runs twice in the repeated hour, and for
// `0 12 30 * *` does not return from the day that Samoa left out.
type clock struct {
	wall *cron.SpecSchedule // has no zone, takes that of the time it is given
	loc  *time.Location
}

func (c clock) next(after time.Time) time.Time {
	const allHours = 1<<24 - 1
	if c.wall.Hour&allHours == allHours {
		return following(after, c.loc, c.shown)
	}
	return following(after, c.loc, c.once)
}

// shown returns the first instant from sec on at which the clock shows a
// matching time.
func (c clock) shown(sec int64) int64 {
	for {
		offset, end := zone(sec, c.loc)
		if tick := c.match(sec+offset) - offset; tick < end {
			return tick
		}
		sec = end
	}
}

// once returns the first instant from sec on that is the one tick of a
// matching time.
func (c clock) once(sec int64) int64 {
	// By the offset before sec: what is passed over at sec is still to come.
	offset, _ := zone(sec-1, c.loc)
	for wall := sec + offset; ; wall++ {
		wall = c.match(wall)
		// Before sec: the clock shows wall for the second time.
		if tick, exists := c.first(wall); exists && tick >= sec {
			return tick
		}
	}
}

// first returns the first instant at which the clock shows wall or, if it is
// put forward over wall, the instant of that. exists is false if all of the day
// is passed over.
func (c clock) first(wall int64) (sec int64, exists bool) {
	var before int64          // what the clock would have shown at sec without the change
	for sec = wall - day; ; { // no zone is a day away from UTC
		offset, end := zone(sec, c.loc)
		tick := wall - offset
		if tick < sec {
			midnight := wall - wall%day
			return sec, midnight < before || midnight+day > sec+offset
		}
		if tick < end {
			return tick, true
		}
		sec, before = end, end+offset
	}
}

// match returns the first matching wall time from wall on.
func (c clock) match(wall int64) int64 {
	for t := time.Unix(wall-1, 0).UTC(); ; t = t.AddDate(5, 0, 0) {
		// The library looks five years ahead; 29 February can be eight away.
		if m := c.wall.Next(t); !m.IsZero() {
			return m.Unix()
		}
	}
}

// zone returns the offset from UTC at an instant and an end, later than that
// instant, until which it holds.
func zone(sec int64, loc *time.Location) (offset, end int64) {
	t := time.Unix(sec, 0).In(loc)
	_, seconds := t.Zone()
	_, bound := t.ZoneBounds()
	if bound.IsZero() {
		return int64(seconds), math.MaxInt64
	}
	end = bound.Unix()
	if end <= sec {
		// Past the zone's table Go ends each year after 365 days, so on
		// 31 December of a leap year the bound has gone by.
		end += day
	}
	return int64(seconds), end
}
