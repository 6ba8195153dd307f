package jobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// crashing is a job of a worker process that comes to harm.
type crashing struct {
	Gated bool `json:"gated"` // each attempt goes on until its gate is open, whatever its context says
}

func (crashing) JobType() string { return "crashing" }

// crashStep is what a worker process says of itself.
type crashStep struct {
	ID      uint64
	JobID   uint64
	Attempt int
	Step    string // started, returned
}

// crashGate opens the gate of an attempt.
type crashGate struct {
	Attempt int `gorm:"primaryKey;autoIncrement:false"`
}

// crashConfig is a worker process's.
type crashConfig struct {
	DSN        string
	Kind       testdb.Kind
	Name       string
	Lease      time.Duration
	DieClaimed bool // as soon as a claim has committed
}

// TestCrashProcess is no test but the worker process of those below.
func TestCrashProcess(t *testing.T) {
	var c crashConfig
	if text := os.Getenv("GORMJOBS_CRASH"); text == "" {
		return
	} else if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	db, err := testdb.OpenDSN(c.Kind, c.DSN)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	own := db.Session(&gorm.Session{NewDB: true})
	if c.DieClaimed {
		dying, err := hooks{committed: func(string) bool {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}}.pool(pool, c.DSN)
		if err != nil {
			t.Fatal(err)
		}
		own.Statement.ConnPool = dying
	}
	reg := handlers.NewRegistry()
	handlers.Register(reg, func(ctx context.Context, p crashing) error {
		job, _ := handlers.JobFrom(ctx)
		say := func(step string) error {
			return db.Create(&crashStep{JobID: job.ID, Attempt: job.Attempts, Step: step}).Error
		}
		if err := say("started"); err != nil {
			return err
		}
		look := time.NewTicker(20 * time.Millisecond)
		defer look.Stop()
		for n := int64(0); p.Gated && n == 0; {
			<-look.C
			if err := db.Model(&crashGate{}).Where("attempt = ?", job.Attempts).Count(&n).Error; err != nil {
				return err
			}
		}
		return say("returned")
	})
	w, err := jobs.NewWorker(own, reg, jobs.Config{Name: c.Name, Lease: c.Lease, Logger: slog.New(slog.NewTextHandler(os.Stdout, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// crasher is a worker process.
type crasher struct {
	*exec.Cmd
	mu   sync.Mutex
	said bytes.Buffer
}

// Write takes what the process prints.
func (p *crasher) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *crasher) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func startCrasher(t *testing.T, db *gorm.DB, c crashConfig) *crasher {
	t.Helper()
	c.DSN, c.Kind = testdb.DSN(db), testdb.KindOf(db)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &crasher{Cmd: exec.Command(os.Args[0], "-test.run=^TestCrashProcess$", "-test.timeout=5m")}
	p.Env = append(os.Environ(), "GORMJOBS_CRASH="+string(text))
	p.Stdout, p.Stderr = p, p
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		if t.Failed() {
			t.Logf("worker process %d said:\n%s", p.Process.Pid, p.log())
		}
	})
	return p
}

func (p *crasher) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// freeze stops the process for a while, not in the middle of a transaction: what
// that has locked would be locked for as long.
func (p *crasher) freeze(t *testing.T, db *gorm.DB) {
	t.Helper()
	for range 50 {
		p.signal(t, syscall.SIGSTOP)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := db.WithContext(ctx).Exec("UPDATE queue_jobs SET last_error = last_error WHERE state = 'processing'").Error
		cancel()
		if err == nil {
			return
		}
		p.signal(t, syscall.SIGCONT)
	}
	t.Fatal("the process could not be stopped outside of a transaction")
}

func crashTables(t *testing.T, db *gorm.DB) {
	t.Helper()
	if err := db.AutoMigrate(&crashStep{}, &crashGate{}); err != nil {
		t.Fatal(err)
	}
}

func openGate(t *testing.T, db *gorm.DB, attempt int) {
	t.Helper()
	if err := db.Create(&crashGate{attempt}).Error; err != nil {
		t.Fatal(err)
	}
}

func enqueueCrashing(t *testing.T, db *gorm.DB, n int) (ids []uint64) {
	t.Helper()
	err := db.Transaction(func(tx *gorm.DB) error {
		payloads := make([]crashing, n)
		for i := range payloads {
			payloads[i].Gated = true
		}
		receipts, err := dispatcher.EnqueueMany(t.Context(), tx, payloads)
		for _, r := range receipts {
			ids = append(ids, r.ID)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// steps counts those of an attempt.
func crashSteps(t *testing.T, db *gorm.DB, attempt int, step string) int {
	t.Helper()
	var n int64
	if err := db.Model(&crashStep{}).Where("attempt = ? AND step = ?", attempt, step).Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	return int(n)
}

func waitForSteps(t *testing.T, db *gorm.DB, attempt int, step string, want int) {
	t.Helper()
	waitFor(t, 30*time.Second, fmt.Sprintf("%d jobs have %s their attempt %d", want, step, attempt), func() bool {
		return crashSteps(t, db, attempt, step) == want
	})
}

// reapUntil reaps, as the scheduler would, until so many jobs came back.
func reapUntil(t *testing.T, db *gorm.DB, want int) {
	t.Helper()
	var total jobs.Reaped
	waitFor(t, 20*time.Second, fmt.Sprintf("%d jobs were reaped", want), func() bool {
		r, err := jobs.Reap(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		total.Returned += r.Returned
		total.Failed += r.Failed
		return total.Returned+total.Failed >= want
	})
	if total.Returned != want || total.Failed != 0 {
		t.Fatalf("reaped %+v; want %d returned", total, want)
	}
}

// wantSecondRun fails the test unless the second attempt of all jobs stands, and
// the first is a failure whose worker fell silent.
func wantSecondRun(t *testing.T, db *gorm.DB, ids []uint64) {
	t.Helper()
	for _, id := range ids {
		wantState(t, db, id, models.Completed, 2)
		j := get(t, db, id)
		if len(j.Failures) != 1 || j.Failures[0].Attempt != 1 || j.Failures[0].Worker != "twin" || j.Failures[0].StartedAt == 0 {
			t.Errorf("job %d has the failures %+v; want that of attempt 1, by the worker that died", id, j.Failures)
		}
	}
	for step, want := range map[string]int{"started": len(ids), "returned": len(ids)} {
		if n := crashSteps(t, db, 2, step); n != want {
			t.Errorf("%d second attempts %s; want %d", n, step, want)
		}
	}
	if n := crashSteps(t, db, 3, "started"); n > 0 {
		t.Errorf("%d third attempts; want none", n)
	}
}

const crashLease = time.Second

// The new process has the name of the old one, as with a fixed host name and pid
// in a container.
func TestJobsOfAKilledProcessRunAgainAfterTheirLease(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		crashTables(t, db)
		ids := enqueueCrashing(t, db, 10)
		c := crashConfig{Name: "twin", Lease: crashLease}
		first := startCrasher(t, db, c)
		waitForSteps(t, db, 1, "started", 10)
		first.signal(t, syscall.SIGKILL)
		_ = first.Wait()
		killed := time.Now()
		openGate(t, db, 2)
		startCrasher(t, db, c)
		reapUntil(t, db, 10)
		if took := time.Since(killed); took > crashLease+5*time.Second {
			t.Errorf("they came back after %s; want a lease of %s and one reap", took, crashLease)
		}
		waitFor(t, 20*time.Second, "all are finished", func() bool { return finished(t, db) == 10 })
		wantSecondRun(t, db, ids)
		if n := crashSteps(t, db, 1, "returned"); n > 0 {
			t.Errorf("%d first attempts returned after the kill", n)
		}
	})
}

// The run of the process that stood still is over; that of its twin, which holds
// the job when the first one wakes and says "completed", stands.
func TestProcessThatStoodStillChangesNothingAfterItsLease(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		crashTables(t, db)
		ids := enqueueCrashing(t, db, 3)
		c := crashConfig{Name: "twin", Lease: crashLease}
		first := startCrasher(t, db, c)
		waitForSteps(t, db, 1, "started", 3)
		first.freeze(t, db)
		reapUntil(t, db, 3)
		startCrasher(t, db, c)
		waitForSteps(t, db, 2, "started", 3)
		before := make([]*models.Job, len(ids))
		for i, id := range ids {
			before[i] = get(t, db, id)
		}
		first.signal(t, syscall.SIGCONT)
		openGate(t, db, 1)
		waitForSteps(t, db, 1, "returned", 3)
		waitFor(t, 20*time.Second, "the first process says that its outcomes were dropped", func() bool {
			return bytes.Count([]byte(first.log()), []byte("outcome of a run was dropped")) == 3
		})
		for i, id := range ids {
			if j := get(t, db, id); j.State != models.Processing || j.Attempts != 2 || j.ReservedBy != before[i].ReservedBy || len(j.Failures) != 1 {
				t.Errorf("the first process made %+v of %+v", j, before[i])
			}
		}
		openGate(t, db, 2)
		waitFor(t, 20*time.Second, "all are finished", func() bool { return finished(t, db) == 3 })
		wantSecondRun(t, db, ids)
	})
}

func TestProcessThatDiesBetweenClaimAndStartLosesNothing(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		crashTables(t, db)
		ids := enqueueCrashing(t, db, 5)
		first := startCrasher(t, db, crashConfig{Name: "twin", Lease: crashLease, DieClaimed: true})
		if err := first.Wait(); err == nil {
			t.Fatal("the process ended well; want it killed by its claim")
		}
		for _, id := range ids {
			wantState(t, db, id, models.Processing, 1)
		}
		if n := crashSteps(t, db, 1, "started"); n > 0 {
			t.Fatalf("%d handlers started before the death; want none", n)
		}
		reapUntil(t, db, 5)
		openGate(t, db, 2)
		startCrasher(t, db, crashConfig{Name: "twin", Lease: crashLease})
		waitFor(t, 20*time.Second, "all are finished", func() bool { return finished(t, db) == 5 })
		wantSecondRun(t, db, ids)
	})
}

// Two workers of different types; one is killed in a job, and the reaper runs
// beside the other, which has no handler for it.
func TestJobOfAKilledWorkerIsNotFailedWhereItsTypeIsUnknown(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		crashTables(t, db)
		ids := enqueueCrashing(t, db, 1)
		first := startCrasher(t, db, crashConfig{Name: "twin", Lease: crashLease})
		waitForSteps(t, db, 1, "started", 1)
		first.signal(t, syscall.SIGKILL)
		_ = first.Wait()
		other := newWorker(t, db, onPing(func(context.Context, ping) error { return nil }), jobs.Config{})
		stop := start(t, other)
		reapUntil(t, db, 1)
		waitFor(t, 20*time.Second, "the other has put it back", func() bool { return other.Stats().Released == 1 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		wantState(t, db, ids[0], models.Scheduled, 1)
		change(t, db, ids[0], map[string]any{"due_at": 1}) // the minute is over
		openGate(t, db, 2)
		startCrasher(t, db, crashConfig{Name: "twin", Lease: crashLease})
		waitFor(t, 20*time.Second, "it is finished", func() bool { return finished(t, db) == 1 })
		wantSecondRun(t, db, ids)
	})
}

// Fifty handlers and the worker share two connections, for three leases.
func TestBusyPoolOfTwoLosesNoLease(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		const lease = 2 * time.Second
		ctx, enough := context.WithTimeout(t.Context(), 3*lease)
		defer enough()
		reg := onPing(func(context.Context, ping) error {
			for ctx.Err() == nil {
				if err := db.Exec("SELECT 1").Error; err != nil {
					return err
				}
			}
			return nil
		})
		ids := enqueuePings(t, db, 50)
		w := newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": 50}, Lease: lease})
		stop := start(t, w)
		reaper := testdb.Again(t, db)
		waitFor(t, 60*time.Second, "all are completed", func() bool {
			if r, err := jobs.Reap(t.Context(), reaper); err != nil || r != (jobs.Reaped{}) {
				t.Fatalf("Reap = %+v, %v; want no live job reaped", r, err)
			}
			return w.Stats().Completed == 50
		})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			wantState(t, db, id, models.Completed, 1)
		}
	}, testdb.Pool(2), testdb.Parallel)
}
