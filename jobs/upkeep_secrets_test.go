package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/jobs/pgnotify"
	"github.com/gormjobs/gormjobs/models"
	"github.com/gormjobs/gormjobs/scheduler"
)

// bystander is a table of the application that hostile names want to harm.
type bystander struct{ ID uint }

// hostilePrefixes would end an identifier, if they were not quoted.
var hostilePrefixes = []string{
	`x"; DROP TABLE bystanders; --`, "x`; DROP TABLE bystanders; -- ", `x'; DROP TABLE bystanders; --`,
	`x\`, `x y`, `x?`, `x@n`, `x%s`,
}

// A prefix is the programmer's, and may still be anything. Whatever it is, it is
// quoted everywhere, or what uses it fails and does nothing else.
func TestHostilePrefixIsQuotedOrRefused(t *testing.T) {
	for _, prefix := range hostilePrefixes {
		t.Run(fmt.Sprintf("%q", prefix), func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				if err := db.AutoMigrate(&bystander{}); err != nil {
					t.Fatal(err)
				}
				if err := db.Create(&bystander{7}).Error; err != nil {
					t.Fatal(err)
				}
				own := testdb.Again(t, db, testdb.GormConfig(func(c *gorm.Config) {
					c.NamingStrategy = schema.NamingStrategy{TablePrefix: prefix, IdentifierMaxLength: 64}
				}))
				// GORM takes a ? in a raw statement for a parameter, also in a name.
				if err := useEverything(t, own); err != nil && !strings.Contains(prefix, "?") {
					t.Errorf("with the prefix %q: %v", prefix, err)
				}
				var n int64
				if err := db.Model(&bystander{}).Where("id = 7").Count(&n).Error; err != nil || n != 1 {
					t.Errorf("the bystander is %d rows, %v; want it unharmed", n, err)
				}
			}, testdb.Empty)
		})
	}
}

// useEverything uses every verb once and returns the first error.
func useEverything(t *testing.T, db *gorm.DB) error {
	t.Helper()
	ctx := t.Context()
	if err := models.Migrate(db); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	var fails error
	w := newWorker(t, db, onPing(func(context.Context, ping) error { return fails }), jobs.Config{})
	try := func() error {
		r, err := dispatcher.EnqueueNow(ctx, db, ping{}, dispatcher.Unique("a"), dispatcher.MaxAttempts(1))
		if err != nil {
			return err
		}
		if _, err := w.Drain(ctx); err != nil {
			return err
		}
		if _, err := jobs.Get(ctx, db, r.ID); err != nil {
			return err
		}
		if fails != nil {
			if err := jobs.Requeue(ctx, db, r.ID); err != nil {
				return err
			}
			if err := jobs.Cancel(ctx, db, r.ID); err != nil {
				return err
			}
		}
		return jobs.Delete(ctx, db, r.ID)
	}
	if err := try(); err != nil {
		return err
	}
	fails = errors.New("no")
	if err := try(); err != nil {
		return err
	}
	if _, err := jobs.Reap(ctx, db); err != nil {
		return err
	}
	if _, err := jobs.Promote(ctx, db); err != nil {
		return err
	}
	if _, err := jobs.Prune(ctx, db, jobs.PruneOptions{}); err != nil {
		return err
	}
	if _, err := jobs.Backlog(ctx, db, 10); err != nil {
		return err
	}
	if _, err := jobs.Count(ctx, db); err != nil {
		return err
	}
	if _, err := jobs.List(ctx, db, jobs.Filter{Queue: `'"; DROP TABLE bystanders; --`}); err != nil {
		return err
	}
	return models.Check(ctx, db)
}

// A queue's name is refused, wherever it comes in.
func TestHostileQueueIsRefused(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite)
	for _, name := range append(hostilePrefixes, "", strings.Repeat("x", 101), "é", "a\x00") {
		if name != "" { // the default
			if _, err := jobs.NewClaimer(db, jobs.ClaimerConfig{Queue: name}); err == nil {
				t.Errorf("NewClaimer takes the queue %q", name)
			}
		}
		if _, err := jobs.NewWorker(db, onPing(content), jobs.Config{Queues: jobs.Queues{name: 1}}); err == nil {
			t.Errorf("NewWorker takes the queue %q", name)
		}
		if _, err := dispatcher.EnqueueNow(t.Context(), db, ping{}, dispatcher.Queue(name)); !errors.Is(err, dispatcher.ErrOption) {
			t.Errorf("EnqueueNow into %q = %v; want ErrOption", name, err)
		}
		sched, err := scheduler.New(db, scheduler.Config{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if err := sched.Cron(scheduler.Entry{Name: name, Spec: "@daily", Payload: ping{}}); err == nil {
			t.Errorf("Cron takes the name %q", name)
		}
	}
}

func content(context.Context, ping) error { return nil }

// secretive is a payload with something that must not show.
type secretive struct {
	Password string `json:"password"`
}

func (secretive) JobType() string { return "secretive" }

const hidden = "hunter2"

// Jobs that fail, panic, time out, lose their lease, do not decode, have no handler
// or meet a database that is away: nothing that the worker, the scheduler or an
// error says has the payload, the metadata, or the DSN's password.
func TestNoPayloadAndNoPasswordIsLogged(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		book := &logbook{}
		own, wire := overWire(t, db)
		opts := []dispatcher.Option{dispatcher.Metadata(map[string]string{"token": hidden}), dispatcher.MaxAttempts(1), dispatcher.Unique(hidden)}
		unknown := enqueue(t, db, secretive{hidden}, opts...)
		// It does not decode: its payload is another type's.
		broken := enqueue(t, db, ping{}, dispatcher.MaxAttempts(1))
		change(t, db, broken, map[string]any{"payload": models.JSON(`{"n":"` + hidden + `"}`)})
		panicking := enqueue(t, db, tally{}, dispatcher.MaxAttempts(1))
		reg := onPing(func(context.Context, ping) error { return nil })
		registerTally(reg)
		w := newWorker(t, own, reg, jobs.Config{Logger: book.logger(), Lease: time.Second})
		sched, err := scheduler.New(own, scheduler.Config{Logger: book.logger(), Reap: scheduler.Upkeep{Spec: "@every 1s"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- sched.Run(ctx) }()
		stop := start(t, w)
		waitFor(t, 20*time.Second, "the unknown one is put back, the others have failed", func() bool {
			s := w.Stats()
			return s.Released == 1 && s.Failed == 2
		})
		wire.cut()
		waitFor(t, 20*time.Second, "the worker and the scheduler are in trouble", func() bool {
			return len(book.with("trying again")) > 3
		})
		var said []string
		for name, err := range map[string]error{
			"Reap": second(jobs.Reap(t.Context(), own)), "Promote": second(jobs.Promote(t.Context(), own)),
			"EnqueueNow": second(dispatcher.EnqueueNow(t.Context(), own, secretive{hidden}, opts...)),
			"Get":        second(jobs.Get(t.Context(), own, unknown)), "Cancel": jobs.Cancel(t.Context(), own, unknown),
			"Migrate": models.Migrate(own), "Check": models.Check(t.Context(), own),
		} {
			if err == nil {
				t.Errorf("%s = nil without a database", name)
			}
			said = append(said, fmt.Sprintf("%s: %v, %+v", name, err, err))
		}
		wire.mend()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		wantState(t, db, panicking, models.Failed, 1)
		secrets := []string{hidden, passwordOf(t, db)}
		for _, line := range append(said, book.with("")...) {
			for _, secret := range secrets {
				if secret != "" && strings.Contains(line, secret) {
					t.Errorf("%q is in %s", secret, line)
				}
			}
		}
		for _, id := range []uint64{broken, panicking} {
			if j := get(t, db, id); strings.Contains(j.LastError, hidden) {
				t.Errorf("the payload is in the failure: %s", j.LastError)
			}
		}
	}, testdb.Servers, testdb.Parallel)
}

// pgnotify has a DSN of its own, whose connection may fail.
func TestListenersPasswordIsNotLogged(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close() // nobody listens there
	for _, dsn := range []string{
		"postgres://app:" + hidden + "@" + address + "/app?connect_timeout=1",
		"postgres://app:" + hidden + "@" + address + "/app?sslmode=nonsense",
		"postgres://app:" + hidden + "@%zz/app", "host=127.0.0.1 port=x password=" + hidden, hidden,
	} {
		err := pgnotify.New(pgnotify.DSN(dsn)).Listen(t.Context(), nil, func(string) {})
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), hidden) {
			t.Errorf("Listen with %q = %v; want an error without the password", dsn, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// registerTally adds a handler that panics.
func registerTally(reg *handlers.Registry) {
	handlers.Register(reg, func(context.Context, tally) error { panic("out of range") })
}

// passwordOf is the one in a DSN of testdb.
func passwordOf(t *testing.T, db *gorm.DB) string {
	t.Helper()
	if testdb.KindOf(db) == testdb.Postgres {
		c, err := pgconn.ParseConfig(testdb.DSN(db))
		if err != nil {
			t.Fatal(err)
		}
		return c.Password
	}
	c, err := mysqldriver.ParseDSN(testdb.DSN(db))
	if err != nil {
		t.Fatal(err)
	}
	return c.Passwd
}
