//go:build unix

package scheduler_test

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
)

// The environment of a process that runs nothing but a scheduler.
const envKind, envDSN = "GORMJOBS_TEST_SCHEDULER_KIND", "GORMJOBS_TEST_SCHEDULER_DSN"

func TestProcessOfAScheduler(t *testing.T) {
	kind := testdb.Kind(os.Getenv(envKind))
	if kind == "" {
		return // it is no test
	}
	db, err := testdb.OpenDSN(kind, os.Getenv(envDSN))
	if err != nil {
		t.Fatal(err)
	}
	defer poolOf(t, db).Close()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if err := newScheduler(t, db, cronOnly(), entryIn("beat", "beat", "@every 1s")).Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// startProcess returns what sends it a signal.
func startProcess(t *testing.T, db *gorm.DB) (send func(os.Signal)) {
	t.Helper()
	p := exec.Command(os.Args[0], "-test.run=^TestProcessOfAScheduler$")
	p.Env = append(os.Environ(), envKind+"="+string(testdb.KindOf(db)), envDSN+"="+testdb.DSN(db))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	return func(s os.Signal) {
		t.Helper()
		if err := p.Process.Signal(s); err != nil {
			t.Error(err)
		}
	}
}

// stopped is less than the grace: should a process be stopped in its transaction,
// the others wait for it, and then catch up.
const stopped = 20 * time.Second

func TestStoppedProcessesLoseAndDoubleNoTick(t *testing.T) {
	testdb.Long(t)
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var send []func(os.Signal)
		for range 3 {
			send = append(send, startProcess(t, db))
		}
		caughtUp := func() {
			t.Helper()
			now := clock(t, db)
			until(t, "there are jobs up to now", func() bool {
				got := tickedFor(t, db, "beat")
				return len(got) > 0 && got[len(got)-1].After(now)
			})
		}
		caughtUp()
		// Two of them, one after the other, so that the active one is among them or
		// has to take over.
		for _, signal := range send[:2] {
			signal(syscall.SIGSTOP)
			<-time.After(stopped / 2)
		}
		send[0](syscall.SIGCONT)
		send[1](syscall.SIGCONT)
		caughtUp()
		got := tickedFor(t, db, "beat")
		for i := range len(got) - 1 {
			if got[i+1].Sub(got[i]) != time.Second {
				t.Fatalf("jobs for the ticks %v; want one for each second", got)
			}
		}
	}, testdb.Parallel)
}
