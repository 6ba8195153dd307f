//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/chaos/history"
)

// enqueue puts a batch of one type, and sometimes one more, in a savepoint that is
// rolled back.
func (p *producer) enqueue(ctx context.Context, tx *gorm.DB, key string) ([]history.Put, error) {
	if p.random.IntN(10) == 0 {
		if err := p.undone(ctx, tx, key); err != nil {
			return nil, err
		}
	}
	list := make([]errand, 1+p.random.IntN(2*perTx-1))
	for i := range list {
		list[i] = p.errand(fmt.Sprintf("%s.%d", key, i))
	}
	delay, opts := p.options()
	receipts, err := p.many(ctx, tx, list, opts)
	puts := make([]history.Put, len(receipts))
	for i, r := range receipts {
		puts[i] = history.Put{Ref: list[i].Ref, ID: r.ID, Dup: r.Duplicate, Key: list[i].Key, Delay: delay.Microseconds()}
	}
	return puts, err
}

var errUndone = errors.New("undone")

func (p *producer) undone(ctx context.Context, tx *gorm.DB, key string) error {
	err := tx.Transaction(func(tx *gorm.DB) error {
		if _, err := dispatcher.Enqueue(ctx, tx, plain{errand{Ref: key + ".undone"}}); err != nil {
			return err
		}
		return errUndone
	})
	if errors.Is(err, errUndone) {
		return nil
	}
	return err
}

func (p *producer) many(ctx context.Context, tx *gorm.DB, list []errand, opts []dispatcher.Option) ([]dispatcher.Receipt, error) {
	switch kind := p.random.IntN(20); {
	case kind < 4:
		if p.DB == "sqlite" { // they hold the only writer
			for i := range list {
				list[i].Work /= 10
			}
		}
		return dispatcher.EnqueueMany(ctx, tx, as(list, func(e errand) book { return book{e} }), opts...)
	case kind < 5:
		for i := range list {
			list[i].Key = fmt.Sprint("key-", p.random.IntN(60))
		}
		return dispatcher.EnqueueMany(ctx, tx, as(list, func(e errand) unique { return unique{e} }), opts...)
	}
	return dispatcher.EnqueueMany(ctx, tx, as(list, func(e errand) plain { return plain{e} }), opts...)
}

func as[T any](list []errand, to func(errand) T) []T {
	all := make([]T, len(list))
	for i, e := range list {
		all[i] = to(e)
	}
	return all
}

// options of a batch: some wait, some go to the other queue, and a few have so few
// attempts that they are used up.
func (p *producer) options() (delay time.Duration, opts []dispatcher.Option) {
	if p.random.IntN(6) == 0 {
		delay = time.Duration(p.random.IntN(2000)) * time.Millisecond
		opts = append(opts, dispatcher.Delay(delay))
	}
	if p.random.IntN(4) == 0 {
		opts = append(opts, dispatcher.Queue("slow"))
	}
	if p.random.IntN(10) == 0 {
		opts = append(opts, dispatcher.MaxAttempts(1+p.random.IntN(3)))
	}
	return delay, opts
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
