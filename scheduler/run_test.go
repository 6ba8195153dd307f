package scheduler_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
	"github.com/gormjobs/gormjobs/scheduler"
)

type nameless struct{}

func (nameless) JobType() string { return "no name" }

func TestEntryThatCannotWorkIsRefusedAtRegistration(t *testing.T) {
	s := newScheduler(t, testdb.Open(t, testdb.SQLite), scheduler.Config{}, entryIn("q", "taken", "@hourly"))
	for _, c := range []struct {
		says  string
		is    error
		entry scheduler.Entry
	}{
		{"never fires", scheduler.ErrSpec, scheduler.Entry{Name: "x", Spec: "0 0 30 2 *", Payload: report{}}},
		{"has no fields", scheduler.ErrSpec, scheduler.Entry{Name: "x", Payload: report{}}},
		{"unknown time zone", scheduler.ErrSpec, scheduler.Entry{Name: "x", Spec: "TZ=Mars/Base @daily", Payload: report{}}},
		{"cannot be stored", scheduler.ErrSpec, scheduler.Entry{Name: "x", Spec: "@daily", Payload: report{}, Location: time.FixedZone("my zone", 1)}},
		{"is empty", nil, scheduler.Entry{Spec: "@hourly", Payload: report{}}},
		{`has a ' '`, nil, scheduler.Entry{Name: "a b", Spec: "@hourly", Payload: report{}}},
		{"the library's own", nil, scheduler.Entry{Name: "gormjobs/mine", Spec: "@hourly", Payload: report{}}},
		{"registered already", nil, scheduler.Entry{Name: "taken", Spec: "@hourly", Payload: report{}}},
		{"it is nil", dispatcher.ErrPayload, scheduler.Entry{Name: "x", Spec: "@hourly"}},
		{"it is nil", dispatcher.ErrPayload, scheduler.Entry{Name: "x", Spec: "@hourly", Payload: (*report)(nil)}},
		{"JobType of", dispatcher.ErrPayload, scheduler.Entry{Name: "x", Spec: "@hourly", Payload: nameless{}}},
		{"use Skip, Once or All", nil, scheduler.Entry{Name: "x", Spec: "@hourly", Payload: report{}, Missed: 7}},
		{"use 0 for the defaults", nil, scheduler.Entry{Name: "x", Spec: "@hourly", Payload: report{}, MissedCap: -1}},
	} {
		err := s.Cron(c.entry)
		if err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("Cron(%+v) = %v; want an error that says %q and is %v", c.entry, err, c.says, c.is)
		}
	}
}

func TestConfigThatCannotWorkIsRefused(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite)
	for says, c := range map[string]scheduler.Config{
		"never fires":     {Prune: scheduler.Upkeep{Spec: "0 0 30 2 *"}},
		"due jobs":        {BacklogThreshold: scheduler.Threshold{Due: math.MaxInt}},
		"is negative":     {QueueThresholds: map[string]scheduler.Threshold{"mail": {Oldest: -1}}},
		`has a ' '`:       {QueueThresholds: map[string]scheduler.Threshold{"a b": {}}},
		"keep everything": {PruneOptions: jobs.PruneOptions{Failed: -1}},
	} {
		if _, err := scheduler.New(db, c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("New(%+v) = %v; want an error that says %q", c, err, says)
		}
	}
	tx := db.Begin()
	defer tx.Rollback()
	if _, err := scheduler.New(tx, scheduler.Config{}); !errors.Is(err, dispatcher.ErrInTransaction) {
		t.Errorf("New in a transaction = %v; want ErrInTransaction", err)
	}
}

func TestRunNamesTheTablesThatAreMissing(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var missing *models.MissingError
		if err := newScheduler(t, db, scheduler.Config{}).Run(t.Context()); !errors.As(err, &missing) {
			t.Errorf("Run = %v; want a *models.MissingError", err)
		}
	}, testdb.Empty)
}

func TestSchedulerThatRunsTakesNoEntryAndNoSecondRun(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite)
	s := newScheduler(t, db, cronOnly(), entryIn("beat", "beat", "@every 1s"))
	run(t, s)
	until(t, "it runs", func() bool { return rowOf(t, db, "beat").Name != "" })
	if err := s.Cron(entryIn("q", "x", "@hourly")); !errors.Is(err, scheduler.ErrRunning) {
		t.Errorf("Cron = %v; want ErrRunning", err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, scheduler.ErrRunning) {
		t.Errorf("Run = %v; want ErrRunning", err)
	}
}

// Run waits for what it has started, which its context ends.
func TestRunEndsWithItsContext(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		enqueue(t, db, map[string]any{"available_at": 1})
		begun, ended := make(chan int), atomic.Bool{}
		c := cronOnly()
		c.Backlog = everySecond
		c.OnBacklog = func(ctx context.Context, _ scheduler.Alarm) { close(begun); <-ctx.Done(); ended.Store(true) }
		stop := run(t, newScheduler(t, db, c, entryIn("beat", "beat", "@every 1s")))
		<-begun
		stop()
		if !ended.Load() {
			t.Error("Run has returned before OnBacklog")
		}
	}, testdb.Parallel)
}

// broken is a pool whose next reads fail.
type broken struct {
	*sql.DB
	reads atomic.Int32
}

var errBroken = errors.New("the network is down")

func (b *broken) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if strings.Contains(query, "next_tick") && b.reads.Add(-1) >= 0 {
		return nil, errBroken
	}
	return b.DB.QueryContext(ctx, query, args...)
}

func (b *broken) BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error) {
	return b.DB.BeginTx(ctx, opts)
}

// lines counts what is logged.
type lines struct {
	slog.Handler
	mu  sync.Mutex
	all []string
	at  []time.Time
}

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r.Level.String()+" "+r.Message)
	l.at = append(l.at, r.Time)
	return nil
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }

func TestSchedulerWaitsForADatabaseThatFails(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		other := testdb.Again(t, db)
		b, log := &broken{DB: poolOf(t, other)}, &lines{}
		other.ConnPool, other.Statement.ConnPool = b, b
		c := cronOnly()
		c.Logger = slog.New(log)
		stop := run(t, newScheduler(t, other, c, entryIn("beat", "beat", "@every 1s")))
		until(t, "it runs", func() bool { return len(tickedFor(t, db, "beat")) > 0 })
		b.reads.Store(3)
		until(t, "it has met trouble", func() bool { return b.reads.Load() < 0 })
		n := len(tickedFor(t, db, "beat"))
		until(t, "it runs again", func() bool { return len(tickedFor(t, db, "beat")) > n })
		stop()
		want := "WARN gormjobs: look at the schedules: trying again"
		want = strings.Join([]string{want, want, want, "INFO gormjobs: look at the schedules: works again"}, "\n")
		if got := strings.Join(log.all, "\n"); got != want {
			t.Fatalf("the log is\n%s\nwant\n%s", got, want)
		}
		// 100, 200 and 400 ms, give or take a tenth.
		if d := log.at[3].Sub(log.at[0]); d < 600*time.Millisecond {
			t.Errorf("4 tries within %s; want growing pauses between them", d)
		}
	}, testdb.Parallel)
}
