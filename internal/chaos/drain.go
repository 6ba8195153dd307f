//go:build linux

package main

import (
	"context"
	"time"

	"github.com/gormjobs/gormjobs/models"
)

// drainage is how the work that was left ran out when nothing was broken any more.
type drainage struct {
	drained, drainLimit time.Duration
	left                int // unfinished jobs when everything was whole again
}

// What a worker that could not reach its database waits at most before it tries
// again, and how many jobs a second the workers are trusted to run on a machine
// that has other things to do.
const (
	longestPause = 5500 * time.Millisecond
	slowest      = 50
)

// longestDelay is that of the producers' jobs, and a bit: cutting it short would be
// taken for a fault.
const longestDelay = 2200 * time.Millisecond

// drain ends the producers, and waits until nothing is unfinished that was due for
// more than a second. Everything must be within two leases and a reap, what the
// longest handler takes (two leases), a pause, and the time for what was left.
// Backoffs are then cut short: some are minutes.
func (st *stage) drain(ctx context.Context) (d drainage) {
	began := time.Now()
	st.fleet.end("producer")
	ended := time.Now()
	var left int64
	st.db.Model(&models.Job{}).Where("state NOT IN ('completed','failed')").Count(&left)
	d.left = int(left)
	d.drainLimit = time.Duration(st.busy) * (4*st.lease + time.Second + longestPause + time.Duration(left)*time.Second/slowest)
	overdue := "state IN ('pending','processing') AND available_at < " + st.ago() + " OR state = 'scheduled' AND due_at < " + st.ago()
	st.awaitNone(ctx, "type <> 'tick' AND ("+overdue+")", began.Add(d.drainLimit+30*time.Second))
	d.drained = time.Since(began).Round(time.Millisecond)
	_ = sleep(ctx, time.Until(ended.Add(longestDelay)))
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		st.db.Model(&models.Job{}).Where("state = 'scheduled'").Update("due_at", 1)
		if st.awaitNone(ctx, "type <> 'tick' AND state NOT IN ('completed','failed')", time.Now().Add(time.Second)) {
			break
		}
	}
	return d
}

// ago is a second ago, by the machine's clock, which is the database's.
func (st *stage) ago() string {
	switch st.options.db {
	case "postgres":
		return "extract(epoch from now())*1000000 - 1000000"
	case "sqlite":
		return "(julianday('now')-2440587.5)*86400000000 - 1000000"
	}
	return "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6)) - 1000000"
}

// awaitNone waits until no job is such, and tells whether that came about.
func (st *stage) awaitNone(ctx context.Context, such string, end time.Time) bool {
	for time.Now().Before(end) {
		var n int64
		err := st.db.Model(&models.Job{}).Where(such).Count(&n).Error
		if err == nil && n == 0 {
			return true
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return false
		}
	}
	return false
}
