package scheduler

import (
	"encoding/json"
	"time"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/models"
)

// TickKey is the key of a cron job's tick in its metadata.
const TickKey = "tick"

// Tick returns the tick that a job was enqueued for, in UTC: the moment its spec
// names, not that of the enqueue. It says false for a job that no entry enqueued.
//
//	job, _ := handlers.JobFrom(ctx)
//	tick, ok := scheduler.Tick(job)
func Tick(job *models.Job) (time.Time, bool) {
	if job == nil || job.Metadata == "" {
		return time.Time{}, false
	}
	var metadata map[string]string
	if err := json.Unmarshal([]byte(job.Metadata), &metadata); err != nil {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, metadata[TickKey])
	return t.UTC(), err == nil
}

// withTick puts the tick into the metadata.
func withTick(tick time.Time) dispatcher.Option {
	return dispatcher.Metadata(map[string]string{TickKey: tick.UTC().Format(time.RFC3339)})
}
