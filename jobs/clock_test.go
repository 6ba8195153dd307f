package jobs_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
	"github.com/gormjobs/gormjobs/scheduler"
)

// shifted is a pool of a database whose clock is ahead of this process's, by
// rewriting how statements ask for it. It notes the arguments that look like this
// process's own clock.
type shifted struct {
	*sql.DB
	clock *strings.Replacer
	mu    sync.Mutex
	asked int // statements that asked for the database's clock
	leaks []string
}

// shift returns a second handle on db's database, whose clock is ahead.
func shift(t *testing.T, db *gorm.DB, ahead time.Duration) (*gorm.DB, *shifted) {
	t.Helper()
	again := testdb.Again(t, db)
	real, err := again.DB()
	if err != nil {
		t.Fatal(err)
	}
	seconds := int(ahead.Seconds())
	p := &shifted{DB: real, clock: strings.NewReplacer(
		"statement_timestamp()", fmt.Sprintf("(statement_timestamp() + interval '%d second')", seconds),
		"UTC_TIMESTAMP(6)", fmt.Sprintf("(UTC_TIMESTAMP(6) + INTERVAL %d SECOND)", seconds),
		"julianday('now')", fmt.Sprintf("julianday('now', '%+d seconds')", seconds),
	)}
	again.ConnPool, again.Statement.ConnPool = p, p
	return again, p
}

func (p *shifted) rewrite(query string, args []any) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range args {
		if v, ok := a.(driver.Valuer); ok {
			a, _ = v.Value()
		}
		if likeNow(a) {
			p.leaks = append(p.leaks, fmt.Sprintf("%v in %s", a, query))
		}
	}
	there := p.clock.Replace(query)
	if there != query {
		p.asked++
	}
	return there
}

// likeNow tells whether v is within ten minutes of this process's clock, in any
// unit.
func likeNow(v any) bool {
	now := time.Now()
	near := func(t time.Time) bool { return now.Sub(t).Abs() < 10*time.Minute }
	switch v := v.(type) {
	case time.Time:
		return near(v)
	case int64:
		return near(time.Unix(v, 0)) || near(time.UnixMilli(v)) || near(time.UnixMicro(v)) || near(time.Unix(0, v))
	case string:
		t, err := time.Parse(time.RFC3339, v)
		return err == nil && near(t)
	}
	return false
}

// BeginTx implements gorm.ConnPoolBeginner.
func (p *shifted) BeginTx(ctx context.Context, o *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.DB.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &shiftedTx{tx, p}, nil
}

// GetDBConn implements gorm.GetDBConnector.
func (p *shifted) GetDBConn() (*sql.DB, error) { return p.DB, nil }

func (p *shifted) ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error) {
	return p.DB.ExecContext(ctx, p.rewrite(q, args), args...)
}

func (p *shifted) QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	return p.DB.QueryContext(ctx, p.rewrite(q, args), args...)
}

func (p *shifted) QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row {
	return p.DB.QueryRowContext(ctx, p.rewrite(q, args), args...)
}

type shiftedTx struct {
	*sql.Tx
	p *shifted
}

func (t *shiftedTx) ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error) {
	return t.Tx.ExecContext(ctx, t.p.rewrite(q, args), args...)
}

func (t *shiftedTx) QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error) {
	return t.Tx.QueryContext(ctx, t.p.rewrite(q, args), args...)
}

func (t *shiftedTx) QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row {
	return t.Tx.QueryRowContext(ctx, t.p.rewrite(q, args), args...)
}

func TestApplicationClockAnHourOffChangesNothing(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(fmt.Sprint("the database's is ahead by ", ahead), func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) { liveAnHourOff(t, db, ahead) }, testdb.Parallel)
		})
	}
}

// liveAnHourOff runs a worker and a scheduler that reaps every second.
func liveAnHourOff(t *testing.T, db *gorm.DB, ahead time.Duration) {
	t.Helper()
	const lease, long = 2 * time.Second, 5 * time.Second
	own, pool := shift(t, db, ahead)
	type begun struct {
		n  int
		at time.Time
	}
	started := make(chan begun, 100)
	reg := handlers.NewRegistry()
	handlers.Register(reg, func(_ context.Context, p ping) error {
		started <- begun{p.N, time.Now()}
		if p.N == 3 {
			<-time.After(long)
		}
		return nil
	})
	handlers.Register(reg, func(context.Context, tally) error { return nil })
	stop := start(t, newWorker(t, own, reg, jobs.Config{Lease: lease}))
	sched, err := scheduler.New(own, scheduler.Config{
		Reap: scheduler.Upkeep{Spec: "@every 1s"}, Prune: scheduler.Upkeep{Spec: "@every 1s"}, Logger: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := sched.Cron(scheduler.Entry{Name: "beat", Spec: "@every 1s", Payload: tally{}, Options: []dispatcher.Option{dispatcher.Queue("ticks")}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- sched.Run(ctx) }()

	ids := []uint64{enqueue(t, own, ping{3})}
	if b := receive(t, started, "the long job starts"); b.n != 3 {
		t.Fatalf("job %d started; want the long one", b.n)
	}
	sent := time.Now()
	ids = append(ids, enqueue(t, own, ping{1}), enqueue(t, own, ping{2}, dispatcher.Delay(2*time.Second)))
	if b := receive(t, started, "the job for now starts"); b.n != 1 || b.at.Sub(sent) > 1500*time.Millisecond {
		t.Errorf("job %d started after %s; want the one for now at once", b.n, b.at.Sub(sent))
	}
	// SQLite's clock has milliseconds.
	if b := receive(t, started, "the delayed job starts"); b.n != 2 || b.at.Sub(sent) < 1990*time.Millisecond || b.at.Sub(sent) > 4*time.Second {
		t.Errorf("job %d started after %s; want the delayed one after 2s", b.n, b.at.Sub(sent))
	}
	waitFor(t, 20*time.Second, "all are completed", func() bool {
		counts, err := jobs.Count(t.Context(), db)
		return err == nil && counts[models.Completed] >= 3
	})
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for _, id := range ids { // neither reaped nor pruned
		wantState(t, db, id, models.Completed, 1)
		j := get(t, db, id)
		for _, at := range []models.Timestamp{j.CreatedAt, j.ReservedAt, j.FinishedAt} {
			if off := at.Time().Sub(time.Now().Add(ahead)).Abs(); off > time.Minute {
				t.Errorf("job %d has the times %s, %s, %s; want the database's", id, j.CreatedAt, j.ReservedAt, j.FinishedAt)
			}
		}
	}
	ticks, err := jobs.List(t.Context(), db, jobs.Filter{Queue: "ticks"})
	if err != nil || len(ticks) < 4 {
		t.Fatalf("%d ticks in 5 s, %v; want one a second", len(ticks), err)
	}
	for _, j := range ticks {
		tick, _ := scheduler.Tick(&j)
		if late := j.CreatedAt.Time().Sub(tick); late < 0 || late > 10*time.Second {
			t.Errorf("the tick %s was enqueued at %s", tick, j.CreatedAt)
		}
	}
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.asked < 20 || len(pool.leaks) > 0 {
		t.Errorf("%d statements asked for the database's clock; this process's was in %q", pool.asked, pool.leaks)
	}
}

// A reading of the process's clock may measure how long something took; it must
// not come near a statement. A file that is new to this list deserves a look.
func TestProcessClockOnlyMeasures(t *testing.T) {
	loops := []string{"jobs/claimer.go", "jobs/edge.go", "jobs/hold.go", "jobs/lookout.go", "jobs/loop.go", "jobs/notice.go", "jobs/recorder.go", "jobs/recorder_write.go",
		"jobs/outcome.go", "jobs/run.go", "jobs/slots.go", "jobs/trouble.go", "jobs/worker.go", "internal/session/hub.go", "scheduler/loop.go", "scheduler/rows.go", "scheduler/trouble.go"}
	checked := 0
	for _, dir := range []string{"models", "dispatcher", "handlers", "jobs", "jobs/pgnotify", "scheduler", "internal/session", "internal/dialect"} {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			checked++
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.ToSlash(strings.TrimPrefix(file, ".."+string(filepath.Separator)))
			for i, line := range strings.Split(string(text), "\n") {
				if !strings.Contains(line, "time.Now()") {
					continue
				}
				if !slices.Contains(loops, name) || strings.Contains(line, "models.At(") || strings.Contains(line, "Timestamp") {
					t.Errorf("%s:%d: %s: the database's clock is dialect.Now", name, i+1, strings.TrimSpace(line))
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d files looked at; where are the others?", checked)
	}
}

// What an application's DSN says about time zones has no part in when a job is
// due, nor in what order.
func TestTimeZonesOfTheConnectionChangeNothing(t *testing.T) {
	mysql := func(name, value string) []testdb.Option {
		return []testdb.Option{testdb.Parameter(testdb.MySQL, name, value), testdb.Parameter(testdb.MariaDB, name, value)}
	}
	zones := map[string][]testdb.Option{
		"loc=Local":         mysql("loc", "Local"),
		"loc=UTC":           mysql("loc", "UTC"),
		"loc=Asia/Tokyo":    append(mysql("loc", "Asia/Tokyo"), mysql("time_zone", "'+09:00'")...),
		"without parseTime": mysql("parseTime", "false"),
		"time_zone alone":   append(mysql("time_zone", "'-05:00'"), testdb.Parameter(testdb.Postgres, "timezone", "EST5EDT")),
	}
	for name, opts := range zones {
		opts = append(opts, testdb.Only(testdb.MySQL, testdb.MariaDB))
		if name == "time_zone alone" {
			opts = append(opts, testdb.Servers)
		}
		t.Run(name, func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				c, fresh := claimerOf(t, db, "default"), claimerOf(t, db, "fresh")
				// At every part of a second: rounding to one, or to a millisecond, would
				// put some into the future.
				var want []uint64
				step := time.NewTicker(37 * time.Millisecond)
				defer step.Stop()
				for i := range 30 {
					want = append(want, enqueue(t, db, ping{i}))
					id := enqueue(t, db, ping{i}, dispatcher.Queue("fresh"))
					if got, err := fresh.Claim(t.Context(), 1); err != nil || len(got) != 1 || got[0].ID != id {
						t.Fatalf("Claim right after the enqueue of job %d = %v, %v; want it", id, got, err)
					}
					<-step.C
				}
				due := enqueue(t, db, ping{}, dispatcher.At(time.Now().Add(-time.Minute)))
				later := enqueue(t, db, ping{}, dispatcher.At(time.Now().Add(30*time.Minute)))
				soon := enqueue(t, db, ping{}, dispatcher.Delay(30*time.Minute))
				got, err := c.Claim(t.Context(), 100)
				if err != nil {
					t.Fatal(err)
				}
				var ids []uint64
				for _, j := range got {
					ids = append(ids, j.ID)
				}
				if want = append(want, due); !slices.Equal(ids, want) {
					t.Errorf("claimed %v; want %v", ids, want)
				}
				for _, id := range []uint64{later, soon} {
					j := get(t, db, id)
					if in := time.Until(j.DueAt.Time()); j.State != models.Scheduled || in < 29*time.Minute || in > 31*time.Minute {
						t.Errorf("job %d is %s and due in %s; want it in half an hour", id, j.State, in)
					}
				}
			}, opts...)
		})
	}
}

func claimerOf(t *testing.T, db *gorm.DB, queue string) *jobs.Claimer {
	t.Helper()
	c, err := jobs.NewClaimer(db, jobs.ClaimerConfig{Queue: queue})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
