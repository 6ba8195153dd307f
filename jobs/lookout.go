package jobs

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// lookout looks at the database for all queues of a worker, in one statement: it
// wakes the queues in which jobs are pending, promotes scheduled jobs that are
// due, and sleeps until the next is, or until the next look. It looks every few
// milliseconds while there is news, and more and more seldom when there is none.
type lookout struct {
	w       *Worker
	poked   chan struct{}
	trouble trouble

	listening atomic.Bool  // the Listener is connected
	marked    time.Time    // when other processes were last asked to notify
	notified  atomic.Int64 // notifications since then

	lastWork atomic.Int64 // Unix nanoseconds: when there last was something to do
	expected atomic.Int64 // when a transaction of this process last enqueued something
}

func newLookout(w *Worker) *lookout {
	l := &lookout{w: w, poked: make(chan struct{}, 1), trouble: trouble{log: w.config.Logger, what: "look for jobs"}}
	l.lastWork.Store(time.Now().UnixNano())
	return l
}

// subscribe makes the lookout hear what this process enqueues.
func (l *lookout) subscribe() (cancel func(), err error) {
	hub, err := session.HubOf(l.w.db)
	if err != nil {
		return nil, err
	}
	return hub.Subscribe(func(n session.News) {
		if n.Committed {
			l.heard(n.Queue)
			return
		}
		if l.has(n.Queue) {
			l.expected.Store(time.Now().UnixNano())
			l.poke()
		}
	}), nil
}

// heard wakes a queue, or all, in which jobs were committed.
func (l *lookout) heard(queue string) {
	for _, loop := range l.w.loops {
		if queue == "" || loop.queue == queue {
			l.lastWork.Store(time.Now().UnixNano())
			loop.Wake()
		}
	}
}

func (l *lookout) has(queue string) bool {
	_, ok := l.w.config.Queues[queue]
	return ok
}

func (l *lookout) poke() {
	select {
	case l.poked <- struct{}{}:
	default:
	}
}

func (l *lookout) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause, err := l.look(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			pause = l.trouble.pause(err)
		} else {
			l.trouble.over()
		}
		l.sleep(ctx, pause)
	}
}

// sleep waits for d. A transaction that has just enqueued makes it short, since
// its commit cannot be heard.
func (l *lookout) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-l.poked:
		// Not at once: the transaction is still open.
		_ = session.Sleep(ctx, min(d, firstLook))
	case <-l.w.rested:
		// d may be the pause of a worker without a free slot.
		_ = session.Sleep(ctx, min(d, shortestPause))
	}
}

// The pauses between looks.
const (
	firstLook     = time.Millisecond     // after an enqueue in this process
	shortestPause = 5 * time.Millisecond // after work
	expectation   = 2 * time.Second      // how long an open transaction is expected to commit
)

// look looks once and returns the pause until the next time.
func (l *lookout) look(ctx context.Context) (time.Duration, error) {
	g, err := l.glance(ctx)
	if err != nil {
		return 0, err
	}
	due := g.due != 0 && g.due <= g.now
	if due {
		n, err := Promote(ctx, l.w.db)
		if err != nil {
			return 0, err
		}
		if n > 0 {
			for _, loop := range l.w.loops {
				loop.Wake()
			}
			l.lastWork.Store(time.Now().UnixNano())
			return 0, nil
		}
		// Somebody has locked the row, or the state was changed by hand.
	}
	for i, loop := range l.w.loops {
		if g.pending[i] {
			loop.Wake()
			l.lastWork.Store(time.Now().UnixNano())
		}
	}
	if err := l.askForNotice(ctx); err != nil {
		return 0, err
	}
	pause := l.pause(time.Now())
	if g.due != 0 && !due {
		pause = min(pause, time.Duration(g.due-g.now)*time.Microsecond)
	}
	return pause, nil
}

// pause is how long to wait for the next look: a tenth of the time without work,
// or a third of the time since a transaction of this process enqueued something,
// as long as it may still commit.
func (l *lookout) pause(now time.Time) time.Duration {
	longest := handlers.Jitter(l.w.config.PollInterval)
	if l.listening.Load() {
		longest = min(longest, noticeEvery) // the request for notifications is renewed
	}
	if !l.anyWaiting() {
		return longest // nobody has a free slot for what might be found
	}
	pause := max(shortestPause, now.Sub(time.Unix(0, l.lastWork.Load()))/10)
	if since := now.Sub(time.Unix(0, l.expected.Load())); since < expectation {
		pause = min(pause, max(firstLook, since/3))
	}
	return min(pause, longest)
}

func (l *lookout) anyWaiting() bool {
	for _, loop := range l.w.loops {
		if loop.waiting.Load() {
			return true
		}
	}
	return false
}

// view is what one glance sees: times in microseconds of the database's clock.
type view struct {
	now, due int64
	pending  []bool // by the worker's loops
}

// glance is one statement, whatever the number of queues. It is raw because it
// reads from no single table.
func (l *lookout) glance(ctx context.Context) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	s, err := session.In(ctx, l.w.db)
	if err != nil {
		return view{}, err
	}
	table := s.Statement.Quote(models.JobsTable(s))
	var b strings.Builder
	fmt.Fprintf(&b, "SELECT %s, (SELECT min(due_at) FROM %s WHERE due_at IS NOT NULL)", dialect.Now(s), table)
	args := make([]any, len(l.w.loops))
	for i, loop := range l.w.loops {
		fmt.Fprintf(&b, ", EXISTS (SELECT 1 FROM %s WHERE state = 'pending' AND queue = ?)", table)
		args[i] = loop.queue
	}
	v := view{pending: make([]bool, len(l.w.loops))}
	var due models.Timestamp
	into := []any{&v.now, &due}
	for i := range v.pending {
		into = append(into, &v.pending[i])
	}
	if err := s.Raw(b.String(), args...).Row().Scan(into...); err != nil {
		return view{}, fmt.Errorf("look for jobs: %w", err)
	}
	v.due = int64(due)
	return v, nil
}
