package scheduler_test

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
	"github.com/gormjobs/gormjobs/scheduler"
)

// Three days without a scheduler, and an hourly entry.
func TestMissedTicksAreTreatedByThePolicy(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		hourly := away(now)
		last, err := scheduler.Next(hourly, nil, now.Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			entry scheduler.Entry
			want  []time.Time
		}{
			{scheduler.Entry{Name: "skip"}, nil},
			{scheduler.Entry{Name: "once", Missed: scheduler.Once}, []time.Time{last}},
			{scheduler.Entry{Name: "cap", Missed: scheduler.All, MissedCap: 3},
				[]time.Time{last.Add(-2 * time.Hour), last.Add(-time.Hour), last}},
			{scheduler.Entry{Name: "window", Missed: scheduler.All, MissedWindow: 100 * time.Minute},
				[]time.Time{last.Add(-time.Hour), last}},
		} {
			e := c.entry
			e.Spec, e.Payload = hourly, report{e.Name}
			insertRow(t, db, e.Name, hourly, last.Add(-72*time.Hour))
			stop := run(t, newScheduler(t, db, cronOnly(), e))
			until(t, e.Name+" has moved on", func() bool { return rowOf(t, db, e.Name).NextTick == models.At(last.Add(time.Hour)) })
			stop()
			wantTicks(t, db, "default", c.want...)
			want := models.Timestamp(0) // no tick was acted on
			if len(c.want) > 0 {
				want = models.At(last)
			}
			if row := rowOf(t, db, e.Name); row.LastTick != want {
				t.Errorf("%s: last_tick = %s; want %s", e.Name, row.LastTick, want)
			}
			if err := db.Where("1 = 1").Delete(&models.Job{}).Error; err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestTickThatIsAFewSecondsLateRunsUnderEveryPolicy(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		tick := now.Add(-40 * time.Second).Truncate(time.Second)
		for _, policy := range []scheduler.Missed{scheduler.Skip, scheduler.Once, scheduler.All} {
			name := policy.String()
			insertRow(t, db, name, away(now), tick)
			stop := run(t, newScheduler(t, db, cronOnly(), scheduler.Entry{Name: name, Spec: away(now), Payload: report{name}, Missed: policy}))
			until(t, name+" has moved on", func() bool { return rowOf(t, db, name).NextTick > models.At(now) })
			stop()
		}
		wantTicks(t, db, "default", tick, tick, tick)
	})
}
