//go:build linux

// Command chaos runs an application on gormjobs and breaks everything around it:
// its processes, its database server, and the network between them. At the end it
// compares the histories that the processes wrote with what is in the database,
// prints one line of JSON, and exits with 1 if a promise was broken.
//
//	go run ./internal/chaos -db postgres -for 5m -seed 1
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are those of a run.
type options struct {
	db    string
	last  time.Duration // how long things are broken
	seed  uint64
	lease time.Duration
	rate  int    // jobs enqueued a second
	weak  bool   // give durability up, to see that this is found
	keep  string // where the files go; empty: nowhere
	busy  int    // how many times slower this machine may be
}

func main() {
	if playRole() {
		return
	}
	var o options
	flag.StringVar(&o.db, "db", "sqlite", "sqlite, postgres, mysql or mariadb")
	flag.DurationVar(&o.last, "for", time.Minute, "how long things are broken")
	flag.Uint64Var(&o.seed, "seed", 0, "repeats the breaks of an earlier run; 0: a new one")
	flag.DurationVar(&o.lease, "lease", 2*time.Second, "of the workers")
	flag.IntVar(&o.rate, "rate", 600, "jobs to enqueue in a second")
	flag.BoolVar(&o.weak, "weak", false, "give up the durability of commits: jobs must then be found lost")
	flag.StringVar(&o.keep, "keep", "", "a new folder for the histories, the logs and the data, which are deleted otherwise")
	flag.IntVar(&o.busy, "busy", 1, "how many times slower this machine may drain what is left")
	flag.Parse()
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s, err := run(ctx, o, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	line, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
	if !s.Kept {
		os.Exit(1)
	}
}
