package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// Worker takes jobs of its queues and runs them. Make one with [NewWorker].
type Worker struct {
	db       *gorm.DB
	registry *handlers.Registry
	config   Config
	loops    []*queueLoop
	holds    holds
	recorder *recorder
	counters counters
	unknown  sync.Map // job types without a handler that were logged
	running  atomic.Bool
	calls    sync.WaitGroup // of OnFailed
	rested   chan struct{}  // a queue begins to wait for jobs
}

// NewWorker returns a worker on db, which must be the handle that the application
// opened, not a transaction. It sends no SQL.
func NewWorker(db *gorm.DB, r *handlers.Registry, c Config) (*Worker, error) {
	if err := session.Root(db, "NewWorker"); err != nil {
		return nil, err
	}
	if r == nil {
		return nil, errors.New("NewWorker: the registry is nil")
	}
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("NewWorker: %w", err)
	}
	if _, err := session.In(context.Background(), db); err != nil {
		return nil, err
	}
	w := &Worker{db: db, registry: r, config: c, rested: make(chan struct{}, 1)}
	w.recorder = newRecorder(w)
	claims := newClaims() // one sequence, so that a token is unique in the worker
	for _, queue := range slices.Sorted(maps.Keys(c.Queues)) {
		claimer := &Claimer{db: db, config: ClaimerConfig{Queue: queue, Lease: c.Lease, Name: c.Name}, claims: claims, edge: new(edge)}
		w.loops = append(w.loops, newQueueLoop(w, queue, c.Queues[queue], claimer))
	}
	return w, nil
}

// ErrRunning is returned by Run and Drain of a worker that runs already.
var ErrRunning = errors.New("gormjobs: the worker is running already")

// StuckError is Run's when handlers ignored the end of their context. Their jobs
// were left to their lease: releasing them would run them twice.
type StuckError struct{ Jobs []models.Job }

func (e *StuckError) Error() string {
	names := make([]string, len(e.Jobs))
	for i, j := range e.Jobs {
		names[i] = fmt.Sprintf("%s (job %d)", j.Type, j.ID)
	}
	return "gormjobs: handlers ignored the end of their context and still run: " + strings.Join(names, ", ")
}

// Run takes jobs and runs them until ctx ends; then it claims no more, lets the
// running ones finish within ShutdownTimeout, and puts back what has not. It
// returns nil after an orderly end, a *[StuckError] if handlers would not stop,
// and any other error only from the start: a *models.MissingError if the tables
// are not there. A database that fails later is waited for.
func (w *Worker) Run(ctx context.Context) error {
	stop, err := w.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	lookout := newLookout(w)
	cancelNews, err := lookout.subscribe()
	if err != nil {
		return err
	}
	defer cancelNews()

	var loops, helpers sync.WaitGroup
	for _, f := range []func(context.Context){lookout.run, w.reapAlone, w.listen(lookout)} {
		helpers.Go(func() { f(ctx) })
	}
	abandoned := make(chan struct{}) // closed when handlers have had all their time
	for _, l := range w.loops {
		loops.Go(func() { l.run(ctx, abandoned) })
	}
	ended := make(chan struct{})
	go func() { loops.Wait(); close(ended) }()

	<-ctx.Done()
	w.await(ended, abandoned)
	<-ended
	helpers.Wait()
	if left := w.holds.handlersLeft(); len(left) > 0 {
		return &StuckError{Jobs: left}
	}
	return nil
}

// shutdownGrace is what handlers get to return after their context has ended.
const shutdownGrace = 2 * time.Second

// await gives the handlers their time: ShutdownTimeout, then the end of their
// contexts and the grace.
func (w *Worker) await(ended <-chan struct{}, abandoned chan<- struct{}) {
	defer close(abandoned)
	if within(ended, w.config.ShutdownTimeout) {
		return
	}
	w.holds.cancelAll(errShutdown)
	within(ended, shutdownGrace)
}

func within(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// start checks the tables and starts what records outcomes and renews leases. stop
// waits until all outcomes are recorded, within a limit.
func (w *Worker) start(ctx context.Context) (stop func(), err error) {
	if !w.running.CompareAndSwap(false, true) {
		return nil, ErrRunning
	}
	check, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	s, err := session.In(check, w.db)
	if err == nil {
		err = models.Check(check, w.db)
	}
	if err != nil {
		w.running.Store(false)
		return nil, err
	}
	for _, warning := range dialect.Warnings(s) {
		w.config.Logger.Warn("gormjobs: " + warning)
	}
	w.holds.reopen()
	own, stopOwn := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { w.recorder.run(own) })
	wg.Go(func() { w.watchLeases(own) })
	return func() {
		w.recorder.drain(recordLimit)
		stopOwn()
		wg.Wait()
		w.awaitCalls()
		w.running.Store(false)
	}, nil
}

// awaitCalls waits for OnFailed, within its limit.
func (w *Worker) awaitCalls() {
	ended := make(chan struct{})
	go func() { w.calls.Wait(); close(ended) }()
	if !within(ended, onFailedLimit+shutdownGrace) {
		w.config.Logger.Warn("gormjobs: OnFailed goes on past the end of its context: it is left alone")
	}
}

// recordLimit is how long a shutdown waits for the last outcomes to be written.
const recordLimit = 10 * time.Second

// Drain runs what is due, and what becomes due meanwhile, until nothing is, and
// returns how many runs that were. It is for tests and one-off commands. It waits
// for outcomes whose rows somebody else has locked. When ctx ends it takes no more,
// lets the running ones finish as Run does, and returns ctx's error, with a
// *[StuckError] if handlers would not stop.
func (w *Worker) Drain(ctx context.Context) (int, error) {
	stop, err := w.start(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	total := 0
	for {
		if _, err := Promote(ctx, w.db); err != nil {
			return total, err
		}
		before := total
		for _, l := range w.loops {
			n, err := l.drainOnce(ctx)
			total += n
			if err != nil {
				return total, err
			}
		}
		if total == before {
			return total, nil
		}
	}
}

// listen returns what keeps the configured listener going.
func (w *Worker) listen(lookout *lookout) func(context.Context) {
	return func(ctx context.Context) {
		if w.config.Listener == nil {
			if dialect.HasNotify(w.db) {
				w.config.Logger.Info("gormjobs: no Listener is configured: jobs enqueued by other processes are found by polling", "poll_interval", w.config.PollInterval)
			}
			return
		}
		t := trouble{log: w.config.Logger, what: "listen for new jobs"}
		for ctx.Err() == nil {
			err := w.config.Listener.Listen(ctx, w.db, lookout.heardNotice)
			lookout.listening.Store(false)
			if ctx.Err() != nil {
				return
			}
			_ = session.Sleep(ctx, t.pause(err))
		}
	}
}

// reapAlone takes over the reaping when no scheduler has done it for a while.
func (w *Worker) reapAlone(ctx context.Context) {
	t := trouble{log: w.config.Logger, what: "reap"}
	since, said := time.Now(), false
	for session.Sleep(ctx, handlers.Jitter(time.Minute)) == nil {
		reaped, err := w.schedulerReaped(ctx)
		if reaped {
			since, said = time.Now(), false
		}
		if err == nil && time.Since(since) >= reapPatience {
			if !said {
				said = true
				w.config.Logger.Info("gormjobs: no scheduler has reaped for a while: this worker does", "patience", reapPatience)
			}
			_, err = Reap(ctx, w.db)
		}
		switch {
		case err == nil:
			t.over()
		case ctx.Err() == nil:
			t.pause(err)
		}
	}
}

// schedulerReaped tells whether a scheduler has had its tick within reapPatience.
func (w *Worker) schedulerReaped(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	s, err := session.In(ctx, w.db)
	if err != nil {
		return false, err
	}
	var n int64
	err = s.Model(&models.Schedule{}).Where("name = ?", models.ReapEntry).
		Where(fmt.Sprintf("updated_at > %s - %d", dialect.Now(s), reapPatience.Microseconds())).Count(&n).Error
	return n > 0, err
}
