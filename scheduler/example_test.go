package scheduler_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
	"github.com/gormjobs/gormjobs/scheduler"
)

type Heartbeat struct{}

func (Heartbeat) JobType() string { return "heartbeat" }

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "gormjobs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := gorm.Open(sqlite.Open("file:"+filepath.Join(dir, "app.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"), &gorm.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if pool, err := db.DB(); err == nil {
		defer pool.Close()
	}
	if err := models.Migrate(db); err != nil {
		log.Fatal(err)
	}
	sched, err := scheduler.New(db, scheduler.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := sched.Cron(scheduler.Entry{Name: "heartbeat", Spec: "@every 1s", Payload: Heartbeat{}}); err != nil {
		log.Fatal(err)
	}
	registry := handlers.NewRegistry()
	handlers.Register(registry, func(ctx context.Context, _ Heartbeat) error {
		job, _ := handlers.JobFrom(ctx)
		tick, ok := scheduler.Tick(job)
		if ctx.Err() == nil {
			fmt.Println("a job for a tick:", ok, tick.Nanosecond() == 0)
		}
		cancel()
		return nil
	})
	worker, err := jobs.NewWorker(db, registry, jobs.Config{Queues: jobs.Queues{"default": 1}})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- worker.Run(ctx) }()
	go func() { ended <- sched.Run(ctx) }()
	fmt.Println(<-ended, <-ended)
	// Output:
	// a job for a tick: true true
	// <nil> <nil>
}

func ExampleNext() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		log.Fatal(err)
	}
	next, err := scheduler.Next("30 2 * * MON", berlin, time.Date(2026, 1, 1, 12, 0, 0, 0, berlin))
	fmt.Println(next, err)
	// Output: 2026-01-05 02:30:00 +0100 CET <nil>
}
