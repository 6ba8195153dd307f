//go:build linux

package main

import (
	"context"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/jobs"
)

// pause stops the producers while the workers have enough to do, so that what is
// left at the end can be run in a known time.
type pause struct {
	ctx context.Context
	db  *gorm.DB
	on  atomic.Bool
}

func newPause(ctx context.Context, db *gorm.DB) *pause { return &pause{ctx: ctx, db: db} }

func (p *pause) watch() {
	for sleep(p.ctx, 300*time.Millisecond) == nil {
		ctx, cancel := context.WithTimeout(p.ctx, 3*time.Second)
		if n, err := backlog(ctx, p.db); err == nil {
			p.on.Store(n >= enough)
		}
		cancel()
	}
}

// backlog is how many jobs are due in all queues, about.
func backlog(ctx context.Context, db *gorm.DB) (int, error) {
	waiting, err := jobs.Backlog(ctx, db, enough)
	n := 0
	for _, w := range waiting {
		n += w.Due
	}
	return n, err
}
