package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/models"
)

type User struct {
	ID    uint
	Email string
}

type SendWelcome struct {
	UserID uint `json:"user_id"`
}

func (SendWelcome) JobType() string { return "send_welcome" }

type SendDigest struct {
	UserID uint `json:"user_id"`
}

func (SendDigest) JobType() string { return "send_digest" }

// JobOptions are the digest's own: one a user, in the queue for mail.
func (d SendDigest) JobOptions() []dispatcher.Option {
	return []dispatcher.Option{dispatcher.Queue("mail"), dispatcher.Unique(fmt.Sprint(d.UserID))}
}

// openExample stands for the application's own database.
func openExample() *gorm.DB {
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		log.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		log.Fatal(err)
	}
	pool.SetMaxOpenConns(1) // each connection of :memory: is a database of its own
	if err := errors.Join(models.Migrate(db), db.AutoMigrate(&User{})); err != nil {
		log.Fatal(err)
	}
	return db
}

func closeExample(db *gorm.DB) {
	if pool, err := db.DB(); err == nil {
		pool.Close()
	}
}

// The job is there if and only if the user is.
func ExampleEnqueue() {
	db, ctx := openExample(), context.Background()
	defer closeExample(db)
	signUp := func(email string, fail error) error {
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			user := User{Email: email}
			if err := tx.Create(&user).Error; err != nil {
				return err
			}
			if _, err := dispatcher.Enqueue(ctx, tx, SendWelcome{UserID: user.ID}); err != nil {
				return err
			}
			return fail
		})
	}
	fmt.Println(signUp("ada@example.com", nil))
	fmt.Println(signUp("bob@example.com", errors.New("the card was refused")))

	var users, jobs int64
	db.Model(&User{}).Count(&users)
	db.Model(&models.Job{}).Count(&jobs)
	fmt.Println(users, "user,", jobs, "job")
	// Output:
	// <nil>
	// the card was refused
	// 1 user, 1 job
}

// Enqueueing through the outer handle is the bug that this package refuses.
func ExampleEnqueue_noTransaction() {
	db, ctx := openExample(), context.Background()
	defer closeExample(db)
	_, err := dispatcher.Enqueue(ctx, db, SendWelcome{UserID: 1})
	fmt.Println(errors.Is(err, dispatcher.ErrNoTransaction))
	// Output: true
}

func ExampleEnqueueMany() {
	db, ctx := openExample(), context.Background()
	defer closeExample(db)
	err := dispatcher.Transaction(ctx, db, func(tx *gorm.DB) error {
		receipts, err := dispatcher.EnqueueMany(ctx, tx, []SendDigest{{UserID: 1}, {UserID: 2}, {UserID: 1}})
		for i, r := range receipts {
			fmt.Println(i, r.Duplicate, r.ID == receipts[0].ID)
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// 0 false true
	// 1 false false
	// 2 true true
	// <nil>
}

// A second job of the key is no error: the receipt names the first.
func ExampleUnique() {
	db, ctx := openExample(), context.Background()
	defer closeExample(db)
	for range 2 {
		r, err := dispatcher.EnqueueNow(ctx, db, SendWelcome{UserID: 7}, dispatcher.Unique("user 7"))
		fmt.Println(r.ID, r.Duplicate, err)
	}
	// Output:
	// 1 false <nil>
	// 1 true <nil>
}

func ExampleEnqueueNow() {
	db, ctx := openExample(), context.Background()
	defer closeExample(db)
	_, err := dispatcher.EnqueueNow(ctx, db, SendWelcome{UserID: 7},
		dispatcher.Queue("mail"), dispatcher.Delay(time.Hour), dispatcher.MaxAttempts(3))
	if err != nil {
		log.Fatal(err)
	}
	var job models.Job
	db.Take(&job)
	fmt.Println(job.Type, job.Queue, job.State, job.MaxAttempts, job.DueAt.Time().Sub(job.CreatedAt.Time()))
	// Output: send_welcome mail scheduled 3 1h0m0s
}

// An application's own option is a function.
func ExampleOption() {
	db, ctx := openExample(), context.Background()
	defer closeExample(db)
	urgent := func(r *dispatcher.Request) { r.Queue, r.Priority = "urgent", -10 }
	if _, err := dispatcher.EnqueueNow(ctx, db, SendWelcome{UserID: 7}, urgent); err != nil {
		log.Fatal(err)
	}
	var job models.Job
	db.Take(&job)
	fmt.Println(job.Queue, job.Priority)
	// Output: urgent -10
}
