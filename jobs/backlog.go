package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// Waiting is the backlog of one queue.
type Waiting struct {
	Queue string
	// Due counts the jobs that could run now, and stops at the limit asked for.
	Due int
	// Oldest is how long the longest of them has been due, by the database's clock.
	Oldest time.Duration
}

// parked is how long a worker puts a job back whose type it does not know. Such
// jobs count as waiting though they are scheduled.
const parked = time.Minute

// Backlog returns the queues in which jobs are waiting, sorted by name. Scheduled
// jobs whose time has come count too, so a promotion that has stopped shows, and
// so do jobs that no worker has a handler for.
//
// It counts up to limit jobs a queue and reads about as many rows, whatever the
// table holds. A limit of less than 1 is taken for 1.
func Backlog(ctx context.Context, db *gorm.DB, limit int) ([]Waiting, error) {
	if err := session.Root(db, "backlog"); err != nil {
		return nil, err
	}
	limit = max(1, limit)
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	s, err := session.In(ctx, db)
	if err != nil {
		return nil, err
	}
	queues := map[string]*Waiting{}
	if err := pendingBacklog(s, limit, queues); err != nil {
		return nil, fmt.Errorf("backlog: %w", err)
	}
	if err := scheduledBacklog(s, limit, queues); err != nil {
		return nil, fmt.Errorf("backlog: %w", err)
	}
	all := make([]Waiting, 0, len(queues))
	for _, w := range queues {
		w.Due = min(w.Due, limit)
		all = append(all, *w)
	}
	slices.SortFunc(all, func(a, b Waiting) int { return cmp.Compare(a.Queue, b.Queue) })
	return all, nil
}

func note(queues map[string]*Waiting, queue string, due int, oldest time.Duration) {
	w := queues[queue]
	if w == nil {
		w = &Waiting{Queue: queue}
		queues[queue] = w
	}
	w.Due += due
	w.Oldest = max(w.Oldest, oldest)
}

// front is a row at the head of one priority of one queue, the oldest of them.
type front struct {
	Queue    string
	Priority int
	Age      int64 // microseconds
}

// pendingBacklog hops along the claim index: from queue to queue, and in each from
// priority to priority. DISTINCT, or min() over the queue, would read all of it.
func pendingBacklog(s *gorm.DB, limit int, queues map[string]*Waiting) error {
	queue, err := nextFront(s, "queue > ?", "")
	for ; err == nil && queue != nil; queue, err = nextFront(s, "queue > ?", queue.Queue) {
		for f := queue; f != nil; {
			note(queues, f.Queue, 0, time.Duration(f.Age)*time.Microsecond)
			if f, err = nextFront(s, "queue = ? AND priority > ?", f.Queue, f.Priority); err != nil {
				return err
			}
		}
		var n int64
		some := pendingRows(s).Select("1 AS one").Where("queue = ?", queue.Queue).
			Order("priority, available_at, id").Limit(limit) // in the index's order, or PostgreSQL scans the table for them
		if err := s.Table("(?) AS counted", some).Count(&n).Error; err != nil {
			return err
		}
		note(queues, queue.Queue, int(n), 0)
	}
	return err
}

func pendingRows(s *gorm.DB) *gorm.DB {
	return s.Model(&models.Job{}).Clauses(dialect.Hint(s, models.ClaimIndex(s))).Where("state = 'pending'")
}

func nextFront(s *gorm.DB, where string, args ...any) (*front, error) {
	var f []front
	err := pendingRows(s).Select("queue, priority, "+dialect.Now(s)+" - available_at AS age").
		Where(where, args...).Order("queue, priority, available_at, id").Limit(1).Find(&f).Error
	if err != nil || len(f) == 0 {
		return nil, err
	}
	return &f[0], nil
}

// scheduledBacklog counts scheduled jobs that are due, or parked since they were.
func scheduledBacklog(s *gorm.DB, limit int, queues map[string]*Waiting) error {
	due := s.Model(&models.Job{}).Select("queue, available_at").
		Where(fmt.Sprintf("due_at <= %s + %d", dialect.Now(s), parked.Microseconds())).
		Order("due_at").Limit(4 * limit)
	var rows []struct {
		Queue string
		Due   int
		Age   int64
	}
	err := s.Table("(?) AS due", due).
		Select("queue, count(*) AS due, max(" + dialect.Now(s) + " - available_at) AS age").
		Where("available_at <= " + dialect.Now(s)).Group("queue").Find(&rows).Error
	for _, r := range rows {
		note(queues, r.Queue, r.Due, time.Duration(r.Age)*time.Microsecond)
	}
	return err
}
