//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gormjobs/gormjobs/internal/chaos/server"
)

// seed repeats a run.
var seed = flag.Uint64("seed", 0, "of the chaos; 0: a new one each time")

// TestMain is the main of the application's processes too: they run this binary
// again, with a part in their environment.
func TestMain(m *testing.M) {
	if playRole() {
		return
	}
	// It starts the processes, and keeps its thread for them.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/gormjobs/gormjobs/internal/chaos/child.serve"))
}

// required reads GORMJOBS_TEST_REQUIRE, as package testdb does.
func required(db string) bool {
	return slices.ContainsFunc(strings.Split(os.Getenv("GORMJOBS_TEST_REQUIRE"), ","), func(r string) bool {
		return strings.TrimSpace(r) == "all" || strings.TrimSpace(r) == db
	})
}

// The short form: what is broken is broken for 10 s on each database. The long
// one is the command.
func TestPromisesAreKeptWhileEverythingBreaks(t *testing.T) {
	for _, db := range []string{"sqlite", "postgres", "mysql", "mariadb"} {
		t.Run(db, func(t *testing.T) {
			// Not t.TempDir, which the server's user cannot reach.
			dir, err := os.MkdirTemp("", "gormjobs-chaos-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Log("the histories are in", dir)
				} else {
					os.RemoveAll(dir)
				}
			})
			// Other packages are tested at the same time, and all with -race.
			o := options{db: db, last: 10 * time.Second, lease: 2 * time.Second, rate: 300, seed: *seed, keep: dir, busy: 4}
			if o.seed == 0 {
				o.seed = rand.Uint64N(1_000_000) + 1
			}
			s, err := run(t.Context(), o, t.Output())
			if errors.Is(err, server.ErrMissing) && !required(db) {
				t.Skipf("SKIPPED: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			line, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s", line)
			if !s.Kept {
				t.Errorf("a promise was broken: go test ./internal/chaos -run '/%s' -args -seed %d", db, s.Seed)
			}
			if s.Jobs < 200 || s.Runs < 200 || s.EffectsOnce == 0 || s.CronJobs == 0 || breaks(s) < 4 {
				t.Errorf("this proves little: %s", line)
			}
		})
	}
}

func breaks(s summary) (n int) {
	for _, m := range s.Breaks {
		n += m
	}
	return n
}

// One seed, one order of breaks: how long each takes changes nothing of what comes
// after it.
func TestSeedRepeatsTheBreaks(t *testing.T) {
	order := func(slow time.Duration) []string {
		var got []string
		var faults []fault
		for i := range 5 {
			faults = append(faults, fault{what: fmt.Sprint(i), weight: 2, do: noted(&got, slow, i)})
		}
		b := &breaker{options: options{seed: 3}, counts: map[string]int{}}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		b.stream(ctx, faults, 1, 2*time.Millisecond)
		return got
	}
	fast, slow := order(0), order(3*time.Millisecond)
	n := min(len(fast), len(slow), 20)
	if n < 5 || !slices.Equal(fast[:n], slow[:n]) {
		t.Errorf("the breaks were %v, and then %v", fast[:n], slow[:n])
	}
}

func noted(got *[]string, slow time.Duration, i int) func(*breaker, context.Context, *rand.Rand) (string, string, error) {
	return func(_ *breaker, ctx context.Context, r *rand.Rand) (string, string, error) {
		*got = append(*got, fmt.Sprint(i, r.IntN(1000)))
		return busy, "", sleep(ctx, slow)
	}
}
