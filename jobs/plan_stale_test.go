package jobs_test

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// PostgreSQL keeps the plan of a prepared statement that has run a few times, until
// the next ANALYZE of the table. The workers of a new application look into an empty
// table, day and night: what the server has planned then must not read all of the
// table for each claim of the first real load.
func TestPlansOfAnEmptyTableServeAFullOne(t *testing.T) {
	const load = 10_000
	for _, verb := range []struct {
		name string
		rows models.Job
		run  func(db *gorm.DB) (int, error)
	}{
		{"claim and record", models.Job{State: models.Pending, Type: "ping"}, func(db *gorm.DB) (int, error) {
			return newWorker(t, db, onPing(nothing), jobs.Config{Queues: jobs.Queues{"default": 500}}).Drain(t.Context())
		}},
		{"promote", models.Job{State: models.Scheduled, DueAt: 1}, func(db *gorm.DB) (int, error) {
			return jobs.Promote(t.Context(), db)
		}},
		{"reap", models.Job{State: models.Processing, ReservedBy: "w.1", ReservedUntil: 1}, func(db *gorm.DB) (int, error) {
			r, err := jobs.Reap(t.Context(), db)
			return r.Returned + r.Failed, err
		}},
		{"prune", models.Job{State: models.Completed, FinishedAt: 1}, func(db *gorm.DB) (int, error) {
			return jobs.Prune(t.Context(), db, jobs.PruneOptions{Pause: time.Nanosecond})
		}},
	} {
		t.Run(verb.name, func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				if testdb.KindOf(db) == testdb.Postgres { // its ANALYZE would come within a minute
					if err := db.Exec("ALTER TABLE queue_jobs SET (autovacuum_enabled = off)").Error; err != nil {
						t.Fatal(err)
					}
				}
				again, _ := through(t, db, testdb.Pool(1), testdb.GormConfig(func(c *gorm.Config) { c.PrepareStmt = true }))
				for i := range 20 {
					if i%2 > 0 {
						fill(t, db, 1+i/2, verb.rows)
					}
					if n, err := verb.run(again); err != nil || n > 0 != (i%2 > 0) {
						t.Fatalf("%d, %v", n, err)
					}
				}
				fill(t, db, load, verb.rows)
				before := look(t, again)
				n, err := verb.run(again)
				after := look(t, again)
				if n != load || err != nil {
					t.Errorf("%d, %v; want %d", n, err, load)
				}
				// A batch of 500 by a scan of so few rows is what the server chooses when it
				// knows the table.
				const most = 25
				if scans, reads := (after.scanned-before.scanned)/load, (after.read-before.read)/load; scans > most || reads > most {
					t.Errorf("each of the %d rows was read %d times by an index and %d times by a scan", load, reads, scans)
				}
			}, testdb.Alone)
		})
	}
}
