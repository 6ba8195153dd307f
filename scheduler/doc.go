// Package scheduler says when: it enqueues the jobs of cron entries, and runs the
// upkeep of the queue, which is reaping, the backlog check and pruning.
//
//	sched, err := scheduler.New(db, scheduler.Config{})
//	err = sched.Cron(scheduler.Entry{Name: "nightly-report", Spec: "30 2 * * *", Payload: NightlyReport{}})
//	err = sched.Run(ctx) // blocks; ends with ctx
//
// Run one in every process: each entry has a row in queue_schedules with the tick
// to come, and who moves it on acts on the tick, in one transaction:
//
//	UPDATE queue_schedules SET last_tick = T, next_tick = T', …
//	 WHERE name = … AND spec = … AND next_tick = T AND next_tick <= now
//	INSERT INTO queue_jobs …          only if that changed the row
//
// So a tick gives one job however many schedulers run, and one that stood still
// for an hour changes nothing. If the insert fails, so does the update, and the
// tick is tried again. The row outlives the process: a weekly entry fires weekly
// in an application that restarts daily.
//
// now is the database's clock. That of the application's host is not asked.
//
// An entry whose spec was changed counts anew from now when the new version
// starts. As long as old and new run side by side, the one that was started last
// has the entry and the other leaves it alone. Rows of entries that no
// application has any more stay, do nothing, and may be deleted.
package scheduler
