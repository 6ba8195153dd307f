package pgnotify_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/jobs/pgnotify"
	"github.com/gormjobs/gormjobs/models"
)

type ping struct{}

func (ping) JobType() string { return "ping" }

// listen starts a listener and returns what it hears, after the first wake, which
// says that it listens.
func listen(t *testing.T, db *gorm.DB, l *pgnotify.Listener) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	heard := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.Listen(ctx, db, func(queue string) { heard <- queue }); !errors.Is(err, context.Canceled) {
			t.Errorf("Listen = %v; want it to end with its context", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	if queue := next(t, heard); queue != "" {
		t.Fatalf("the first wake was for %q; want any", queue)
	}
	return heard
}

func next(t *testing.T, heard <-chan string) string {
	t.Helper()
	select {
	case queue := <-heard:
		return queue
	case <-time.After(10 * time.Second):
		t.Fatal("heard nothing for 10 s")
		return ""
	}
}

// ask says that an idle worker listens, as one does.
func ask(t *testing.T, db *gorm.DB) {
	t.Helper()
	until := models.At(time.Now().Add(time.Hour))
	if err := db.Create(&models.Schedule{Name: models.ListeningEntry, NextTick: until, UpdatedAt: 1}).Error; err != nil {
		t.Fatal(err)
	}
}

func TestOnlyCommittedJobsAreHeard(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ask(t, db)
		for name, l := range map[string]*pgnotify.Listener{"of the pool": pgnotify.New(), "of its own": pgnotify.New(pgnotify.DSN(testdb.DSN(db)))} {
			t.Run(name, func(t *testing.T) {
				heard := listen(t, testdb.Again(t, db), l)
				enqueue := func(tx *gorm.DB, queue string) error {
					_, err := dispatcher.Enqueue(t.Context(), tx, ping{}, dispatcher.Queue(queue))
					return err
				}
				back := errors.New("roll back")
				err := db.Transaction(func(tx *gorm.DB) error { return errors.Join(enqueue(tx, "rolled-back"), back) })
				if !errors.Is(err, back) {
					t.Fatal(err)
				}
				err = db.Transaction(func(tx *gorm.DB) error {
					_ = tx.Transaction(func(tx *gorm.DB) error { return errors.Join(enqueue(tx, "inner"), back) })
					if len(heard) > 0 {
						t.Error("heard something before the commit")
					}
					return errors.Join(enqueue(tx, "outer"), enqueue(tx, "outer"))
				})
				if err != nil {
					t.Fatal(err)
				}
				if queue := next(t, heard); queue != "outer" {
					t.Errorf("heard of %q; want outer", queue)
				}
				if _, err := dispatcher.EnqueueNow(t.Context(), db, ping{}, dispatcher.Queue("last")); err != nil {
					t.Fatal(err)
				}
				if queue := next(t, heard); queue != "last" {
					t.Errorf("heard of %q; want last, and outer once", queue)
				}
			})
		}
	}, testdb.Only(testdb.Postgres))
}

func TestNothingIsSentWhileNobodyAsks(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		heard := listen(t, testdb.Again(t, db), pgnotify.New())
		if _, err := dispatcher.EnqueueNow(t.Context(), db, ping{}, dispatcher.Queue("unasked")); err != nil {
			t.Fatal(err)
		}
		ask(t, db)
		// The handle has just seen that nobody asks, and sees it again soon.
		for asked := time.Now(); ; {
			if _, err := dispatcher.EnqueueNow(t.Context(), db, ping{}, dispatcher.Queue("asked")); err != nil {
				t.Fatal(err)
			}
			select {
			case queue := <-heard:
				if queue != "asked" {
					t.Errorf("heard of %q; want asked only", queue)
				}
				return
			case <-time.After(10 * time.Millisecond):
			}
			if waited := time.Since(asked); waited > 2*time.Second {
				t.Fatalf("heard nothing for %s after somebody asked", waited)
			}
		}
	}, testdb.Only(testdb.Postgres))
}

func TestIdleWorkerAsksForNotice(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ran := make(chan struct{}, 1)
		reg := handlers.NewRegistry()
		handlers.Register(reg, func(context.Context, ping) error { ran <- struct{}{}; return nil })
		w, err := jobs.NewWorker(testdb.Again(t, db), reg, jobs.Config{
			Listener: pgnotify.New(), PollInterval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		heard := listen(t, db, pgnotify.New())
		for asked := false; !asked; { // until it does, nothing is heard of an enqueue
			if _, err := dispatcher.EnqueueNow(t.Context(), db, ping{}); err != nil {
				t.Fatal(err)
			}
			<-ran
			select {
			case <-heard:
				asked = true
			case <-time.After(200 * time.Millisecond): // it must be idle to ask
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}, testdb.Only(testdb.Postgres))
}

func ExampleNew() {
	db, err := gorm.Open(postgres.Open("host=localhost dbname=app"), &gorm.Config{DisableAutomaticPing: true})
	if err != nil {
		panic(err)
	}
	if pool, err := db.DB(); err == nil {
		defer pool.Close()
	}
	_, err = jobs.NewWorker(db, handlers.NewRegistry(), jobs.Config{Listener: pgnotify.New()})
	fmt.Println("ready:", err == nil)
	// Output: ready: true
}

// A snapshot from before the worker listened says that nobody does. That is no
// reason for the process's other transactions to leave their notifications out.
func TestOldSnapshotDoesNotSilenceTheOthers(t *testing.T) {
	db := testdb.Open(t, testdb.Postgres)
	old := db.Begin(&sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	defer old.Rollback()
	if err := old.Exec("SELECT count(*) FROM queue_jobs").Error; err != nil {
		t.Fatal(err)
	}
	ask(t, db)
	heard := listen(t, testdb.Again(t, db), pgnotify.New())
	for range 3 {
		if _, err := dispatcher.Enqueue(t.Context(), old, ping{}); err != nil {
			t.Fatal(err)
		}
		if _, err := dispatcher.EnqueueNow(t.Context(), db, ping{}, dispatcher.Queue("new")); err != nil {
			t.Fatal(err)
		}
		if queue := next(t, heard); queue != "new" {
			t.Errorf("heard of %q; want new", queue)
		}
	}
}

func TestListenerLeavesTheOnlyConnectionAlone(t *testing.T) {
	db := testdb.Open(t, testdb.Postgres, testdb.Pool(1))
	err := pgnotify.New().Listen(t.Context(), db, func(string) { t.Error("it listens") })
	if !errors.Is(err, pgnotify.ErrPool) {
		t.Errorf("Listen = %v; want ErrPool", err)
	}
}

func TestListenerRefusesOtherDatabases(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if err := pgnotify.New().Listen(t.Context(), db, nil); !errors.Is(err, pgnotify.ErrDatabase) {
			t.Errorf("Listen = %v; want ErrDatabase", err)
		}
	}, testdb.Only(testdb.SQLite, testdb.MySQL, testdb.MariaDB))
}
