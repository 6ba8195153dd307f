package jobs_test

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// size is how many rows a test takes, here and in the long form.
func size(short, long int) int {
	if os.Getenv("GORMJOBS_TEST_LONG") != "" {
		return long
	}
	return short
}

// rate enqueues steadily until ctx ends and returns how long each enqueue took.
func rate(ctx context.Context, t *testing.T, db *gorm.DB, perSecond int) []time.Duration {
	t.Helper()
	var took []time.Duration
	beat := time.NewTicker(time.Second / time.Duration(perSecond))
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			slices.Sort(took)
			return took
		case <-beat.C:
		}
		began := time.Now()
		if _, err := dispatcher.EnqueueNow(context.WithoutCancel(ctx), db, tally{}); err != nil {
			t.Error(err)
			return took
		}
		took = append(took, time.Since(began))
	}
}

func pooled(t *testing.T, db *gorm.DB) *sql.DB {
	t.Helper()
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// Pruning many rows is many short transactions, beside which enqueues go on. When
// it is told to stop, it does so after a batch, and what is deleted stays deleted.
func TestPruneOfManyRowsIsBatchesThatOthersGetBetween(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		n := size(20_000, 1_000_000)
		fill(t, db, n, models.Job{State: models.Completed, FinishedAt: 1})
		analyze(t, db)
		// SQLite's one connection is fair to those that wait for it, as documented.
		app := db
		if testdb.KindOf(db) != testdb.SQLite {
			app = testdb.Again(t, db)
		}
		quiet, enough := context.WithTimeout(t.Context(), 2*time.Second)
		alone := rate(quiet, t, app, 200)
		enough()

		own, p := through(t, db)
		if app == db {
			p.DB = pooled(t, db)
		}
		busy, pruned := context.WithCancel(t.Context())
		beside := make(chan []time.Duration, 1)
		go func() { beside <- rate(busy, t, app, 200) }()
		half, stop := context.WithCancel(t.Context())
		go func() {
			defer stop()
			look := time.NewTicker(time.Millisecond)
			defer look.Stop()
			for some := 0; some < n/5000 && half.Err() == nil; { // a tenth of the batches, some statements each
				<-look.C
				p.mu.Lock()
				some = len(p.sent)
				p.mu.Unlock()
			}
		}()
		first, err := jobs.Prune(half, own, jobs.PruneOptions{Pause: 10 * time.Millisecond})
		if err == nil || half.Err() == nil || first == 0 || first >= n {
			t.Errorf("Prune that was stopped = %d, %v; want some of %d and its context's error", first, err, n)
		}
		var left int64
		if err := db.Model(&models.Job{}).Where("finished_at = 1").Count(&left).Error; err != nil || left != int64(n-first) {
			t.Errorf("%d are left, %v; want %d: what is deleted stays deleted", left, err, n-first)
		}
		second, err := jobs.Prune(t.Context(), own, jobs.PruneOptions{Pause: 10 * time.Millisecond})
		if err != nil || first+second != n {
			t.Errorf("the next Prune = %d, %v; want the other %d", second, err, n-first)
		}
		pruned()
		during := <-beside
		largest := 0
		for _, s := range p.statements() {
			if strings.HasPrefix(s.sql, "DELETE") && strings.Contains(s.sql, "queue_jobs") {
				largest = max(largest, len(s.args))
			}
		}
		if largest == 0 || largest > 500 {
			t.Errorf("the largest DELETE has %d ids; want 500 at most", largest)
		}
		p99 := func(all []time.Duration) time.Duration { return all[len(all)*99/100] }
		if len(alone) == 0 || len(during) == 0 {
			t.Fatalf("%d enqueues alone, %d beside the prune", len(alone), len(during))
		}
		t.Logf("%d rows: p99 of an enqueue %s alone, %s beside the prune", n, p99(alone), p99(during))
		// Elsewhere other tests share the machine.
		if os.Getenv("GORMJOBS_TEST_LONG") != "" && p99(during) > 2*p99(alone)+20*time.Millisecond {
			t.Errorf("p99 of an enqueue is %s alone and %s beside the prune", p99(alone), p99(during))
		}
	}, testdb.Alone)
}

// The backlog check reads about as many rows as its limit, whatever is due.
func TestBacklogReadsItsLimitHoweverManyAreDue(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		const limit = 500
		n := size(50_000, 5_000_000)
		fill(t, db, n, models.Job{State: models.Pending})
		fill(t, db, n/10, models.Job{State: models.Scheduled, DueAt: 1})
		analyze(t, db)
		own := testdb.Again(t, db, testdb.Pool(1))
		before := look(t, own)
		began := time.Now()
		found, err := jobs.Backlog(t.Context(), own, limit)
		took := time.Since(began)
		if err != nil || len(found) != 1 || found[0].Due != limit || found[0].Oldest < 24*time.Hour {
			t.Fatalf("Backlog = %+v, %v; want %d due, for long", found, err, limit)
		}
		after := look(t, own)
		// Of due scheduled jobs up to four times the limit are read, as others of the
		// rows may be parked; MySQL also counts an index's entry, and what it reads
		// again of its own intermediate results.
		if read := after.read + after.scanned - before.read - before.scanned; read > 20*limit {
			t.Errorf("it read %d rows of %d; want about %d", read, n, limit)
		}
		t.Logf("of %d due rows: %d read in %s", n+n/10, after.read-before.read, took)
	}, testdb.Alone)
}

// Many jobs through one worker leave neither memory nor goroutines behind.
func TestManyJobsLeaveNoMemoryBehind(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		n := size(20_000, 1_000_000)
		own := testdb.Again(t, db)
		var ran atomic.Int64
		w := newWorker(t, own, onPing(func(context.Context, ping) error { ran.Add(1); return nil }), jobs.Config{Queues: jobs.Queues{"default": 20}})
		stop := start(t, w)
		through := func(n int) {
			before := ran.Load()
			for left := n; left > 0; left -= 1000 {
				enqueuePings(t, own, min(left, 1000))
			}
			waitFor(t, time.Duration(60+n/200)*time.Second, "all are recorded", func() bool {
				return ran.Load() == before+int64(n) && w.Stats().Completed == uint64(before)+uint64(n)
			})
		}
		through(1000) // the pool's connections, and whatever is made once
		level := func() (heap int64, goroutines int) {
			waitFor(t, 20*time.Second, "goroutines are no more", func() bool {
				before := goroutines
				goroutines = runtime.NumGoroutine()
				return goroutines == before
			})
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc), goroutines
		}
		heap, goroutines := level()
		through(n)
		heapAfter, goroutinesAfter := level()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d jobs: heap %d kB before, %d kB after; goroutines %d, %d", n, heap/1024, heapAfter/1024, goroutines, goroutinesAfter)
		if heapAfter > heap+2<<20 {
			t.Errorf("the heap grew from %d to %d kB", heap/1024, heapAfter/1024)
		}
		if goroutinesAfter > goroutines+5 {
			t.Errorf("%d goroutines before and %d after", goroutines, goroutinesAfter)
		}
	})
}

// told is a GORM logger that counts.
type told struct {
	logger.Interface
	lines atomic.Int64
}

func (l *told) LogMode(logger.LogLevel) logger.Interface                        { return l }
func (l *told) Info(context.Context, string, ...any)                            { l.lines.Add(1) }
func (l *told) Warn(context.Context, string, ...any)                            { l.lines.Add(1) }
func (l *told) Error(context.Context, string, ...any)                           { l.lines.Add(1) }
func (l *told) Trace(context.Context, time.Time, func() (string, int64), error) { l.lines.Add(1) }

// A worker without work asks the database about once a second, and the
// application's SQL log has no line of it.
func TestIdleWorkerIsQuiet(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		lines, book := &told{}, &logbook{}
		own, p := through(t, db, testdb.GormConfig(func(c *gorm.Config) { c.Logger = lines }))
		w := newWorker(t, own, onPing(func(context.Context, ping) error { return nil }), jobs.Config{Queues: jobs.Queues{"default": 10, "mail": 5, "other": 1}, Logger: book.logger()})
		said := lines.lines.Load() // testdb's own
		stop := start(t, w)
		idle := time.NewTimer(11 * time.Second) // the longest pause is reached after ten
		<-idle.C
		p.statements()
		const watched = 12
		end := time.NewTimer(time.Duration(size(watched, 60)) * time.Second)
		<-end.C
		sent := len(p.statements())
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if most := 2 * size(watched, 60); sent > most || sent == 0 {
			t.Errorf("%d statements; want some, and at most %d", sent, most)
		}
		if n := lines.lines.Load() - said; n > 0 || book.above(slog.LevelWarn) > 0 {
			t.Errorf("%d lines in the SQL log, and %q in the worker's; want none", n, book.with(""))
		}
		t.Logf("%d statements in %d s", sent, size(watched, 60))
	}, testdb.Parallel)
}
