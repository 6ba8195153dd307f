package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// Greet is a payload.
type Greet struct {
	Name string `json:"name"`
}

// JobType implements [models.Payload].
func (Greet) JobType() string { return "greet" }

// open opens a fresh database of the examples, with the settings that SQLite needs.
func open() (db *gorm.DB, closeAll func()) {
	dir, err := os.MkdirTemp("", "gormjobs")
	check(err)
	file := "file:" + filepath.Join(dir, "app.db")
	db, err = gorm.Open(sqlite.Open(file+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)"), &gorm.Config{})
	check(err)
	pool, err := db.DB()
	check(err)
	pool.SetMaxOpenConns(1)
	check(models.Migrate(db))
	return db, func() { pool.Close(); os.RemoveAll(dir) }
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func ExampleWorker_Run() {
	db, closeAll := open()
	defer closeAll()
	ctx, cancel := context.WithCancel(context.Background())

	registry := handlers.NewRegistry()
	handlers.Register(registry, func(_ context.Context, g Greet) error {
		fmt.Println("hello,", g.Name)
		cancel() // a real program ends with its signal
		return nil
	})
	worker, err := jobs.NewWorker(db, registry, jobs.Config{Queues: jobs.Queues{"default": 20, "mail": 5}})
	check(err)

	_, err = dispatcher.EnqueueNow(ctx, db, Greet{Name: "Gopher"})
	check(err)
	fmt.Println(worker.Run(ctx))
	// Output:
	// hello, Gopher
	// <nil>
}

func ExampleWorker_Drain() {
	db, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	registry := handlers.NewRegistry()
	handlers.Register(registry, func(_ context.Context, g Greet) error {
		fmt.Println("hello,", g.Name)
		return nil
	})
	worker, err := jobs.NewWorker(db, registry, jobs.Config{})
	check(err)
	for _, name := range []string{"Ada", "Grace"} {
		_, err = dispatcher.EnqueueNow(ctx, db, Greet{Name: name})
		check(err)
		n, err := worker.Drain(ctx)
		fmt.Println(n, err)
	}
	// Output:
	// hello, Ada
	// 1 <nil>
	// hello, Grace
	// 1 <nil>
}

// A job that has failed for good is seen, looked at, and run again.
func ExampleRequeue() {
	db, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	broken := true
	registry := handlers.NewRegistry()
	handlers.Register(registry, func(_ context.Context, g Greet) error {
		if broken {
			return errors.New("the printer is out of paper")
		}
		fmt.Println("hello,", g.Name)
		return nil
	})
	worker, err := jobs.NewWorker(db, registry, jobs.Config{
		Logger:   slog.New(slog.DiscardHandler),
		OnFailed: func(_ context.Context, job *models.Job, err error) { fmt.Println("failed:", job.Type, err) },
	})
	check(err)
	receipt, err := dispatcher.EnqueueNow(ctx, db, Greet{Name: "Gopher"}, dispatcher.MaxAttempts(1))
	check(err)
	_, err = worker.Drain(ctx)
	check(err)

	job, err := jobs.Get(ctx, db, receipt.ID)
	check(err)
	fmt.Println(job.State, job.Attempts, job.Failures[0].Error)

	broken = false
	check(jobs.Requeue(ctx, db, receipt.ID))
	_, err = worker.Drain(ctx)
	check(err)
	// Output:
	// failed: greet the printer is out of paper
	// failed 1 the printer is out of paper
	// hello, Gopher
}

func ExampleCancel() {
	db, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	receipt, err := dispatcher.EnqueueNow(ctx, db, Greet{Name: "Gopher"}, dispatcher.Delay(time.Hour))
	check(err)
	fmt.Println(jobs.Cancel(ctx, db, receipt.ID))
	fmt.Println(jobs.Cancel(ctx, db, receipt.ID))
	// Output:
	// <nil>
	// gormjobs: cancel job 1: it is cancelled: only a pending or scheduled job can be cancelled
}

func ExampleBacklog() {
	db, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	for range 3 {
		_, err := dispatcher.EnqueueNow(ctx, db, Greet{}, dispatcher.Queue("mail"))
		check(err)
	}
	waiting, err := jobs.Backlog(ctx, db, 500)
	check(err)
	for _, w := range waiting {
		fmt.Println(w.Queue, w.Due)
	}
	// Output:
	// mail 3
}

// A loop of one's own. What is written in the transaction of Complete happens
// exactly once.
func ExampleClaimer() {
	db, closeAll := open()
	defer closeAll()
	ctx := context.Background()

	_, err := dispatcher.EnqueueNow(ctx, db, Greet{Name: "Gopher"})
	check(err)
	claimer, err := jobs.NewClaimer(db, jobs.ClaimerConfig{Queue: "default", Lease: time.Minute})
	check(err)
	claimed, err := claimer.Claim(ctx, 10)
	check(err)
	for _, job := range claimed {
		fmt.Println(job.Type, job.Payload, job.Attempts)
		check(db.Transaction(func(tx *gorm.DB) error { return jobs.Complete(ctx, tx, &job) }))
		fmt.Println(errors.Is(jobs.Complete(ctx, db, &job), jobs.ErrLost))
	}
	// Output:
	// greet {"name":"Gopher"} 1
	// true
}
