package main

import (
	"context"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/scheduler"
)

// runSchedule enqueues what is due by the clock until ctx ends. Every process may
// run it: they agree about each tick, and one of them enqueues.
//
// The reaping, which gives the jobs of a killed worker back, is an entry of the
// scheduler from the start.
func runSchedule(ctx context.Context, db *gorm.DB, p pace) error {
	sched, err := scheduler.New(db, scheduler.Config{Reap: scheduler.Upkeep{Spec: p.reap}})
	if err != nil {
		return err
	}
	err = sched.Cron(scheduler.Entry{
		Name: "cleanup-expired-sessions", Spec: p.cleanup, Payload: CleanupExpiredSessions{},
		// While one waits for a worker, another would have nothing to do.
		Options: []dispatcher.Option{dispatcher.Unique("cleanup")},
	})
	if err != nil {
		return err
	}
	return sched.Run(ctx)
}
