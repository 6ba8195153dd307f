package jobs_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
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

// logged is a run of a job. The table has no unique key, so a second run shows.
type logged struct {
	JobID   uint64
	Attempt int
}

func (logged) TableName() string { return "run_log" }

type tally struct {
	N int `json:"n"`
}

func (tally) JobType() string { return "tally" }

// TestWorkerProcess is no test but the worker of the tests below: they run this
// binary again with these variables set.
func TestWorkerProcess(t *testing.T) {
	dsn := os.Getenv("GORMJOBS_WORKER_DSN")
	if dsn == "" {
		return
	}
	db, err := testdb.OpenDSN(testdb.Kind(os.Getenv("GORMJOBS_WORKER_KIND")), dsn)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	reg := handlers.NewRegistry()
	handlers.Register(reg, func(ctx context.Context, _ tally) error {
		job, _ := handlers.JobFrom(ctx)
		return db.WithContext(ctx).Create(&logged{job.ID, job.Attempts}).Error
	})
	w, err := jobs.NewWorker(db, reg, jobs.Config{Queues: jobs.Queues{"default": 16}, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// startWorker starts another process that runs the jobs of db.
func startWorker(t *testing.T, db *gorm.DB) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWorkerProcess$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), "GORMJOBS_WORKER_DSN="+testdb.DSN(db), "GORMJOBS_WORKER_KIND="+string(testdb.KindOf(db)))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

func enqueueTallies(t *testing.T, db *gorm.DB, n int) {
	t.Helper()
	err := db.Transaction(func(tx *gorm.DB) error {
		_, err := dispatcher.EnqueueMany(t.Context(), tx, make([]tally, n))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitFor polls for what another process does, which sends no signal here.
func waitFor(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("after %s still not: %s", limit, what)
		}
		<-tick.C
	}
}

func finished(t *testing.T, db *gorm.DB) int64 {
	t.Helper()
	counts, err := jobs.Count(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return counts[models.Completed] + counts[models.Failed]
}

func TestFourProcessesRunEveryJobOnce(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelRepeatableRead, sql.LevelSerializable} {
		n, opts := 20_000, []testdb.Option{}
		if level != sql.LevelDefault {
			opts = append(opts, testdb.Servers, testdb.Isolation(level))
			if os.Getenv("GORMJOBS_TEST_LONG") == "" {
				n = 3_000
			}
		}
		t.Run(fmt.Sprint(level), func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				if err := db.AutoMigrate(&logged{}); err != nil {
					t.Fatal(err)
				}
				n := n
				if testdb.KindOf(db) == testdb.SQLite {
					n = many(5_000, n) // its one writer flushes for every row of the log
				}
				fill(t, db, n, models.Job{State: models.Pending})
				workers := make([]*exec.Cmd, 4)
				for i := range workers {
					workers[i] = startWorker(t, db)
				}
				waitFor(t, 8*time.Minute, "all jobs finished", func() bool { return finished(t, db) == int64(n) })
				for _, w := range workers {
					_ = w.Process.Signal(syscall.SIGTERM)
					if err := w.Wait(); err != nil {
						t.Errorf("a worker process ended with %v", err)
					}
				}
				var runs, jobsRun int64
				db.Model(&logged{}).Count(&runs)
				db.Model(&logged{}).Distinct("job_id").Count(&jobsRun)
				if runs != int64(n) || jobsRun != int64(n) {
					t.Errorf("%d runs of %d jobs; want %d of %d", runs, jobsRun, n, n)
				}
			}, opts...)
		})
	}
}
