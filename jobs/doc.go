// Package jobs takes jobs and runs them: it claims rows, keeps their lease while
// they run, writes what became of them, and does the upkeep of the table.
//
// Most applications need [NewWorker] and [Worker.Run]. [Claimer] and the functions
// over a job ([Complete], [Retry], [Fail], [Release], [Extend]) are for programs
// with a loop of their own; [Requeue], [Cancel], [Delete], [Get], [List] and
// [Count] are for operators; [Reap], [Promote], [Prune] and [Backlog] are upkeep,
// which package scheduler runs by cron.
//
//	         enqueue                    enqueue with a delay
//	            │                               │
//	            ▼        promote                ▼
//	        pending ◀─────────────────────── scheduled
//	         │  ▲ ▲                             ▲ │
//	   claim │  │ └── requeue (failed,          │ │ cancel
//	         │  │     cancelled)                │ │ (pending too)
//	         ▼  │ release, reap                 │ ▼
//	      processing ── retry, snooze, reap ────┘ cancelled
//	         │    │
//	complete │    │ fail, reap (its last attempt)
//	         ▼    ▼
//	  completed  failed          all three finished states ── prune, delete ──▶ gone
//
// A claim writes a token of its own into its rows. Whatever ends or prolongs a run
// requires that token, so a worker that stalled for longer than its lease changes
// nothing of a job that somebody else has by then; it gets [ErrLost].
//
// A job runs at least once. It runs again when its worker died, or lost the
// database, between the end of the handler and the record of it, and when a
// handler goes on after its lease was lost. Writes of a handler registered with
// handlers.RegisterTx happen exactly once.
package jobs
