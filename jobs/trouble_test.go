package jobs_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// Claims fail while everything else works, as on a server that became read-only:
// jobs are pending, so the lookout wakes the queue every few milliseconds.
func TestFailingClaimsArePacedAndLoggedOnceAStep(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var healthy atomic.Bool
		own := breaking(t, db, func() bool { return !healthy.Load() })
		ran := make(chan int, 200)
		book := &logbook{}
		w := newWorker(t, own, onPing(func(_ context.Context, p ping) error { ran <- p.N; return nil }), jobs.Config{Logger: book.logger()})
		enqueuePings(t, db, 200) // each claim whose answer is lost takes ten
		began := time.Now()
		stop := start(t, w)
		lines := func() int { return len(book.with("claim from default: trying again")) }
		waitFor(t, 20*time.Second, "three claims have failed", func() bool { return lines() >= 3 })
		// 100 ms, 200 ms, 400 ms …, give or take a tenth.
		n := lines()
		if took, least := time.Since(began), 90*time.Millisecond*time.Duration(1<<(n-1)-1); took < least {
			t.Errorf("%d claims failed in %s; want pauses of %s between them", n, took, least)
		}
		healthy.Store(true)
		receive(t, ran, "the worker recovers by itself")
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if len(book.with("claim from default: works again")) != 1 || book.above(slog.LevelError) > 0 {
			t.Errorf("log %q; want that it works again, once", book.with(""))
		}
	})
}

// Outcomes keep arriving while none can be written: that is no reason to try, or
// to log, more often.
func TestFailingRecordsArePacedAndLoggedOnceAStep(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var broken atomic.Bool
		own := breaking(t, db, broken.Load)
		started, proceed := make(chan struct{}, 100), make(chan struct{})
		reg := onPing(func(context.Context, ping) error {
			started <- struct{}{}
			<-proceed
			return nil
		})
		ids := enqueuePings(t, db, 100)
		book := &logbook{}
		w := newWorker(t, own, reg, jobs.Config{Queues: jobs.Queues{"default": 100}, Logger: book.logger()})
		stop := start(t, w)
		for range ids {
			receive(t, started, "all start")
		}
		began := time.Now()
		broken.Store(true)
		lines := func() int { return len(book.with("record outcomes: trying again")) }
		for n := range ids { // one by one, within some 0.7 s
			proceed <- struct{}{}
			if n%33 == 32 {
				waitFor(t, 20*time.Second, "the next step of the backoff", func() bool { return lines() > n/33 })
			}
		}
		n := lines()
		if took, least := time.Since(began), 90*time.Millisecond*time.Duration(1<<(n-1)-1); took < least {
			t.Errorf("%d lines in %s; want pauses of %s between them", n, took, least)
		}
		broken.Store(false)
		waitFor(t, 20*time.Second, "all are recorded", func() bool { return w.Stats().Completed == 100 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if s := w.Stats(); s.Lost != 0 || len(book.with("record outcomes: works again")) != 1 {
			t.Errorf("Stats = %+v, log %q; want none lost, and one line that it works again", s, book.with(""))
		}
	})
}

// A trigger of the application refuses one outcome: the others do not wait for it.
func TestRefusedOutcomeHoldsUpNoOther(t *testing.T) {
	triggers := map[testdb.Kind][]string{
		testdb.SQLite: {
			`CREATE TRIGGER no BEFORE UPDATE ON queue_jobs WHEN NEW.state = 'completed' AND NEW.priority = 7 BEGIN SELECT RAISE(ABORT, 'not this one'); END`,
			`DROP TRIGGER no`,
		},
		testdb.Postgres: {
			`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.state = 'completed' AND NEW.priority = 7 THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$;
			CREATE TRIGGER no BEFORE UPDATE ON queue_jobs FOR EACH ROW EXECUTE FUNCTION no()`,
			`DROP TRIGGER no ON queue_jobs`,
		},
		testdb.MySQL: {
			`CREATE TRIGGER no BEFORE UPDATE ON queue_jobs FOR EACH ROW IF NEW.state = 'completed' AND NEW.priority = 7 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF`,
			`DROP TRIGGER no`,
		},
	}
	triggers[testdb.MariaDB] = triggers[testdb.MySQL]
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		sql := triggers[testdb.KindOf(db)]
		if err := db.Exec(sql[0]).Error; err != nil {
			t.Fatal(err)
		}
		bad := enqueue(t, db, ping{}, dispatcher.Priority(7))
		book := &logbook{}
		w := newWorker(t, db, onPing(nothing), jobs.Config{Logger: book.logger()})
		stop := start(t, w)
		waitFor(t, 20*time.Second, "the refusal is logged", func() bool { return len(book.with("not this one")) > 0 })
		began := time.Now()
		for n := range 20 {
			enqueuePings(t, db, 10)
			waitFor(t, 20*time.Second, "the others are recorded", func() bool { return w.Stats().Completed == uint64(10*(n+1)) })
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("20 rounds of others took %s", took)
		}
		if j := get(t, db, bad); j.State != models.Processing {
			t.Errorf("the refused job is %s; want processing", j.State)
		}
		if err := db.Exec(sql[1]).Error; err != nil {
			t.Fatal(err)
		}
		waitFor(t, 20*time.Second, "it is recorded when it can be", func() bool { return w.Stats().Completed == 201 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if n := len(book.with("not this one")); n > 15 {
			t.Errorf("%d lines about the refusal; want one a backoff step", n)
		}
	})
}
