package jobs_test

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// The pause before the next try to record outcomes has grown to seconds when the
// database is back. A shutdown, and a renewal that gets through, end it.
func TestOutcomesAreRecordedOnceTheDatabaseIsBack(t *testing.T) {
	for name, c := range map[string]struct {
		lease time.Duration
		stops bool
	}{
		"at a shutdown":  {time.Minute, true},
		"with a renewal": {3 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				own, wire := overWire(t, db)
				reg, there, open := barrier(1)
				id := enqueue(t, db, ping{})
				book := &logbook{}
				w := newWorker(t, own, reg, jobs.Config{Lease: c.lease, Logger: book.logger()})
				stop := start(t, w)
				receive(t, there, "it runs")
				wire.cut()
				close(open)
				waitFor(t, 30*time.Second, "the pause is 5 s", func() bool { return len(book.with("record outcomes: trying again")) == 7 })
				wire.mend()
				back := time.Now()
				if c.stops {
					if err := stop(); err != nil {
						t.Fatal(err)
					}
				}
				waitFor(t, 20*time.Second, "the outcome is recorded", func() bool { return w.Stats().Completed == 1 })
				if took := time.Since(back); took > 3500*time.Millisecond {
					t.Errorf("it took %s; want no wait for the end of the pause", took)
				}
				wantState(t, db, id, models.Completed, 1)
			}, testdb.Servers, testdb.Parallel)
		})
	}
}
