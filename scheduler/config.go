package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// Defaults of a [Config].
const (
	DefaultReapSpec    = "@every 1m"
	DefaultBacklogSpec = "@every 1m"
	DefaultPruneSpec   = "@every 10m"

	DefaultBacklogDue    = 500
	DefaultBacklogOldest = 5 * time.Minute
)

// maxDue bounds what a backlog check counts.
const maxDue = 1_000_000

// Config is a scheduler's. The zero value works.
type Config struct {
	// Reap takes jobs back whose worker has died, see [jobs.Reap]. Default
	// "@every 1m". If no scheduler of the database does it, the workers do.
	Reap Upkeep
	// Backlog looks for queues in which too much is waiting. Default "@every 1m".
	Backlog Upkeep
	// Prune deletes finished jobs that are old, see [jobs.Prune]. Default
	// "@every 10m".
	Prune Upkeep
	// PruneOptions says how long finished jobs are kept. Default: completed and
	// cancelled ones 7 days, failed ones 30.
	PruneOptions jobs.PruneOptions
	// BacklogThreshold is what a queue may have waiting. Default: 500 due jobs, the
	// oldest due for less than 5m.
	BacklogThreshold Threshold
	// QueueThresholds has those of single queues, by name. What is zero in one of
	// them is taken from BacklogThreshold. Default: none.
	QueueThresholds map[string]Threshold
	// OnBacklog is called for every queue above its threshold, at every check while
	// that lasts, by the one scheduler that made the check. The next check waits for
	// it, and so does the end of Run: it must return when ctx ends. If it panics,
	// that is logged. Default: nothing; the log has a line at WARN in any case.
	OnBacklog func(ctx context.Context, a Alarm)
	// Logger hears of errors, missed ticks and backlogs; never of payloads. Default
	// slog.Default().
	Logger *slog.Logger
}

// Upkeep says when a piece of upkeep is done. The zero value is its default.
type Upkeep struct {
	// Spec is as in [Next]. Empty means the default.
	Spec string
	// Off: this scheduler does not do it. Others on the same database may.
	Off bool
}

// Threshold is what may wait in a queue without an alarm. What is zero has its
// default.
type Threshold struct {
	// Due is how many jobs may be due, at most 1,000,000. Default 500.
	Due int
	// Oldest is how long a job has been due when there is an alarm. Default 5m.
	Oldest time.Duration
	// Off: no alarm.
	Off bool
}

// Alarm says that a queue is above its threshold.
type Alarm struct {
	// Queue is its name.
	Queue string
	// Due is how many jobs are due. Counting stops just above the highest
	// threshold, so there may be more.
	Due int
	// Oldest is how long the oldest of them has been due, by the database's clock.
	Oldest time.Duration
}

func (c Config) withDefaults() Config {
	c.Reap.Spec = cmp.Or(c.Reap.Spec, DefaultReapSpec)
	c.Backlog.Spec = cmp.Or(c.Backlog.Spec, DefaultBacklogSpec)
	c.Prune.Spec = cmp.Or(c.Prune.Spec, DefaultPruneSpec)
	c.BacklogThreshold.Due = cmp.Or(c.BacklogThreshold.Due, DefaultBacklogDue)
	c.BacklogThreshold.Oldest = cmp.Or(c.BacklogThreshold.Oldest, DefaultBacklogOldest)
	c.QueueThresholds = maps.Clone(c.QueueThresholds)
	for queue, t := range c.QueueThresholds {
		t.Due = cmp.Or(t.Due, c.BacklogThreshold.Due)
		t.Oldest = cmp.Or(t.Oldest, c.BacklogThreshold.Oldest)
		c.QueueThresholds[queue] = t
	}
	if c.OnBacklog == nil {
		c.OnBacklog = func(context.Context, Alarm) {}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) check() error {
	if err := c.BacklogThreshold.check(); err != nil {
		return fmt.Errorf("BacklogThreshold: %w", err)
	}
	for _, queue := range slices.Sorted(maps.Keys(c.QueueThresholds)) {
		if err := models.CheckName(queue); err != nil {
			return fmt.Errorf("QueueThresholds: %w", err)
		}
		if err := c.QueueThresholds[queue].check(); err != nil {
			return fmt.Errorf("QueueThresholds of %s: %w", queue, err)
		}
	}
	o := c.PruneOptions
	if o.Completed < 0 || o.Cancelled < 0 || o.Failed < 0 || o.Pause < 0 || o.Batch < 0 {
		return fmt.Errorf("PruneOptions: something is negative; to keep everything, set Prune.Off")
	}
	return nil
}

func (t Threshold) check() error {
	if t.Due < 0 || t.Due > maxDue {
		return fmt.Errorf("%d due jobs; use 1 to %d, or Off", t.Due, maxDue)
	}
	if t.Oldest < 0 {
		return fmt.Errorf("the age %s is negative", t.Oldest)
	}
	return nil
}

// upkeep returns the library's own entries. They are acted on once for all missed
// ticks: a scheduler that moves the row on without reaping would keep the workers
// from doing it.
func (c Config) upkeep(db *gorm.DB) ([]*entry, error) {
	var all []*entry
	for _, u := range []struct {
		name string
		Upkeep
		do func(context.Context) error
	}{
		{models.ReapEntry, c.Reap, func(ctx context.Context) error { return c.reap(ctx, db) }},
		{reserved + "backlog", c.Backlog, func(ctx context.Context) error { return c.checkBacklog(ctx, db) }},
		{reserved + "prune", c.Prune, func(ctx context.Context) error { return c.prune(ctx, db) }},
	} {
		if u.Off {
			continue
		}
		e, err := newEntry(Entry{Name: u.name, Spec: u.Spec, Missed: Once})
		if err != nil {
			return nil, err
		}
		e.do = u.do
		all = append(all, e)
	}
	return all, nil
}
