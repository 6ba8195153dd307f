// Command hello is the program of the README: a sign-up whose mail is a job.
package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/libtnb/sqlite"
	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
	"github.com/gormjobs/gormjobs/scheduler"
)

type User struct {
	ID    uint
	Email string
}

// SendWelcome is a job: what it needs to know, and the name of its type.
type SendWelcome struct {
	UserID uint `json:"user_id"`
}

func (SendWelcome) JobType() string { return "send_welcome" }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	db, err := gorm.Open(sqlite.Open("hello.db?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)"), &gorm.Config{})
	check(err)
	pool, err := db.DB()
	check(err)
	pool.SetMaxOpenConns(1) // SQLite has one writer
	check(db.AutoMigrate(&User{}))
	check(models.Migrate(db)) // 1. the tables, at every start

	registry := handlers.NewRegistry() // 2. what answers the jobs
	handlers.Register(registry, func(ctx context.Context, job SendWelcome) error {
		log.Printf("sending a welcome to user %d", job.UserID)
		return nil // an error would try again later
	})
	worker, err := jobs.NewWorker(db, registry, jobs.Config{}) // 3. what runs them
	check(err)
	sched, err := scheduler.New(db, scheduler.Config{}) // 4. upkeep, and cron entries
	check(err)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return worker.Run(ctx) })
	group.Go(func() error { return sched.Run(ctx) })

	check(db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { // 5. in a request
		user := User{Email: "ada@example.com"}
		if err := tx.Create(&user).Error; err != nil {
			return err
		}
		_, err := dispatcher.Enqueue(ctx, tx, SendWelcome{UserID: user.ID})
		return err // committed together, or not at all
	}))
	check(group.Wait()) // until Ctrl-C
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
