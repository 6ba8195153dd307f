package scheduler_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gormjobs/gormjobs/scheduler"
)

// Whatever the spec: an ErrSpec, or ticks that move on, in order, and are the
// same from every instant between two of them.
func FuzzSpec(f *testing.F) {
	zones := []string{"", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Cairo",
		"Pacific/Apia", "America/Nuuk", "Africa/Monrovia", "Asia/Gaza"}
	for i, spec := range []string{
		"30 2 * * *", "* * * * *", "* * * * * *", "0 */2 * * *", "59 59 23 31 12 *", "0 0 29 2 *",
		"0 0 30 2 *", "* * 0-22 30 * *", "0 12 30 * *", "@daily", "@every 7s", "@every 1.5s",
		"@every 9999999h", "@every -1h", "@every 2562047h", "TZ=", "TZ=UTC", "TZ=Asia/Tokyo 0 0 * * *",
		"TZ=UTC TZ= * * * *", "* * * * TZ=", "*/9223372036854775807 * * * *", "*-x * * * *", ", , , , ,",
		"", "@", "\x00", "5/5 ? ? JAN-mar SUN",
	} {
		f.Add(spec, uint8(i), int64(1774745999), uint32(i))
		f.Add(spec, uint8(1), int64(1774745000), uint32(1))    // Berlin, before the gap
		f.Add(spec, uint8(1), int64(1792890000), uint32(1e9))  // Berlin, the repeated hour
		f.Add(spec, uint8(5), int64(1325239199), uint32(4e9))  // Apia, before the missing day
		f.Add(spec, uint8(7), int64(-1<<63), uint32(1<<31))    // before all ticks
		f.Add(spec, uint8(1), int64(253402300798), uint32(12)) // after nearly all
		f.Add(spec, uint8(1), int64(2240524800), uint32(12))   // 2040-12-31
	}
	f.Fuzz(func(t *testing.T, spec string, zone uint8, sec int64, part uint32) {
		var loc *time.Location
		if name := zones[int(zone)%len(zones)]; name != "" {
			loc = location(t, name)
		}
		after := time.Unix(sec, int64(part)%1e9)
		tick, err := scheduler.Next(spec, loc, after)
		if err != nil {
			if !errors.Is(err, scheduler.ErrSpec) {
				t.Fatalf("Next(%q) = %v; want an ErrSpec", spec, err)
			}
			return
		}
		for range 3 {
			if tick.IsZero() {
				if after.Unix() < time.Date(9700, 1, 1, 0, 0, 0, 0, time.UTC).Unix() { // @every reaches 292 years
					t.Fatalf("Next(%q, %s, %s) is zero", spec, loc, after)
				}
				return
			}
			if !tick.After(after) || tick.Nanosecond() != 0 {
				t.Fatalf("Next(%q, %s, %s) = %s; want a later whole second", spec, loc, after, tick)
			}
			between := after.Add(time.Duration(float64(tick.Sub(after)-1) * float64(part) / (1 << 32)))
			for _, instant := range []time.Time{between, tick.Add(-1)} {
				if got := next(t, spec, loc, instant); !got.Equal(tick) {
					t.Fatalf("Next(%q, %s) is %s from %s, and %s from %s", spec, loc, tick, after, got, instant)
				}
			}
			after, tick = tick, next(t, spec, loc, tick)
		}
	})
}
