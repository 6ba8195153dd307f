//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/chaos/proxy"
)

var serverFaults = []fault{
	{"crash the server", "SIGKILL, and a recovery from its log", 4, false, (*breaker).crash},
	{"cut all connections", "a failover, or an administrator", 2, false, (*breaker).cutAll},
	{"cut in an answer", "the statement was carried out, and nobody hears of it", 2, false, (*breaker).cutAnswers},
	{"stall", "packets are lost and sent again, later", 1, false, (*breaker).stall},
	{"drop", "packets are lost without a word", 1, false, (*breaker).drop},
	{"delay", "a slow network", 1, false, (*breaker).delay},
	{"read only", "a failover that is not over", 1, false, (*breaker).readOnly},
}

var fileFaults = []fault{
	{"hold the writer", "a backup, or a long transaction of the application", 1, false, (*breaker).holdWriter},
	{"kill", "another process dies at the same time", 3, false, (*breaker).killProcess},
}

func (b *breaker) crash(ctx context.Context, r *rand.Rand) (target, detail string, err error) {
	b.server.Crash()
	down := time.Duration(r.IntN(1000)) * time.Millisecond
	_ = sleep(ctx, down)
	began := time.Now()
	// Whatever else ends, the server must be up again.
	if err := b.server.Restart(context.WithoutCancel(ctx)); err != nil {
		return "", "", err
	}
	return "", fmt.Sprintf("for %s, up %s later", down, time.Since(began).Round(time.Millisecond)), nil
}

func (b *breaker) cutAll(ctx context.Context, _ *rand.Rand) (target, detail string, err error) {
	n, err := b.server.CutAll(ctx)
	return "", fmt.Sprintf("(%d)", n), err
}

// between does something to the connections of one post, or of all.
func (b *breaker) between(ctx context.Context, r *rand.Rand, m proxy.Mode, d time.Duration) (target, detail string, err error) {
	posts, target := b.fleet.posts, ""
	if r.IntN(2) == 0 {
		p := posts[r.IntN(len(posts))]
		posts = []*post{p}
		if p.mu.TryLock() { // else it is being replaced
			target = p.process.name
			p.mu.Unlock()
		}
	}
	detail = fmt.Sprintf("for %s, of all", d)
	if len(posts) == 1 {
		detail = fmt.Sprintf("for %s, of %s %d", d, posts[0].part, posts[0].index)
	}
	for _, p := range posts {
		p.proxy.Set(m)
	}
	_ = sleep(ctx, d)
	for _, p := range posts {
		p.proxy.Set(proxy.Mode{})
	}
	return target, detail, nil
}

func (b *breaker) cutAnswers(ctx context.Context, r *rand.Rand) (target, detail string, err error) {
	return b.between(ctx, r, proxy.Mode{CutAfter: 1 + r.IntN(8000)}, time.Second)
}

func (b *breaker) stall(ctx context.Context, r *rand.Rand) (target, detail string, err error) {
	return b.between(ctx, r, proxy.Mode{Stall: true}, b.lease/2+time.Duration(r.Int64N(int64(2*b.lease))))
}

func (b *breaker) drop(ctx context.Context, r *rand.Rand) (target, detail string, err error) {
	return b.between(ctx, r, proxy.Mode{Drop: true}, b.lease/2+time.Duration(r.Int64N(int64(2*b.lease))))
}

func (b *breaker) delay(ctx context.Context, r *rand.Rand) (target, detail string, err error) {
	return b.between(ctx, r, proxy.Mode{Delay: time.Duration(5+r.IntN(50)) * time.Millisecond}, 3*time.Second)
}

func (b *breaker) readOnly(ctx context.Context, r *rand.Rand) (target, detail string, err error) {
	if err := b.server.SetReadOnly(ctx, true); err != nil {
		// It waits for open transactions on MySQL and MariaDB, and not for ever.
		return busy, "", b.server.SetReadOnly(context.WithoutCancel(ctx), false)
	}
	d := b.lease/2 + time.Duration(r.Int64N(int64(2*b.lease)))
	_ = sleep(ctx, d)
	return "", "for " + d.String(), b.server.SetReadOnly(context.WithoutCancel(ctx), false)
}

// holdWriter is a transaction that has SQLite's only write lock.
func (b *breaker) holdWriter(ctx context.Context, r *rand.Rand) (target, detail string, err error) {
	d := b.lease/2 + time.Duration(r.Int64N(int64(2*b.lease)))
	err = b.db.Transaction(func(*gorm.DB) error { return sleep(ctx, d) }) // immediate: it locks when it begins
	if ctx.Err() != nil {
		err = nil
	}
	return "", "for " + d.String(), err
}
