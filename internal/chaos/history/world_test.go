package history_test

import (
	"fmt"

	"github.com/gormjobs/gormjobs/internal/chaos/history"
)

// world is a small history in which all is well. Tests spoil one thing in it.
type world struct {
	events []history.Event
	rows   history.Rows
	now    int64
}

const (
	ms    = 1000
	lease = 2000 * ms
)

func newWorld() *world {
	w := &world{rows: history.Rows{Orders: map[string]bool{}}, now: 1_800_000_000_000_000}
	w.commit("t1", 1, false)
	w.claim(1, "a.1")
	w.start(1, "a.1")
	w.end(1, "a.1", history.OK)
	w.finish(1, "completed")

	w.commit("t2", 2, false) // fails, and then does not
	w.claim(2, "a.2")
	w.start(2, "a.2")
	w.end(2, "a.2", history.Failed)
	w.again(2, "scheduled")
	w.change(2, func(j *history.Job) { j.State = "pending" })
	w.claim(2, "b.1")
	w.start(2, "b.1")
	w.end(2, "b.1", history.OK)
	w.finish(2, "completed")

	w.commit("t3", 3, true) // its worker is stopped, and another finishes it
	w.claim(3, "a.3")
	w.start(3, "a.3")
	w.breaking("stop", "a", lease+1000*ms)
	w.reap(3)
	w.claim(3, "b.2")
	w.start(3, "b.2")
	w.end(3, "a.3", history.OK) // and is told that it has lost the job
	w.end(3, "b.2", history.OK)
	w.effect(3)
	w.finish(3, "completed")

	w.commit("t4", 4, false) // the same, of a plain handler
	w.claim(4, "a.4")
	w.start(4, "a.4")
	w.breaking("kill", "a", lease+1000*ms)
	w.reap(4)
	w.claim(4, "b.3")
	w.start(4, "b.3")
	w.end(4, "b.3", history.OK)
	w.finish(4, "completed")

	w.commit("t5", 5, false) // released unstarted, and given up
	w.claim(5, "b.4")
	w.release(5)
	w.claim(5, "b.5")
	w.start(5, "b.5")
	w.end(5, "b.5", history.Discard)
	w.fail(5)

	w.events = append(w.events, history.Event{Kind: history.Enqueued, At: w.now, Tx: "gone", Jobs: []history.Put{{Ref: "gone.0", ID: 6}}})
	w.events = append(w.events, history.Event{Kind: history.RolledBack, At: w.now, Tx: "gone"})
	for i := range int64(3) {
		id := uint64(10 + i)
		w.insert(history.Job{ID: id, Entry: "second", Tick: 1_800_000_000 + i})
		w.claim(id, fmt.Sprint("b.c", i))
		w.start(id, fmt.Sprint("b.c", i))
		w.end(id, fmt.Sprint("b.c", i), history.OK)
		w.finish(id, "completed")
	}
	return w
}

func (w *world) tick(d int64) int64 { w.now += d; return w.now }

func (w *world) job(id uint64) *history.Job {
	for i := range w.rows.Jobs {
		if w.rows.Jobs[i].ID == id {
			return &w.rows.Jobs[i]
		}
	}
	panic("no such job")
}

// commit is a transaction with an order and one job.
func (w *world) commit(tx string, id uint64, inTx bool) {
	ref := tx + ".0"
	w.events = append(w.events,
		history.Event{Kind: history.Enqueued, At: w.tick(ms), Tx: tx, Jobs: []history.Put{{Ref: ref, ID: id}}},
		history.Event{Kind: history.Committed, At: w.tick(ms), Tx: tx})
	w.rows.Orders[tx] = true
	w.insert(history.Job{ID: id, Ref: ref, Tx: inTx})
}

func (w *world) insert(j history.Job) {
	j.State, j.MaxAttempts, j.CreatedAt = "pending", 25, w.now
	w.rows.Jobs = append(w.rows.Jobs, j)
	w.rows.Diary = append(w.rows.Diary, history.Change{Job: j.ID, Is: "pending", At: w.now})
}

// change changes a row, and tells the diary.
func (w *world) change(id uint64, f func(*history.Job)) *history.Change {
	j := w.job(id)
	d := history.Change{Job: id, Was: j.State, WasToken: j.Token, WasAttempts: j.Attempts, At: w.tick(ms)}
	for _, e := range w.rows.Diary {
		if e.Job == id {
			d.WasUntil, d.Until = e.Until, e.Until
		}
	}
	f(j)
	d.Is, d.IsToken, d.Attempts = j.State, j.Token, j.Attempts
	w.rows.Diary = append(w.rows.Diary, d)
	return &w.rows.Diary[len(w.rows.Diary)-1]
}

func (w *world) claim(id uint64, token string) {
	d := w.change(id, func(j *history.Job) { j.State, j.Token = "processing", token; j.Attempts++ })
	d.Until = d.At + lease
}

func (w *world) finish(id uint64, state string) {
	w.change(id, func(j *history.Job) { j.State, j.FinishedAt = state, w.now })
}

func (w *world) failure(id uint64) {
	w.rows.Failures = append(w.rows.Failures, history.Failure{Job: id, Attempt: w.job(id).Attempts})
}

func (w *world) again(id uint64, state string) {
	w.failure(id)
	w.change(id, func(j *history.Job) { j.State = state })
}

func (w *world) fail(id uint64) {
	w.failure(id)
	w.finish(id, "failed")
}

func (w *world) reap(id uint64) {
	w.failure(id)
	w.change(id, func(j *history.Job) { j.State, j.Token = "pending", "" })
}

func (w *world) release(id uint64) {
	w.change(id, func(j *history.Job) { j.State = "pending"; j.Attempts-- })
}

func (w *world) effect(id uint64) {
	j := w.job(id)
	w.rows.Effects = append(w.rows.Effects, history.Effect{Job: id, Ref: j.Ref, Token: j.Token})
}

func (w *world) run(k history.Kind, id uint64, token string, o history.Outcome) {
	w.events = append(w.events, history.Event{Kind: k, At: w.tick(ms), Proc: token[:1], Ref: w.job(id).Ref, Job: id, Token: token, Outcome: o})
}

func (w *world) start(id uint64, token string)                    { w.run(history.Start, id, token, "") }
func (w *world) end(id uint64, token string, out history.Outcome) { w.run(history.End, id, token, out) }

func (w *world) breaking(what, proc string, d int64) {
	w.events = append(w.events, history.Event{Kind: history.Break, At: w.tick(ms), Until: w.tick(d), What: what, Ref: proc})
}

// event finds one that a test is to spoil.
func (w *world) event(k history.Kind, id uint64, token string) *history.Event {
	for i, e := range w.events {
		if e.Kind == k && e.Job == id && e.Token == token {
			return &w.events[i]
		}
	}
	panic("no such event")
}
