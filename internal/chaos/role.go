//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/chaos/history"
	"github.com/gormjobs/gormjobs/internal/testdb"
)

// role is what a process of the application is told, in its environment: this
// program runs itself again.
type role struct {
	Part  string // worker, scheduler, producer
	Name  string // of this process, as in its history
	DB    string
	DSN   string
	Dir   string
	Seed  uint64
	Lease time.Duration
	Rate  int
}

const roleVariable = "GORMJOBS_CHAOS_ROLE"

func (r role) environment() string {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return roleVariable + "=" + string(b)
}

// playRole plays the process's part, if it has one, until SIGTERM.
func playRole() bool {
	v, ok := os.LookupEnv(roleVariable)
	if !ok {
		return false
	}
	var r role
	if err := json.Unmarshal([]byte(v), &r); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := r.play(ctx); err != nil {
		fmt.Fprintln(os.Stderr, r.Name+":", err)
		os.Exit(1)
	}
	return true
}

func (r role) play(ctx context.Context) error {
	log, err := history.Create(r.Dir, r.Name)
	if err != nil {
		return err
	}
	defer log.Close()
	db, err := r.open(ctx)
	if err != nil {
		return nil // asked to stop before the database could be reached
	}
	switch r.Part {
	case "worker":
		return r.work(ctx, db, log)
	case "scheduler":
		return r.schedule(ctx, db)
	case "producer":
		return r.produce(ctx, db, log)
	}
	return fmt.Errorf("there is no part %q", r.Part)
}

// open waits for the database: a process may be started while it is broken.
func (r role) open(ctx context.Context) (*gorm.DB, error) {
	for {
		db, err := testdb.OpenDSN(testdb.Kind(r.DB), r.DSN)
		if err == nil {
			return db, nil
		}
		slog.Warn("open the database", "error", err)
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// again calls run until it ends as it should. Workers and schedulers look at the
// tables when they start, and say so if the database cannot be reached: what runs
// an application starts it again.
func again(ctx context.Context, run func() error) error {
	for {
		err := run()
		if err == nil || ctx.Err() != nil {
			return err
		}
		slog.Warn("run", "error", err)
		if sleep(ctx, 200*time.Millisecond) != nil {
			return nil
		}
	}
}

func (r role) random() *rand.Rand {
	h := r.Seed
	for _, c := range r.Name {
		h = h*31 + uint64(c)
	}
	return rand.New(rand.NewPCG(h, r.Seed))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
