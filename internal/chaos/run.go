//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// run sets the stage, breaks things, and checks what came of it.
func run(ctx context.Context, o options, out io.Writer) (s summary, err error) {
	st, err := setStage(ctx, o, out)
	if err != nil {
		return s, err
	}
	defer st.close()
	fmt.Fprintf(out, "chaos on %s for %s, seed %d: %s\n", o.db, o.last, o.seed, st.version)
	began := time.Now()
	for _, p := range st.fleet.posts {
		if err := p.start(); err != nil {
			return s, err
		}
	}
	b := &breaker{options: o, fleet: st.fleet, server: st.server, db: st.db, log: st.log, out: out, began: began, counts: map[string]int{}}
	breaking, stop := context.WithTimeout(ctx, o.last)
	defer stop()
	if err := b.run(breaking); err != nil {
		return s, err
	}
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	s.drainage = st.drain(ctx)
	fmt.Fprintf(out, "%7.2fs  all is whole again; drained after %s of %s\n", time.Since(began).Seconds(), s.drained, s.drainLimit)
	for _, part := range []string{"scheduler", "worker"} {
		st.fleet.end(part)
		if part == "scheduler" {
			st.awaitNone(ctx, "state NOT IN ('completed','failed')", time.Now().Add(30*time.Second))
		}
	}
	// The times of events and of the diary are compared: the clock must not have
	// been set.
	if step := time.Since(began) - time.Now().Round(0).Sub(began.Round(0)); step.Abs() > 20*time.Millisecond {
		return s, fmt.Errorf("the machine's clock was set by %s during the run: run it again", -step)
	}
	return s, st.check(&s, b)
}
