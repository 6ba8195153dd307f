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

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/chaos/history"
	"github.com/gormjobs/gormjobs/jobs"
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

// enqueue puts a batch of one type, and sometimes one more, in a savepoint that is
// rolled back.
func (p *producer) enqueue(ctx context.Context, tx *gorm.DB, key string) ([]history.Put, error) {
	n := 1 + p.random.IntN(2*perTx-1)
	list := make([]errand, n)
	for i := range list {
		list[i] = p.errand(fmt.Sprintf("%s.%d", key, i))
	}
	var opts []dispatcher.Option
	var delay time.Duration
	if p.random.IntN(6) == 0 {
		delay = time.Duration(p.random.IntN(2000)) * time.Millisecond
		opts = append(opts, dispatcher.Delay(delay))
	}
	if p.random.IntN(4) == 0 {
		opts = append(opts, dispatcher.Queue("slow"))
	}
	opts = append(opts, p.attempts()...)
	if p.random.IntN(10) == 0 {
		undone := errors.New("undone")
		err := tx.Transaction(func(tx *gorm.DB) error {
			if _, err := dispatcher.Enqueue(ctx, tx, plain{errand{Ref: key + ".undone"}}); err != nil {
				return err
			}
			return undone
		})
		if !errors.Is(err, undone) {
			return nil, err
		}
	}
	var receipts []dispatcher.Receipt
	var err error
	switch kind := p.random.IntN(20); {
	case kind < 4:
		if p.DB == "sqlite" { // they hold the only writer
			for i := range list {
				list[i].Work /= 10
			}
		}
		receipts, err = dispatcher.EnqueueMany(ctx, tx, as(list, func(e errand) book { return book{e} }), opts...)
	case kind < 5:
		for i := range list {
			list[i].Key = fmt.Sprint("key-", p.random.IntN(60))
		}
		receipts, err = dispatcher.EnqueueMany(ctx, tx, as(list, func(e errand) unique { return unique{e} }), opts...)
	default:
		receipts, err = dispatcher.EnqueueMany(ctx, tx, as(list, func(e errand) plain { return plain{e} }), opts...)
	}
	puts := make([]history.Put, len(receipts))
	for i, r := range receipts {
		puts[i] = history.Put{Ref: list[i].Ref, ID: r.ID, Dup: r.Duplicate, Key: list[i].Key, Delay: delay.Microseconds()}
	}
	return puts, err
}

func as[T any](list []errand, to func(errand) T) []T {
	all := make([]T, len(list))
	for i, e := range list {
		all[i] = to(e)
	}
	return all
}

// attempts gives a few batches so few that they are used up.
func (p *producer) attempts() []dispatcher.Option {
	if p.random.IntN(10) == 0 {
		return []dispatcher.Option{dispatcher.MaxAttempts(1 + p.random.IntN(3))}
	}
	return nil
}

// errand is usually short and content.
func (p *producer) errand(ref string) errand {
	e := errand{Ref: ref, Work: time.Duration(p.random.IntN(20)) * time.Millisecond}
	switch p.random.IntN(40) {
	case 0, 1, 2:
		e.Fails, e.How = 1+p.random.IntN(2), "error"
	case 3:
		e.Fails, e.How = 1, "panic"
	case 4:
		e.Fails, e.How = 1, "discard"
	case 5:
		e.Until = time.Now().Add(time.Duration(p.random.IntN(1000)) * time.Millisecond).UnixMicro()
	case 6:
		if p.DB != "sqlite" && p.random.IntN(4) == 0 { // it must be renewed
			e.Work = p.Lease + time.Duration(p.random.Int64N(int64(p.Lease)))
		}
	}
	return e
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
