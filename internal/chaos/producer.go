//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/chaos/history"
)

const (
	producerLoops = 3
	perTx         = 12   // jobs, on average
	enough        = 2500 // due jobs: the producers wait
)

// produce enqueues jobs in business transactions until ctx ends.
func (r role) produce(ctx context.Context, db *gorm.DB, log *history.Log) error {
	var wg sync.WaitGroup
	pause := newPause(ctx, db)
	wg.Go(pause.watch)
	random := r.random()
	for i := range producerLoops {
		p := &producer{role: r, db: db, log: log, loop: i, random: rand.New(rand.NewPCG(random.Uint64(), 0))}
		wg.Go(func() { p.run(ctx, pause) })
	}
	wg.Wait()
	return nil
}

type producer struct {
	role
	db     *gorm.DB
	log    *history.Log
	loop   int
	n      int
	random *rand.Rand
}

func (p *producer) run(ctx context.Context, pause *pause) {
	every := time.Duration(float64(time.Second) * perTx * producerLoops / float64(p.Rate))
	for tick := time.NewTicker(every); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !pause.on.Load() {
			p.transaction()
		}
	}
}

var errNoCommit = errors.New("the application changed its mind")

// transaction writes an order and its jobs. One in eight is rolled back, and one
// in eight is given up by its context at about the time of its commit.
func (p *producer) transaction() {
	p.n++
	key := fmt.Sprintf("%s.%d.%d", p.Name, p.loop, p.n)
	fate := p.random.IntN(8)
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	said := history.RolledBack
	err := p.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&Order{Key: key}).Error; err != nil {
			return err
		}
		puts, err := p.enqueue(ctx, tx, key)
		if err != nil {
			return err
		}
		p.log.Write(history.Event{Kind: history.Enqueued, Tx: key, Jobs: puts})
		switch fate {
		case 0:
			return errNoCommit
		case 1:
			time.AfterFunc(time.Duration(p.random.IntN(2000))*time.Microsecond, cancel)
		}
		said = history.Committed // unless the commit says otherwise
		return nil
	})
	if err != nil && said == history.Committed {
		said = history.Unknown
	}
	// An error before Enqueued was written needs no event: there is no commit.
	p.log.Write(history.Event{Kind: said, Tx: key})
}
