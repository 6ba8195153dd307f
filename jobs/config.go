package jobs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/models"
)

// Defaults of a [Config].
const (
	DefaultLease           = time.Minute
	DefaultShutdownTimeout = 30 * time.Second
	DefaultPollInterval    = time.Second
)

// minLease keeps a lease well above what a renewal takes on a busy server.
const minLease = time.Second

// minPollInterval keeps a worker from asking all the time.
const minPollInterval = time.Millisecond

// Queues maps the names of queues to how many of their jobs run at once in this
// worker.
type Queues map[string]int

// Config is a worker's. The zero value works.
type Config struct {
	// Queues are those the worker takes jobs from. Default {"default": 10}.
	Queues Queues
	// Lease is how long a job stays reserved for a worker that has died. Live
	// workers renew it, every third of it. Default 1m, at least 1s.
	Lease time.Duration
	// ShutdownTimeout is how long handlers may go on when Run's context has ended.
	// Then their contexts end too, and after 2 s more Run returns without those that
	// ignore it. Default 30s.
	ShutdownTimeout time.Duration
	// PollInterval is the longest pause between two looks at the database. A worker
	// that has just had work looks every few milliseconds, and after ten times this
	// interval without any it looks this often. With a Listener that is connected it
	// looks every 10 s at least. Default 1s.
	PollInterval time.Duration
	// Name is the worker's in the rows it reserves and in failures; letters, digits,
	// - and _ of it are kept, up to 80. Default: the host's name, the process id, and
	// something random, so that it is unique.
	Name string
	// Logger hears of errors and of what is worth a look; never of payloads. Default
	// slog.Default().
	Logger *slog.Logger
	// OnFailed is called when a job has failed for good and that is recorded: after
	// its last attempt or a Discard, by this worker. Its ctx ends after 10 s.
	// Default: nothing.
	OnFailed func(ctx context.Context, job *models.Job, err error)
	// Listener wakes the worker when another process has enqueued a job, see
	// package pgnotify. Default: none; the worker polls.
	Listener Listener
}

// Listener tells of jobs enqueued by other processes.
type Listener interface {
	// Listen calls wake with the name of a queue in which a job was committed, ""
	// for any, until ctx ends or the connection is lost. The worker calls it again
	// after an error.
	Listen(ctx context.Context, db *gorm.DB, wake func(queue string)) error
}

func (c Config) withDefaults() Config {
	if len(c.Queues) == 0 {
		c.Queues = Queues{"default": 10}
	}
	c.Queues = maps.Clone(c.Queues)
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, DefaultShutdownTimeout)
	c.PollInterval = cmp.Or(c.PollInterval, DefaultPollInterval)
	c.Name = cmp.Or(cleanName(c.Name), defaultName())
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) check() error {
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		if err := models.CheckName(name); err != nil {
			return fmt.Errorf("queue: %w", err)
		}
		if n := c.Queues[name]; n < 1 || n > 10_000 {
			return fmt.Errorf("queue %s: %d jobs at once; use 1 to 10000, or leave the queue out", name, n)
		}
	}
	if c.Lease < minLease {
		return fmt.Errorf("the lease %s is shorter than %s", c.Lease, minLease)
	}
	if c.ShutdownTimeout < 0 {
		return fmt.Errorf("the ShutdownTimeout %s is negative", c.ShutdownTimeout)
	}
	if c.PollInterval < minPollInterval {
		return fmt.Errorf("the PollInterval %s is shorter than %s", c.PollInterval, minPollInterval)
	}
	return nil
}
