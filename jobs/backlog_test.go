package jobs_test

import (
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func backlog(t *testing.T, db *gorm.DB, limit int) []jobs.Waiting {
	t.Helper()
	all, err := jobs.Backlog(t.Context(), db, limit)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestBacklogCountsWhatCouldRunNow(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if all := backlog(t, db, 10); len(all) != 0 {
			t.Errorf("Backlog of an empty table = %+v", all)
		}
		ids := enqueuePings(t, db, 7)
		mail := enqueue(t, db, ping{}, dispatcher.Queue("mail"), dispatcher.Priority(-5))
		enqueue(t, db, ping{}, dispatcher.Queue("later"), dispatcher.Delay(time.Hour))
		enqueue(t, db, ping{}, dispatcher.Queue("mail"), dispatcher.Priority(5))
		if err := jobs.Cancel(t.Context(), db, ids[0]); err != nil {
			t.Fatal(err)
		}
		claimOne(t, db)
		now := get(t, db, mail).CreatedAt // by the database's clock
		change(t, db, ids[4], map[string]any{"available_at": now.Time().Add(-time.Hour).UnixMicro()})
		change(t, db, ids[5], map[string]any{"available_at": now.Time().Add(-2 * time.Hour).UnixMicro(), "priority": 9})
		all := backlog(t, db, 100)
		if len(all) != 2 || all[0].Queue != "default" || all[0].Due != 5 || all[1].Queue != "mail" || all[1].Due != 2 {
			t.Fatalf("Backlog = %+v; want 5 in default and 2 in mail", all)
		}
		if o := all[0].Oldest; o < 2*time.Hour || o > 2*time.Hour+time.Minute {
			t.Errorf("the oldest of default has been due for %s; want 2h, of a worse priority", o)
		}
		if o := all[1].Oldest; o < 0 || o > time.Minute {
			t.Errorf("the oldest of mail has been due for %s; want a moment", o)
		}
		for limit, want := range map[int]int{3: 3, 1: 1, 0: 1, -5: 1} {
			if all := backlog(t, db, limit); len(all) != 2 || all[0].Due != want {
				t.Errorf("Backlog(%d) = %+v; want %d in default", limit, all, want)
			}
		}
	})
}

// What should have been promoted, and what was parked by a worker that does not
// know its type, is waiting too; a snoozed job and a retry are not.
func TestBacklogShowsAStoppedPromotionAndUnknownTypes(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		overdue := enqueue(t, db, ping{}, dispatcher.Queue("stopped"), dispatcher.Delay(time.Hour))
		change(t, db, overdue, map[string]any{"due_at": 5, "available_at": 5})
		enqueue(t, db, foreign{}, dispatcher.Queue("parked"))
		enqueue(t, db, ping{}, dispatcher.Queue("retried"))
		soon := enqueue(t, db, ping{}, dispatcher.Queue("soon"), dispatcher.Delay(30*time.Second))
		reg := onPing(nothing)
		drainOf := func(queue string, want int) {
			t.Helper()
			// Promotes first, so the overdue row is set again afterwards.
			drain(t, newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{queue: 1}}), want)
			change(t, db, overdue, map[string]any{"state": models.Scheduled, "due_at": 5})
		}
		drainOf("parked", 0)
		drainOf("retried", 1)
		var queues []string
		for _, w := range backlog(t, db, 10) {
			queues = append(queues, w.Queue)
			if w.Due != 1 {
				t.Errorf("%+v; want 1 due", w)
			}
		}
		if want := []string{"parked", "stopped"}; !slices.Equal(queues, want) {
			t.Errorf("queues %v; want %v", queues, want)
		}
		wantState(t, db, soon, models.Scheduled, 0)
	})
}
