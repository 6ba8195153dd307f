//go:build linux

package main

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/scheduler"
)

// reapEvery is how often jobs of dead workers are taken back.
const reapEvery = "@every 1s"

// schedule runs a scheduler. What would be pruned is needed at the end.
func (r role) schedule(ctx context.Context, db *gorm.DB) error {
	s, err := scheduler.New(db, scheduler.Config{
		Reap: scheduler.Upkeep{Spec: reapEvery}, Prune: scheduler.Upkeep{Off: true}, Backlog: scheduler.Upkeep{Off: true},
	})
	if err != nil {
		return err
	}
	for name, every := range entries {
		err := s.Cron(scheduler.Entry{Name: name, Spec: fmt.Sprint("@every ", every), Payload: tick{name}})
		if err != nil {
			return err
		}
	}
	return again(ctx, func() error { return s.Run(ctx) })
}
