package main

import (
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// translated is a handle like that of openDatabase.
var translated = testdb.GormConfig(func(c *gorm.Config) { c.TranslateError = true })

func newApp(t *testing.T, db *gorm.DB) *App {
	t.Helper()
	if err := migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return &App{db: db, hashRounds: 1}
}

// startMailbox starts box and returns who mails through it.
func startMailbox(t *testing.T, box *Mailbox) *Mailer {
	t.Helper()
	addr, stop, err := box.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return &Mailer{Addr: addr, URL: "http://signup.test"}
}

// atOnce has no backoff, so that Drain runs all attempts of a job.
var atOnce = pace{backoff: func(int) time.Duration { return 0 }}

func newWorker(t *testing.T, db *gorm.DB, mailer *Mailer) *jobs.Worker {
	t.Helper()
	w, err := jobs.NewWorker(db, register(mailer, atOnce), jobs.Config{Queues: jobs.Queues{"default": 2, "mail": 5}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// drain runs all jobs and returns how many runs it took.
func drain(t *testing.T, db *gorm.DB, mailer *Mailer) int {
	t.Helper()
	n, err := newWorker(t, db, mailer).Drain(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func signUp(t *testing.T, app *App, address string) {
	t.Helper()
	if _, err := app.SignUp(t.Context(), address, "long enough", ""); err != nil {
		t.Fatalf("sign up %s: %v", address, err)
	}
}

// wantMails compares the mailbox, as "subject to address", in any order.
func wantMails(t *testing.T, box *Mailbox, want ...string) {
	t.Helper()
	got := []string{}
	for _, m := range box.Messages() {
		got = append(got, m.Subject+" to "+m.To)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the mailbox has %q, want %q", got, want)
	}
}

// onlyJob returns the one job there is, with its failures.
func onlyJob(t *testing.T, db *gorm.DB) *models.Job {
	t.Helper()
	all, err := jobs.List(t.Context(), db, jobs.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d jobs, want 1", len(all))
	}
	job, err := jobs.Get(t.Context(), db, all[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	return job
}
