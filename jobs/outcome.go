package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// verb is what became of a run.
type verb uint8

const (
	complete verb = iota
	release
	retry
	fail
	extend
)

// outcome is what is to be written about one run. Its id and token are the fence.
type outcome struct {
	id        uint64
	token     string
	verb      verb
	keepPlace bool            // release: as old as before among its queue's jobs
	after     time.Duration   // release, retry: until the next run; extend: the lease
	failure   *models.Failure // retry, fail

	// again: an earlier write of this outcome ended in an error, so it may have
	// been recorded.
	again bool
	// committed: a RegisterTx handler's transaction has recorded it.
	committed bool

	index int  // for record's caller: of what the outcome is
	won   bool // while record runs: it was written
}

func outcomeOf(job *models.Job, v verb) outcome {
	return outcome{id: job.ID, token: job.ReservedBy, verb: v}
}

func failureOf(job *models.Job, err error, stack string) *models.Failure {
	return &models.Failure{
		JobID: job.ID, Attempt: job.Attempts, Worker: workerOf(job.ReservedBy), StartedAt: job.ReservedAt,
		Error: clean(errorText(err), models.MaxErrorText), Stack: clean(stack, models.MaxStack),
	}
}

// written is how a batch of outcomes ended.
type written struct {
	began    time.Time // by the local clock: not before any of it was
	recorded []*outcome
	lost     []*outcome
	busy     []*outcome // locked by somebody else; to be tried again
}

// record writes a batch of outcomes in a transaction of its own, each under its own
// fence: the row is reserved by this very claim. A row that an application's
// transaction has locked holds up nobody: it is left out and reported as busy.
// After an error all may have been recorded, or none.
func record(ctx context.Context, db *gorm.DB, batch []*outcome) (w written, err error) {
	// Ids ascend: transactions that lock in one order do not deadlock.
	slices.SortStableFunc(batch, func(a, b *outcome) int { return cmp.Compare(a.id, b.id) })
	groups := grouped(batch, !dialect.LocksInUpdate(db))
	in := session.Transaction
	if dialect.LocksInUpdate(db) && len(groups) == 1 && groups[0][0].failure == nil {
		in = session.Autocommit // one statement
	}
	err = in(ctx, db, func(tx *gorm.DB) error {
		w.began = time.Now() // on SQLite the transaction has waited for the writer
		return write(tx, batch, groups)
	})
	if err != nil {
		return written{}, err
	}
	s, err := session.In(ctx, db)
	if err != nil {
		return written{}, err
	}
	s = session.Unprepared(s)
	err = session.Retry(ctx, func() error { return w.settle(s, batch) })
	return w, err
}

// write writes the groups of batch, and marks the outcomes that were written.
func write(tx *gorm.DB, batch []*outcome, groups [][]*outcome) error {
	for _, o := range batch {
		o.won = false // of a transaction that was rolled back
	}
	update := updateHeld
	if !dialect.LocksInUpdate(tx) {
		held, err := lockHeld(tx, batch)
		if err != nil {
			return err
		}
		if len(held) < len(batch) {
			groups = grouped(held, true)
		}
		update = updateLocked
	}
	var failures []*outcome
	for _, group := range groups {
		won, err := update(tx, group)
		if err != nil {
			return err
		}
		for _, o := range won {
			o.won = true
		}
		if group[0].failure != nil {
			failures = append(failures, won...)
		}
	}
	return insertFailures(tx, failures)
}

// grouped splits outcomes into those that one statement can write: of one claim,
// if byClaim and where these are few.
func grouped(batch []*outcome, byClaim bool) [][]*outcome {
	type key struct {
		verb      verb
		after     time.Duration
		keepPlace bool
		single    fenceKey // of an outcome that has an error text of its own
		again     int      // of a job with more than one: ids are unique in a statement
		token     string
	}
	var all [][]*outcome
	index := map[key]int{}
	var last key
	i, again := -1, 0
	byClaim = byClaim && fewTokens(batch) != nil
	for n, o := range batch {
		again++
		if n == 0 || batch[n-1].id != o.id {
			again = 0
		}
		k := key{verb: o.verb, after: o.after, keepPlace: o.keepPlace, again: again}
		if byClaim {
			k.token = o.token
		}
		if o.failure != nil {
			k.single = o.fence()
		}
		if i < 0 || k != last { // mostly one is like the last
			var ok bool
			if i, ok = index[k]; !ok {
				i = len(all)
				index[k] = i
				all = append(all, nil)
			}
			last = k
		}
		all[i] = append(all[i], o)
	}
	return all
}

// updateLocked writes one group whose rows are locked, or that nobody else can
// write, and returns the outcomes that were written.
func updateLocked(tx *gorm.DB, group []*outcome) ([]*outcome, error) {
	write := fence(tx, group)
	var rows []models.Job
	returns := dialect.UpdateReturns(tx) && !countable(group)
	if returns {
		write = write.Model(&rows).Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}, {Name: "reserved_by"}}})
	}
	write = write.Updates(columnsOf(tx, group[0]))
	if write.Error != nil {
		return nil, write.Error
	}
	if !returns {
		return counted(tx, group, write.RowsAffected)
	}
	won := make([]*outcome, 0, len(rows))
	for _, r := range rows {
		won = appendHeld(won, group, r.ID, r.ReservedBy)
	}
	return won, nil
}

// columnsOf is what an outcome changes. The token stays on the row, so that a
// write whose answer was lost can be found again.
func columnsOf(tx *gorm.DB, o *outcome) map[string]any {
	switch o.verb {
	case extend:
		return map[string]any{"reserved_until": now(tx, o.after)}
	case complete:
		return map[string]any{"state": models.Completed, "finished_at": now(tx, 0), "unique_live": freeKey()}
	case fail:
		return map[string]any{"state": models.Failed, "finished_at": now(tx, 0), "unique_live": freeKey(), "last_error": o.failure.Error}
	}
	set := map[string]any{"state": models.Pending, "due_at": nil, "available_at": now(tx, o.after)}
	if o.after > 0 {
		set["state"], set["due_at"] = models.Scheduled, now(tx, o.after)
	}
	if o.keepPlace {
		delete(set, "available_at")
	}
	if o.verb == release {
		set["attempts"] = gorm.Expr("attempts - 1")
	} else {
		set["last_error"] = o.failure.Error
	}
	return set
}

func insertFailures(tx *gorm.DB, failed []*outcome) error {
	if len(failed) == 0 {
		return nil
	}
	// Raw: GORM's Create takes the database's now only from a map, and cannot scan
	// the ids that it asks for into one.
	args := make([]any, 0, 6*len(failed))
	for _, o := range failed {
		f := o.failure
		args = append(args, f.JobID, f.Attempt, f.Error, f.Stack, f.Worker, f.StartedAt)
	}
	row := "(?, ?, ?, ?, ?, ?, " + dialect.Now(tx) + ")"
	err := tx.Exec("INSERT INTO "+tx.Statement.Quote(models.FailuresTable(tx))+
		" (job_id, attempt, error, stack, worker, started_at, failed_at) VALUES "+
		row+strings.Repeat(", "+row, len(failed)-1), args...).Error
	if err != nil {
		return fmt.Errorf("record the failures: %w", err)
	}
	return nil
}

// settle tells of each outcome that was not written whether the reservation is
// lost or its row only locked by somebody else.
func (w *written) settle(s *gorm.DB, batch []*outcome) error {
	w.recorded = make([]*outcome, 0, len(batch))
	var rest []uint64
	for _, o := range batch {
		if o.won {
			w.recorded = append(w.recorded, o)
		} else {
			rest = append(rest, o.id)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	var rows []models.Job
	if err := s.Select("id", "state", "reserved_by").Where(dialect.IDIn(s, rest)).Find(&rows).Error; err != nil {
		return fmt.Errorf("read who has the jobs: %w", err)
	}
	found := make(map[uint64]models.Job, len(rows))
	for _, r := range rows {
		found[r.ID] = r
	}
	for _, o := range batch {
		if o.won {
			continue
		}
		switch r := found[o.id]; {
		case r.ReservedBy != o.token:
			w.lost = append(w.lost, o)
		case r.State == models.Processing:
			w.busy = append(w.busy, o)
		case o.verb == extend && r.State == models.Completed:
			w.recorded = append(w.recorded, o) // a RegisterTx handler's own transaction did
		case o.again:
			w.recorded = append(w.recorded, o) // by the write whose answer was lost
			if r.State == models.Completed {
				o.verb = complete // and that was a RegisterTx handler's commit
			}
		default:
			w.lost = append(w.lost, o)
		}
	}
	return nil
}

// recordOne writes the outcome of one job, waiting for its row if it is locked.
func recordOne(ctx context.Context, db *gorm.DB, o outcome) error {
	return inTx(ctx, db, func(tx *gorm.DB) error {
		won, err := updateLocked(tx, []*outcome{&o})
		if err != nil {
			return err
		}
		if len(won) == 0 {
			return ErrLost
		}
		if o.failure != nil {
			return insertFailures(tx, won)
		}
		return nil
	})
}
