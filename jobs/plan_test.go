package jobs_test

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// fill puts n rows in a state into the table, by doubling one.
func fill(t *testing.T, db *gorm.DB, n int, job models.Job) {
	t.Helper()
	job.Queue, job.Type, job.Payload, job.MaxAttempts = "default", cmp.Or(job.Type, "tally"), "{}", 25
	job.AvailableAt, job.CreatedAt = 1, 1
	batch := make([]models.Job, min(n, 1000))
	for i := range batch {
		batch[i] = job
	}
	if err := db.CreateInBatches(&batch, 500).Error; err != nil {
		t.Fatal(err)
	}
	columns := "state, queue, type, priority, payload, attempts, max_attempts, available_at, due_at, reserved_by, reserved_until, finished_at, created_at"
	for have := len(batch); have < n; {
		more := min(have, n-have)
		err := db.Exec(fmt.Sprintf("INSERT INTO queue_jobs (%s) SELECT %s FROM queue_jobs WHERE state = ? LIMIT %d", columns, columns, more), job.State).Error
		if err != nil {
			t.Fatal(err)
		}
		have += more
	}
}

// effort is what the server did for one connection, or for the jobs' table.
type effort struct{ scanned, read, sorts int64 }

func TestEveryHotStatementIsAnsweredByItsIndex(t *testing.T) {
	done, scheduled := 20_000, 10_000
	if os.Getenv("GORMJOBS_TEST_LONG") != "" {
		done, scheduled = 1_000_000, 500_000
	}
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		fill(t, db, done, models.Job{State: models.Completed, FinishedAt: 4e15})
		fill(t, db, scheduled, models.Job{State: models.Scheduled, DueAt: 4e15})
		fill(t, db, 3_000, models.Job{State: models.Pending})
		fill(t, db, 20, models.Job{State: models.Processing, ReservedBy: "w.1", ReservedUntil: 4e15})
		analyze(t, db)
		// Prepared, and more often than a server needs to choose a generic plan.
		again, p := through(t, db, testdb.Pool(1), testdb.GormConfig(func(c *gorm.Config) { c.PrepareStmt = true }))
		c := claimer(t, again)
		for _, verb := range []struct {
			name string
			most int64 // rows read, by every statement of a run together
			run  func() error
		}{
			{"claim", 200, func() error { _, err := c.Claim(t.Context(), 10); return err }},
			{"promote", 60, func() error { _, err := jobs.Promote(t.Context(), again); return err }},
			// Reap reads what is processing: the 20, and what the claims above took.
			{"reap", 2_000, func() error { _, err := jobs.Reap(t.Context(), again); return err }},
			{"prune", 60, func() error { _, err := jobs.Prune(t.Context(), again, jobs.PruneOptions{}); return err }},
			{"backlog", 1_000, func() error { _, err := jobs.Backlog(t.Context(), again, 100); return err }},
		} {
			const times = 25
			before := look(t, again)
			p.statements()
			for range times {
				if err := verb.run(); err != nil {
					t.Fatalf("%s: %v", verb.name, err)
				}
			}
			sent := p.statements()
			after := look(t, again)
			if testdb.KindOf(db) == testdb.SQLite {
				explain(t, again, verb.name, sent)
				continue
			}
			if scans := after.scanned - before.scanned; scans > verb.most*times {
				t.Errorf("%s scanned: %d in %d runs", verb.name, scans, times)
			}
			if reads := after.read - before.read; reads > verb.most*times {
				t.Errorf("%s read %d rows in %d runs; want at most %d a run", verb.name, reads, times, verb.most)
			}
			if sorts := after.sorts - before.sorts; sorts > 0 {
				t.Errorf("%s sorted %d rows", verb.name, sorts)
			}
		}
	}, testdb.Alone)
}

func analyze(t *testing.T, db *gorm.DB) {
	t.Helper()
	query := "ANALYZE queue_jobs"
	if k := testdb.KindOf(db); k == testdb.MySQL || k == testdb.MariaDB {
		query = "ANALYZE TABLE queue_jobs"
	}
	if err := db.Exec(query).Error; err != nil {
		t.Fatal(err)
	}
}

// look reads the server's own counters: those of the table on PostgreSQL, those of
// db's only connection on MySQL and MariaDB.
func look(t *testing.T, db *gorm.DB) effort {
	t.Helper()
	var e effort
	switch testdb.KindOf(db) {
	case testdb.Postgres:
		if err := db.Exec("SELECT pg_stat_force_next_flush()").Error; err != nil {
			t.Fatal(err)
		}
		var row struct{ SeqTupRead, IdxTupFetch int64 }
		err := db.Raw("SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'queue_jobs'").Scan(&row).Error
		if err != nil {
			t.Fatal(err)
		}
		e.scanned, e.read = row.SeqTupRead, row.IdxTupFetch
	case testdb.MySQL, testdb.MariaDB:
		rows := map[string]int64{}
		var all []struct {
			VariableName string `gorm:"column:Variable_name"`
			Value        int64  `gorm:"column:Value"`
		}
		if err := db.Raw("SHOW SESSION STATUS WHERE Variable_name LIKE 'Handler_read%' OR Variable_name LIKE 'Sort_rows'").Scan(&all).Error; err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			rows[r.VariableName] = r.Value
			if strings.HasPrefix(r.VariableName, "Handler_read") {
				e.read += r.Value
			}
		}
		e.scanned, e.sorts = rows["Handler_read_rnd_next"], rows["Sort_rows"]
	}
	return e
}

// explain fails for a statement whose plan scans the table or sorts.
func explain(t *testing.T, db *gorm.DB, verb string, sent []statement) {
	t.Helper()
	seen := 0
	for _, s := range sent {
		if !strings.Contains(s.sql, "queue_jobs") {
			continue
		}
		seen++
		var plan []struct{ Detail string }
		if err := db.Raw("EXPLAIN QUERY PLAN "+s.sql, s.args...).Scan(&plan).Error; err != nil {
			t.Fatal(err)
		}
		for _, p := range plan {
			if strings.HasPrefix(p.Detail, "SCAN queue_jobs") && !strings.Contains(p.Detail, "USING") || strings.Contains(p.Detail, "TEMP B-TREE FOR ORDER") {
				t.Errorf("%s: %s\n%s", verb, p.Detail, s.sql)
			}
		}
	}
	if seen == 0 {
		t.Errorf("%s sent nothing", verb)
	}
}
