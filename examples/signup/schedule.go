package main

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/jobs"
)

// STUB until package scheduler lands.
func runSchedule(ctx context.Context, db *gorm.DB, p pace) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := jobs.Reap(ctx, db); err != nil && ctx.Err() == nil {
			return err
		}
		if i%2 == 0 {
			if _, err := dispatcher.EnqueueNow(ctx, db, CleanupExpiredSessions{}, dispatcher.Unique("tick")); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}
