//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"
)

var processFaults = []fault{
	{"kill", "a process runs out of memory, or its machine loses power", 11, false, (*breaker).killProcess},
	{"stop", "a process is paused for longer than a lease, and goes on with old beliefs", 4, true, (*breaker).stopProcess},
	{"term", "a deploy, in the middle of jobs", 4, true, (*breaker).termProcess},
	{"freeze a scheduler", "the scheduler that had the last tick hangs", 1, true, (*breaker).freezeScheduler},
}

// pick takes a post of one of the parts that nobody else breaks just now.
func (b *breaker) pick(r *rand.Rand, parts ...string) *post {
	for range 10 {
		part := parts[r.IntN(len(parts))]
		var of []*post
		for _, p := range b.fleet.posts {
			if p.part == part {
				of = append(of, p)
			}
		}
		if p := of[r.IntN(len(of))]; p.mu.TryLock() {
			return p
		}
	}
	return nil
}

func (b *breaker) killProcess(_ context.Context, r *rand.Rand) (target, detail string, err error) {
	p := b.pick(r, "worker", "worker", "worker", "worker", "scheduler", "producer")
	if p == nil {
		return busy, "", nil
	}
	defer p.mu.Unlock()
	q := p.process
	q.kill()
	return q.name, q.name, p.start()
}

func (b *breaker) stopProcess(ctx context.Context, r *rand.Rand) (target, detail string, err error) {
	return b.stop(ctx, r, b.lease+time.Duration(r.Int64N(int64(b.lease)*3/2)), "worker", "worker", "worker", "producer")
}

func (b *breaker) freezeScheduler(ctx context.Context, r *rand.Rand) (target, detail string, err error) {
	return b.stop(ctx, r, 5*time.Second+time.Duration(r.Int64N(int64(5*time.Second))), "scheduler")
}

func (b *breaker) stop(ctx context.Context, r *rand.Rand, d time.Duration, parts ...string) (target, detail string, err error) {
	p := b.pick(r, parts...)
	if p == nil {
		return busy, "", nil
	}
	defer p.mu.Unlock()
	p.process.signal(syscall.SIGSTOP)
	_ = sleep(ctx, d)
	p.process.signal(syscall.SIGCONT)
	return p.process.name, p.process.name + " for " + d.Round(time.Millisecond).String(), nil
}

func (b *breaker) termProcess(_ context.Context, r *rand.Rand) (target, detail string, err error) {
	p := b.pick(r, "worker", "worker", "worker", "scheduler", "producer")
	if p == nil {
		return busy, "", nil
	}
	defer p.mu.Unlock()
	q := p.process
	if !q.term() {
		b.fleet.stuck.Add(1)
	}
	return q.name, q.name, p.start()
}
