package jobs

import "sync/atomic"

// Stats counts what a worker has done since it was made.
type Stats struct {
	Completed uint64 // recorded as completed
	Retried   uint64 // recorded as a failed attempt, to run again
	Failed    uint64 // recorded as failed for good
	Released  uint64 // put back uncounted: snoozed, a shutdown, no handler
	Lost      uint64 // outcomes dropped, because the job was someone else's by then
	Stuck     uint64 // handlers that went on past their timeout
}

type counters struct{ completed, retried, failed, released, lost, stuck atomic.Uint64 }

// Stats returns the worker's counts so far.
func (w *Worker) Stats() Stats {
	c := &w.counters
	return Stats{
		Completed: c.completed.Load(), Retried: c.retried.Load(), Failed: c.failed.Load(),
		Released: c.released.Load(), Lost: c.lost.Load(), Stuck: c.stuck.Load(),
	}
}
