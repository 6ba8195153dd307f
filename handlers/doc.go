// Package handlers answers jobs: it maps a job's type to a typed function of the
// application.
//
//	registry := handlers.NewRegistry()
//	handlers.Register(registry, mailer.Welcome, handlers.Timeout(30*time.Second))
//	handlers.RegisterTx(registry, ledger.Book)
//
// What a handler returns decides what becomes of its job: nil completes it, an
// error retries it after a backoff until its attempts are used up, and [Discard],
// [Snooze] and [RetryAfter] say something else. A handler may run more than once
// for one job, so what it does must bear repetition; see [RegisterTx] for writes
// that happen exactly once.
//
// The package links no worker: application packages import it for the words above.
package handlers
