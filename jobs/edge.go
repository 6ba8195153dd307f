package jobs

import (
	"context"
	"slices"
	"time"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/models"
)

// edge is where the pending jobs of a long queue begin. On PostgreSQL the index
// keeps an entry of every job claimed before, as long as some old transaction
// might still see it as pending, and each claim walks over all of them: with
// 160,000 it takes ten times as long. So a claim of a busy worker begins behind
// the last one's jobs, most of the time: what has come in before them, of a better
// priority or back in its old place, is found by the claims from the start, at
// least once a second.
type edge struct {
	last  *place
	until time.Time // then from the start again
}

// place is a job's in the order of its queue.
type place struct {
	priority    int16
	availableAt models.Timestamp
	id          uint64
}

// An edge is kept only where it saves something: after a claim from the start of
// many jobs that was slow.
const (
	edgeClaim = 50
	edgeSlow  = 10 * time.Millisecond
	edgeShare = 5 // a claim from the start may take one part in so many of the time
)

// claimFrom claims from the edge, where there is one, and else from the start. A
// claim that gets less than it wanted has looked at everything.
func (c *Claimer) claimFrom(ctx context.Context, a asked) (taken, error) {
	if c.edge == nil || !dialect.KeepsDeadEntries(c.db) {
		return c.claimBehind(ctx, a)
	}
	last := *c.edge
	*c.edge = edge{}
	var first taken
	if last.last != nil && time.Now().Before(last.until) {
		var err error
		a.after = last.last
		if first, err = c.claimBehind(ctx, a); err != nil {
			return taken{}, err
		}
		if len(first.jobs) == a.limit {
			*c.edge = edge{lastOf(first.jobs), last.until}
			return first, nil
		}
		if len(first.over) > 0 {
			return first, nil // what was put back must not be claimed again at once
		}
		a.after, a.limit, a.free = nil, a.limit-len(first.jobs), max(0, a.free-len(first.jobs))
	}
	t, err := c.claimBehind(ctx, a)
	switch took := time.Since(t.began); {
	case err != nil && len(first.jobs) > 0:
		return first, nil // they are claimed; the next claim meets the error again
	case err != nil:
		return taken{}, err
	case len(first.jobs) > 0:
		first.jobs, first.over = append(first.jobs, t.jobs...), t.over
		first.bytes, first.last = first.bytes+t.bytes, first.last || t.last
		slices.SortFunc(first.jobs, inOrder)
		return first, nil
	case len(t.jobs) == a.limit && a.limit >= edgeClaim && took >= edgeSlow:
		*c.edge = edge{lastOf(t.jobs), time.Now().Add(min(edgeShare*took, time.Second))}
	}
	return t, nil
}

func lastOf(jobs []*models.Job) *place {
	if len(jobs) == 0 {
		return nil
	}
	last := slices.MaxFunc(jobs, inOrder)
	return &place{last.Priority, last.AvailableAt, last.ID}
}
