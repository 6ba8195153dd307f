package jobs

import (
	"slices"
	"time"

	"gorm.io/gorm"

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

// claimFrom is claimReturning from the edge, where there is one. A claim that gets
// less than it wanted has looked at everything. It returns the edge for the next.
func (c *Claimer) claimFrom(tx *gorm.DB, limit int, token string) (jobs []models.Job, next edge, err error) {
	if c.edge == nil || !dialect.KeepsDeadEntries(tx) {
		jobs, err = c.claimReturning(tx, limit, token, nil)
		return jobs, edge{}, err
	}
	if c.edge.last != nil && time.Now().Before(c.edge.until) {
		jobs, err = c.claimReturning(tx, limit, token, c.edge.last)
		if err != nil || len(jobs) == limit {
			return jobs, edge{lastOf(jobs), c.edge.until}, err
		}
	}
	began := time.Now()
	more, err := c.claimReturning(tx, limit-len(jobs), token, nil)
	if err != nil {
		return nil, edge{}, err
	}
	took := time.Since(began)
	if len(more) == limit && limit >= edgeClaim && took >= edgeSlow {
		next = edge{lastOf(more), time.Now().Add(min(edgeShare*took, time.Second))}
	}
	return append(jobs, more...), next, nil
}

func lastOf(jobs []models.Job) *place {
	if len(jobs) == 0 {
		return nil
	}
	last := slices.MaxFunc(jobs, inOrder)
	return &place{last.Priority, last.AvailableAt, last.ID}
}
