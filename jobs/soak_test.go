package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// soak has everything that touches the table go on at once, and knows what must
// come of it.
type soak struct {
	t  *testing.T
	db *gorm.DB

	mu        sync.Mutex
	active    map[uint64]string // the token of the claim that runs the job now
	committed map[uint64]bool   // enqueued in a transaction that committed
	done      map[uint64]bool   // completed, by what the verb returned
	claims    int
	twice     []uint64
	pruned    atomic.Int64
	reaped    atomic.Int64
	rollbacks atomic.Int64
}

type soaked struct {
	N int `json:"n"`
}

func (soaked) JobType() string { return "soaked" }

func TestSoakLosesNothingAndRunsNothingTwice(t *testing.T) {
	d := 15 * time.Second
	if os.Getenv("GORMJOBS_TEST_LONG") != "" {
		d = 2 * time.Minute
	}
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		s := &soak{t: t, db: db, active: map[uint64]string{}, committed: map[uint64]bool{}, done: map[uint64]bool{}}
		if err := db.AutoMigrate(&logged{}); err != nil {
			t.Fatal(err)
		}
		before := testdb.Deadlocks(t, db)
		callers, stopCallers := context.WithTimeout(t.Context(), d)
		defer stopCallers()
		rest, stopRest := context.WithCancel(t.Context())
		defer stopRest()
		var callersDone, restDone sync.WaitGroup
		for range 6 {
			callersDone.Go(func() { s.loop(callers, s.enqueue) })
		}
		claimer := s.claimer()
		for range 12 {
			restDone.Go(func() { s.loop(rest, func(ctx context.Context) error { return s.claim(ctx, claimer) }) })
		}
		for range 4 { // with renewed leases and batched outcomes
			restDone.Go(func() { s.work(rest) })
		}
		restDone.Go(func() { s.loop(rest, s.upkeep) })
		callersDone.Wait()
		ended := time.Now() // one that was abandoned as its fifth attempt waits 80 s for the next
		for missing := s.missing(); len(missing) > 0 && !t.Failed(); missing = s.missing() {
			if time.Since(ended) > 3*time.Minute {
				t.Fatalf("after three minutes %d committed jobs have not completed, such as %+v", len(missing), get(t, db, missing[0]))
			}
			pause(20 * time.Millisecond)
		}
		stopRest()
		restDone.Wait()
		s.report(testdb.Deadlocks(t, db) - before)
	}, testdb.Alone, testdb.Pool(60))
}

// loop runs f until ctx ends. Every error is a failure: those that pass by
// themselves are retried below the public functions.
func (s *soak) loop(ctx context.Context, f func(context.Context) error) {
	for ctx.Err() == nil && !s.t.Failed() {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			s.t.Error(err)
			return
		}
	}
}

var errRollback = errors.New("the caller rolls back")

// enqueue is a transaction of the application: 1 to 20 jobs, up to 800 ms, one in
// ten rolled back.
func (s *soak) enqueue(ctx context.Context) error {
	var ids []uint64
	// Not cut short at the end: whether it committed must be known.
	ctx = context.WithoutCancel(ctx)
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if rand.N(10) == 0 {
			r, err := dispatcher.Enqueue(ctx, tx, soaked{}, dispatcher.Unique(fmt.Sprint(rand.N(20_000))))
			if err != nil {
				return err
			}
			if !r.Duplicate {
				ids = append(ids, r.ID)
			}
		}
		opts := []dispatcher.Option{dispatcher.Priority(rand.N(3))}
		if rand.N(10) == 0 {
			opts = append(opts, dispatcher.Delay(rand.N(time.Second)))
		}
		rs, err := dispatcher.EnqueueMany(ctx, tx, make([]soaked, 1+rand.N(20)), opts...)
		if err != nil {
			return err
		}
		for _, r := range rs {
			ids = append(ids, r.ID)
		}
		pause(rand.N([]time.Duration{time.Millisecond, 20 * time.Millisecond, 800 * time.Millisecond}[rand.N(3)]))
		if rand.N(10) == 0 {
			s.rollbacks.Add(1)
			return errRollback
		}
		return nil
	})
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, id := range ids {
			s.committed[id] = true
		}
	}
	if errors.Is(err, errRollback) {
		return nil
	}
	return err
}

// pause is the work that a transaction or a handler does: part of the load.
func pause(d time.Duration) { <-time.After(d) }

func (s *soak) claimer() *jobs.Claimer {
	c, err := jobs.NewClaimer(s.db, jobs.ClaimerConfig{Lease: 5 * time.Second})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *soak) claim(ctx context.Context, c *jobs.Claimer) error {
	claimed, err := c.Claim(ctx, 10)
	if err != nil {
		return err
	}
	if len(claimed) == 0 {
		pause(5 * time.Millisecond)
	}
	for i := range claimed {
		s.begin(&claimed[i])
	}
	for i := range claimed {
		job := &claimed[i]
		if rand.N(3) == 0 {
			pause(rand.N(2 * time.Millisecond))
		}
		s.end(job)
		switch n := rand.N(100); {
		case n < 2: // abandoned, as by a crash, and its lease over
			err = s.db.Model(&models.Job{}).Where("id = ? AND reserved_by = ?", job.ID, job.ReservedBy).Update("reserved_until", 1).Error
		case n < 7:
			err = jobs.Retry(ctx, s.db, job, errors.New("soak"), rand.N(50*time.Millisecond))
		case n < 9:
			err = jobs.Release(ctx, s.db, job, 0)
		default:
			if err = jobs.Complete(context.WithoutCancel(ctx), s.db, job); err == nil {
				s.completed(job.ID)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// work is a Worker on the same queue. Its handlers' success is completed only
// when it is recorded, so the job's state is looked at when nothing else is left.
func (s *soak) work(ctx context.Context) {
	reg := handlers.NewRegistry()
	handlers.RegisterTx(reg, func(ctx context.Context, tx *gorm.DB, _ soaked) error {
		job, _ := handlers.JobFrom(ctx)
		s.begin(job)
		defer s.end(job)
		if rand.N(20) == 0 {
			return errors.New("soak")
		}
		pause(rand.N(5 * time.Millisecond))
		return tx.Create(&logged{job.ID, job.Attempts}).Error
	}, handlers.Backoff(func(int) time.Duration { return rand.N(50 * time.Millisecond) }))
	w, err := jobs.NewWorker(testdb.Again(s.t, s.db), reg, jobs.Config{Queues: jobs.Queues{"default": 4}, Lease: 5 * time.Second, Logger: quiet()})
	if err == nil {
		err = w.Run(ctx)
	}
	if err != nil {
		s.t.Error(err)
	}
}

func (s *soak) upkeep(ctx context.Context) error {
	n, err := jobs.Prune(ctx, s.db, jobs.PruneOptions{Completed: time.Millisecond, Batch: 50, Pause: time.Millisecond})
	s.pruned.Add(int64(n))
	if err != nil {
		return err
	}
	r, err := jobs.Reap(ctx, s.db)
	s.reaped.Add(int64(r.Returned))
	if err != nil {
		return err
	}
	if _, err := jobs.Promote(ctx, s.db); err != nil {
		return err
	}
	_, err = jobs.Backlog(ctx, s.db, 100)
	pause(10 * time.Millisecond)
	return err
}

func (s *soak) begin(job *models.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims++
	if _, ok := s.active[job.ID]; ok {
		s.twice = append(s.twice, job.ID)
	}
	s.active[job.ID] = job.ReservedBy
}

func (s *soak) end(job *models.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, job.ID)
}

func (s *soak) completed(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[id] = true
}

// missing are the committed jobs that nobody has completed. What the workers
// completed is in the log that they wrote in the same transactions.
func (s *soak) missing() []uint64 {
	var ids []uint64
	if err := s.db.Model(&logged{}).Pluck("job_id", &ids).Error; err != nil {
		s.t.Error(err)
	}
	s.mu.Lock() // not during the query: a handler may have SQLite's only writer and wait for the lock
	defer s.mu.Unlock()
	for _, id := range ids {
		s.done[id] = true
	}
	var missing []uint64
	for id := range s.committed {
		if !s.done[id] {
			missing = append(missing, id)
		}
	}
	return missing
}

func (s *soak) report(deadlocks int64) {
	var twiceLogged int64
	s.db.Table("(?) AS l", s.db.Model(&logged{}).Select("job_id").Group("job_id").Having("count(*) > 1")).Count(&twiceLogged)
	s.t.Logf("%d enqueued, %d rollbacks, %d claims, %d reaped, %d pruned", len(s.committed), s.rollbacks.Load(), s.claims, s.reaped.Load(), s.pruned.Load())
	if missing := s.missing(); len(missing) > 0 {
		s.t.Errorf("%d committed jobs never completed, such as %d", len(missing), missing[0])
	}
	for id := range s.done {
		if !s.committed[id] {
			s.t.Errorf("job %d ran though its transaction rolled back", id)
			break
		}
	}
	if len(s.twice) > 0 || twiceLogged > 0 {
		s.t.Errorf("%d jobs were claimed while they ran, %d completed twice", len(s.twice), twiceLogged)
	}
	if deadlocks != 0 {
		s.t.Errorf("the server counted %d deadlocks; want none; the last:\n%s", deadlocks, lastDeadlock(s.db))
	}
}

// lastDeadlock is what InnoDB tells of it.
func lastDeadlock(db *gorm.DB) string {
	var typ, name, status string
	if err := db.Raw("SHOW ENGINE INNODB STATUS").Row().Scan(&typ, &name, &status); err != nil {
		return err.Error()
	}
	_, status, _ = strings.Cut(status, "LATEST DETECTED DEADLOCK")
	status, _, _ = strings.Cut(status, "\nTRANSACTIONS\n")
	return status
}
