package scheduler

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// plan is what to do about an entry that is due.
type plan struct {
	first models.Timestamp // the row's tick
	ticks []time.Time      // to act on, oldest first; none if all were missed
	next  models.Timestamp // the row's tick afterwards
	made  models.Timestamp // when, by the database's clock
}

// plan decides by the database's clock.
func (e *entry) plan(first, now models.Timestamp, owed bool) plan {
	p := plan{first: first, ticks: e.due(first.Time(), now.Time(), owed), next: e.following(now.Time()), made: now}
	if e.do != nil && len(p.ticks) > 1 {
		p.ticks = p.ticks[len(p.ticks)-1:] // the work is the same for all
	}
	return p
}

// acted is what came of a plan.
type acted struct {
	won  bool             // else another scheduler has the tick
	at   models.Timestamp // the tick it ended with
	err  error            // of the claim: the tick is not used up
	work error            // of upkeep, after the claim
}

// act carries a plan out, one transaction for each tick.
func (s *Scheduler) act(ctx context.Context, e *entry, p plan, slots chan struct{}) (a acted) {
	a.at = p.first
	defer func() {
		if v := recover(); v != nil { // in the payload's methods, or in an option
			a.won, a.err = false, fmt.Errorf("cron entry %s panicked: %v\n%s", e.Name, v, debug.Stack())
		}
	}()
	ticks := p.ticks
	if len(ticks) == 0 {
		ticks = []time.Time{{}}
	}
	for i, tick := range ticks {
		to := p.next
		if i+1 < len(ticks) {
			to = models.At(ticks[i+1])
		}
		a.won, a.err = s.claim(ctx, e, move{from: a.at, tick: tick, to: to, made: p.made}, slots)
		if a.err != nil || !a.won {
			return a
		}
		a.at = to
	}
	if e.do != nil {
		a.work = s.work(ctx, e)
	}
	return a
}

// work is not part of the claim's transaction: it takes its time.
func (s *Scheduler) work(ctx context.Context, e *entry) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return e.do(ctx)
}

// move is one step of a plan.
type move struct {
	from, to models.Timestamp // next_tick, before and after
	tick     time.Time        // zero: no job, all of the ticks before to were missed
	made     models.Timestamp
}

// claim moves the row on and enqueues the tick's job in one transaction. won is
// false, and nothing has changed, if another scheduler was first, if the tick has
// not come, or if the plan is from before this process was stopped for a while.
func (s *Scheduler) claim(ctx context.Context, e *entry, m move, slots chan struct{}) (won bool, err error) {
	slots <- struct{}{}
	defer func() { <-slots }()
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var queue string // with a new job
	err = session.Transaction(ctx, s.db, func(tx *gorm.DB) error {
		queue = ""
		if won, err = moveRow(tx, e, m); err != nil || !won || e.do != nil || m.tick.IsZero() {
			return err
		}
		q := func(r *dispatcher.Request) { queue = r.Queue }
		receipt, err := dispatcher.Enqueue(ctx, tx, e.Payload, append(e.Options[:len(e.Options):len(e.Options)], withTick(m.tick), q)...)
		if receipt.Duplicate {
			queue = ""
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("cron entry %s, tick %s: %w", e.Name, m.from, err)
	}
	if queue != "" {
		return won, s.tell(queue)
	}
	return won, nil
}

// moveRow decides who acts on a tick: one plain UPDATE on every database. A
// scheduler that waits for another's looks at the row anew when that has committed.
func moveRow(tx *gorm.DB, e *entry, m move) (won bool, err error) {
	now := dialect.Now(tx)
	set := map[string]any{"next_tick": m.to, "updated_at": gorm.Expr(now)}
	if !m.tick.IsZero() {
		set["last_tick"] = models.At(m.tick)
	}
	write := tx.Model(&models.Schedule{}).
		Where("name = ? AND spec = ? AND next_tick = ?", e.Name, e.stored, m.from).
		Where("next_tick <= "+now).Where(now+" <= ?", m.made+models.Timestamp(Grace.Microseconds())).
		Updates(set)
	if write.Error != nil {
		return false, fmt.Errorf("move the row on: %w", write.Error)
	}
	return write.RowsAffected == 1, nil
}

// tell wakes the workers of this process: the job is there.
func (s *Scheduler) tell(queue string) error {
	hub, err := session.HubOf(s.db)
	if err != nil {
		return err
	}
	hub.Tell(session.News{Queue: queue, Committed: true})
	return nil
}
