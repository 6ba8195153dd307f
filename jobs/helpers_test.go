package jobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

type ping struct {
	N int `json:"n"`
}

func (ping) JobType() string { return "ping" }

// nothing is a handler that has nothing to do.
func nothing(context.Context, ping) error { return nil }

// onPing is a registry with one handler.
func onPing(fn func(context.Context, ping) error, opts ...handlers.Option) *handlers.Registry {
	reg := handlers.NewRegistry()
	handlers.Register(reg, fn, opts...)
	return reg
}

func enqueue(t testing.TB, db *gorm.DB, p models.Payload, opts ...dispatcher.Option) uint64 {
	t.Helper()
	r, err := dispatcher.EnqueueNow(context.Background(), db, p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

// enqueuePings enqueues n of them, numbered from 0, and returns their ids.
func enqueuePings(t testing.TB, db *gorm.DB, n int, opts ...dispatcher.Option) []uint64 {
	t.Helper()
	ps := make([]ping, n)
	for i := range ps {
		ps[i].N = i
	}
	ids := make([]uint64, n)
	err := db.Transaction(func(tx *gorm.DB) error {
		receipts, err := dispatcher.EnqueueMany(context.Background(), tx, ps, opts...)
		for i, r := range receipts {
			ids[i] = r.ID
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func newWorker(t testing.TB, db *gorm.DB, reg *handlers.Registry, c jobs.Config) *jobs.Worker {
	t.Helper()
	if c.Logger == nil {
		c.Logger = quiet()
	}
	w, err := jobs.NewWorker(db, reg, c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// start runs w until stop is called, which returns Run's error, or the test ends.
func start(t testing.TB, w *jobs.Worker) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

func drain(t testing.TB, w *jobs.Worker, want int) {
	t.Helper()
	if n, err := w.Drain(context.Background()); n != want || err != nil {
		t.Fatalf("Drain = %d, %v; want %d", n, err, want)
	}
}

func claimOne(t testing.TB, db *gorm.DB) models.Job {
	t.Helper()
	c, err := jobs.NewClaimer(db, jobs.ClaimerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := c.Claim(context.Background(), 1)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("Claim = %d jobs, %v; want 1", len(claimed), err)
	}
	return claimed[0]
}

func get(t testing.TB, db *gorm.DB, id uint64) *models.Job {
	t.Helper()
	j, err := jobs.Get(context.Background(), db, id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// wantState fails the test unless the job is in the state, with the attempts.
func wantState(t testing.TB, db *gorm.DB, id uint64, state models.State, attempts int) {
	t.Helper()
	if j := get(t, db, id); j.State != state || j.Attempts != attempts {
		t.Errorf("job %d is %s with %d attempts (%q); want %s with %d", id, j.State, j.Attempts, j.LastError, state, attempts)
	}
}

// change writes columns of a job by hand.
func change(t testing.TB, db *gorm.DB, id uint64, columns map[string]any) {
	t.Helper()
	write := db.Session(&gorm.Session{NewDB: true}).Model(&models.Job{}).Where("id = ?", id).Updates(columns)
	if write.Error != nil {
		t.Fatal(write.Error)
	}
}

// expire ends the lease of a job, as if its worker had long been silent.
func expire(t testing.TB, db *gorm.DB, id uint64) {
	t.Helper()
	change(t, db, id, map[string]any{"reserved_until": 1})
}

func reap(t testing.TB, db *gorm.DB, want jobs.Reaped) {
	t.Helper()
	if got, err := jobs.Reap(context.Background(), db); got != want || err != nil {
		t.Fatalf("Reap = %+v, %v; want %+v", got, err, want)
	}
}

// receive waits for ch, and fails the test when nothing comes.
func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("after 20s still not: %s", what)
		panic("unreachable")
	}
}

// logbook is a logger's handler that remembers.
type logbook struct {
	mu    sync.Mutex
	lines []string
	count map[slog.Level]int
}

func (*logbook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logbook) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l *logbook) WithGroup(string) slog.Handler          { return l }

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == nil {
		l.count = map[slog.Level]int{}
	}
	l.count[r.Level]++
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	l.lines = append(l.lines, line)
	return nil
}

func (l *logbook) logger() *slog.Logger { return slog.New(l) }

// with returns the lines that contain text.
func (l *logbook) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// above returns the lines of a level, and of those above it.
func (l *logbook) above(level slog.Level) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for lv, c := range l.count {
		if lv >= level {
			n += c
		}
	}
	return n
}
