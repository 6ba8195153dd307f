package scheduler_test

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
	"github.com/gormjobs/gormjobs/scheduler"
)

// entryIn is an entry whose jobs are found by their queue.
func entryIn(queue, name, spec string) scheduler.Entry {
	return scheduler.Entry{Name: name, Spec: spec, Payload: report{queue}, Options: []dispatcher.Option{dispatcher.Queue(queue)}}
}

func TestRestartKeepsTheNextTickOfAWeeklyEntry(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		weekly, tomorrow := "0 9 * * MON", now.Add(24*time.Hour).Truncate(time.Second)
		insertRow(t, db, "weekly", weekly, tomorrow)
		for range 3 { // restarts
			stop := run(t, newScheduler(t, db, cronOnly(), entryIn("weekly", "weekly", weekly), entryIn("beat", "beat", "@every 1s")))
			n := len(tickedFor(t, db, "beat"))
			until(t, "the scheduler works", func() bool { return len(tickedFor(t, db, "beat")) > n })
			stop()
		}
		if got := rowOf(t, db, "weekly").NextTick; got != models.At(tomorrow) {
			t.Errorf("next_tick = %s; want %s as before", got, tomorrow)
		}
		wantTicks(t, db, "weekly")
	}, testdb.Parallel)
}

func TestChangedSpecCountsAnewFromNow(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		insertRow(t, db, "report", "0 9 * * MON", now.Add(-10*time.Second)) // overdue, by the old spec
		run(t, newScheduler(t, db, cronOnly(), entryIn("new", "report", away(now))))
		want, err := scheduler.Next(away(now), nil, now)
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the row has the new spec", func() bool { return rowOf(t, db, "report").Spec == away(now) })
		if got := rowOf(t, db, "report").NextTick; got != models.At(want) {
			t.Errorf("next_tick = %s; want %s", got, want)
		}
		wantTicks(t, db, "new")
	})
}

func TestOfTwoVersionsTheOneStartedLastHasTheEntry(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		// The beats make both look at the rows every second.
		run(t, newScheduler(t, testdb.Again(t, db), cronOnly(), entryIn("old", "report", "@every 100h"), entryIn("oldbeat", "oldbeat", "@every 1s")))
		until(t, "the old version has the row", func() bool { return rowOf(t, db, "report").Spec == "@every 100h" })
		stop := run(t, newScheduler(t, testdb.Again(t, db), cronOnly(), entryIn("new", "report", "@every 200h"), entryIn("newbeat", "newbeat", "@every 1s")))
		until(t, "the new version has the row", func() bool { return rowOf(t, db, "report").Spec == "@every 200h" })

		tick := now.Truncate(time.Second)
		setNext(t, db, "report", tick)
		until(t, "somebody acted on the tick", func() bool { return len(tickedFor(t, db, "new"))+len(tickedFor(t, db, "old")) > 0 })
		n := len(tickedFor(t, db, "oldbeat"))
		until(t, "the old version has looked again", func() bool { return len(tickedFor(t, db, "oldbeat")) > n+1 })
		wantTicks(t, db, "new", tick)
		wantTicks(t, db, "old")
		if got := rowOf(t, db, "report").Spec; got != "@every 200h" {
			t.Errorf("the row has the spec %q; want that of the version started last", got)
		}

		// Rolled back: nobody is left who has the new spec, and a tick went by.
		stop()
		setNext(t, db, "report", now.Add(-time.Hour))
		until(t, "the old version has the entry back", func() bool { return rowOf(t, db, "report").Spec == "@every 100h" })
		wantTicks(t, db, "old")
	}, testdb.Parallel)
}

func TestServicesFireOnlyTheirOwnEntries(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		tick := now.Add(-time.Second).Truncate(time.Second)
		insertRow(t, db, "shop.report", away(now), tick)
		insertRow(t, db, "mail.report", away(now), tick)
		run(t, newScheduler(t, db, cronOnly(), entryIn("shop", "shop.report", away(now))))
		until(t, "the shop's has run", func() bool { return len(tickedFor(t, db, "shop")) == 1 })
		if got := rowOf(t, db, "mail.report").NextTick; got != models.At(tick) {
			t.Errorf("the other service's next_tick = %s; want %s as before", got, tick)
		}
	})
}

func TestDeletedRowIsMadeAnew(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		run(t, newScheduler(t, db, cronOnly(), entryIn("report", "report", "@every 100h"), entryIn("beat", "beat", "@every 1s")))
		until(t, "the row is there", func() bool { return rowOf(t, db, "report").Name != "" })
		if err := db.Where("name = ?", "report").Delete(&models.Schedule{}).Error; err != nil {
			t.Fatal(err)
		}
		until(t, "the row is there again", func() bool { return rowOf(t, db, "report").Name != "" })
	}, testdb.Parallel)
}
