package scheduler

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/jobs"
)

func (c Config) reap(ctx context.Context, db *gorm.DB) error {
	r, err := jobs.Reap(ctx, db)
	if r.Returned+r.Failed > 0 {
		c.Logger.Info("gormjobs: jobs of silent workers were reaped", "returned", r.Returned, "failed", r.Failed)
	}
	return err
}

func (c Config) prune(ctx context.Context, db *gorm.DB) error {
	n, err := jobs.Prune(ctx, db, c.PruneOptions)
	if n > 0 {
		c.Logger.Debug("gormjobs: old jobs were pruned", "jobs", n)
	}
	return err
}

func (c Config) checkBacklog(ctx context.Context, db *gorm.DB) error {
	// One more than the threshold tells all there is to know.
	limit := c.BacklogThreshold.Due
	for _, t := range c.QueueThresholds {
		limit = max(limit, t.Due)
	}
	waiting, err := jobs.Backlog(ctx, db, limit+1)
	if err != nil {
		return err
	}
	for _, w := range waiting {
		t, ok := c.QueueThresholds[w.Queue]
		if !ok {
			t = c.BacklogThreshold
		}
		if t.Off || w.Due <= t.Due && w.Oldest < t.Oldest {
			continue
		}
		c.Logger.Warn("gormjobs: backlog", "queue", w.Queue, "due", w.Due, "oldest", w.Oldest.Round(time.Millisecond))
		c.alarm(ctx, Alarm{Queue: w.Queue, Due: w.Due, Oldest: w.Oldest})
	}
	return nil
}

func (c Config) alarm(ctx context.Context, a Alarm) {
	defer func() {
		if v := recover(); v != nil {
			c.Logger.Error("gormjobs: OnBacklog panicked", "queue", a.Queue, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	c.OnBacklog(ctx, a)
}
