//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/chaos/history"
	"github.com/gormjobs/gormjobs/internal/chaos/server"
)

// breaker breaks things, in an order that its seed decides: processes in one
// stream, and what lies between them and the data in another.
type breaker struct {
	options
	fleet  *fleet
	server *server.Server // nil: SQLite
	db     *gorm.DB       // the administrator's
	log    *history.Log
	out    io.Writer
	began  time.Time

	mu     sync.Mutex
	counts map[string]int
	err    error // of the chaos itself
}

// fault is something that can be broken. do breaks it, waits, and mends it.
type fault struct {
	what, why string
	weight    int
	aside     bool // it takes long: the stream goes on meanwhile
	do        func(b *breaker, ctx context.Context, r *rand.Rand) (target, detail string, err error)
}

// run breaks things until ctx ends. Everything is whole again when it returns.
func (b *breaker) run(ctx context.Context) error {
	var wg sync.WaitGroup
	second := serverFaults
	if b.server == nil {
		second = fileFaults
	}
	// A short run shows as much as it can; in a long one work gets done in between.
	wg.Go(func() { b.stream(ctx, processFaults, 1, min(2*time.Second, b.last/8)) })
	wg.Go(func() { b.stream(ctx, second, 2, min(4*time.Second, b.last/6)) })
	wg.Wait()
	return b.err
}

// stream goes through a bag of faults again and again, in a new order each time.
// The first of all is the first that is listed, so that no run is without it.
func (b *breaker) stream(ctx context.Context, faults []fault, number uint64, pause time.Duration) {
	r := rand.New(rand.NewPCG(b.seed, number))
	var bag []int
	for i, f := range faults {
		for range f.weight {
			bag = append(bag, i)
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for first := true; ; first = false {
		r.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		if i := slices.Index(bag, 0); first {
			bag[0], bag[i] = bag[i], bag[0]
		}
		for _, i := range bag {
			if sleep(ctx, pause/2+time.Duration(r.Int64N(int64(pause)))) != nil {
				return
			}
			f := faults[i]
			// A random source of its own, so that how long this one takes does not
			// change what comes next.
			own := rand.New(rand.NewPCG(r.Uint64(), 0))
			if f.aside {
				wg.Go(func() { b.apply(ctx, f, own) })
			} else {
				b.apply(ctx, f, own)
			}
		}
	}
}

// apply breaks one thing and writes that down.
func (b *breaker) apply(ctx context.Context, f fault, r *rand.Rand) {
	at := time.Now()
	target, detail, err := f.do(b, ctx, r)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		if b.err == nil && ctx.Err() == nil {
			b.err = fmt.Errorf("%s: %w", f.what, err)
		}
		return
	}
	if target == busy {
		return
	}
	b.counts[f.what]++
	fmt.Fprintf(b.out, "%7.2fs  %s %s (%s)\n", at.Sub(b.began).Seconds(), f.what, detail, f.why)
	b.log.Write(history.Event{Kind: history.Break, At: at.UnixMicro(), Until: time.Now().UnixMicro(), What: f.what, Ref: target})
}

// busy is the target of a fault that found it broken already, or too busy.
const busy = "-"
