package history_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gormjobs/gormjobs/internal/chaos/history"
)

var options = history.Options{Slack: 500 * time.Microsecond, TickEvery: map[string]time.Duration{"second": time.Second}}

func TestCheckerFindsNothingWhereAllIsWell(t *testing.T) {
	w := newWorld()
	r := history.Check(w.events, w.rows, options)
	if r.Broken() != 0 || len(r.Complaints) != 0 {
		t.Fatalf("broken: %v", r.Complaints)
	}
	r.Notes = nil
	want := history.Report{
		Jobs: 8, Completed: 7, Failed: 1, CronJobs: 3, Runs: 11, Reaped: 2, Released: 1,
		Transactions: 6, RolledBack: 1, EffectsOnce: 1, StaleEnds: 1, RunAgain: 1, AfterWhichBreak: map[string]int{"kill": 1},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
}

// planted are faults, each with the count that must show it.
var planted = []struct {
	name  string
	spoil func(*world)
	count func(history.Report) int
}{
	{"a committed job is gone", func(w *world) {
		w.rows.Jobs = slices.DeleteFunc(w.rows.Jobs, func(j history.Job) bool { return j.ID == 1 })
	}, lost},
	{"a committed job is never finished", func(w *world) { w.commit("t9", 9, false) }, lost},
	{"a committed job stays with a dead worker", func(w *world) { w.commit("t9", 9, false); w.claim(9, "a.9"); w.start(9, "a.9") }, lost},
	{"an acknowledged commit is gone", func(w *world) { delete(w.rows.Orders, "t1") }, lost},
	{"a cron job is never finished", func(w *world) { w.insert(history.Job{ID: 13, Entry: "second", Tick: 1_800_000_003}) }, lost},
	{"a job was deleted", func(w *world) { w.change(1, func(j *history.Job) { j.State = "" }) }, lost},
	{"an unknown commit came about, and its job did not", func(w *world) {
		w.events = append(w.events, history.Event{Kind: history.Enqueued, Tx: "t9", Jobs: []history.Put{{Ref: "t9.0", ID: 9}}})
		w.rows.Orders["t9"] = true
	}, lost},

	{"a job of a rolled back transaction is there", func(w *world) { w.insert(history.Job{ID: 6, Ref: "gone.0"}) }, phantom},
	{"a job of a rolled back transaction was run", func(w *world) {
		w.events = append(w.events, history.Event{Kind: history.Start, At: w.now, Ref: "gone.0", Job: 6, Token: "a.9"})
	}, phantom},
	{"a rolled back job was run under an id that is another's by now", func(w *world) {
		w.events = append(w.events, history.Event{Kind: history.Start, At: w.now, Ref: "gone.0", Job: 1, Token: "a.9"})
	}, phantom},
	{"a rolled back transaction is there", func(w *world) { w.rows.Orders["gone"] = true }, phantom},
	{"a job that nobody enqueued", func(w *world) { w.insert(history.Job{ID: 9, Ref: "t1.0.undone"}) }, phantom},
	{"a job is there twice", func(w *world) { w.insert(history.Job{ID: 9, Ref: "t1.0"}) }, phantom},

	{"a second run while the first has its lease", func(w *world) {
		w.event(history.End, 1, "a.1").At += 10 * ms
		e := *w.event(history.Start, 1, "a.1")
		e.At, e.Token = e.At+2*ms, "b.9"
		w.events = append(w.events, e)
	}, overlap},
	{"a second run while the first, renewed, has its lease", func(w *world) {
		for i := range w.rows.Diary { // the lease that was renewed while the process was stopped
			if d := &w.rows.Diary[i]; d.Job == 3 && d.IsToken == "a.3" {
				d.Until += lease + 2000*ms
			}
		}
	}, overlap},
	{"a handler is begun twice under one claim", func(w *world) { w.events = append(w.events, *w.event(history.Start, 1, "a.1")) }, overlap},
	{"a job is taken back before its lease is over", func(w *world) {
		for i := range w.rows.Diary {
			if d := &w.rows.Diary[i]; d.Job == 4 && d.Was == "processing" && d.IsToken == "" {
				d.WasUntil = d.At + ms
			}
		}
	}, overlap},

	{"finished twice", func(w *world) { w.finish(1, "completed") }, twice},
	{"back to life", func(w *world) { w.change(1, func(j *history.Job) { j.State = "pending" }) }, twice},
	{"a change that the diary has not seen", func(w *world) {
		w.rows.Diary = slices.DeleteFunc(w.rows.Diary, func(d history.Change) bool { return d.Job == 3 && d.IsToken == "a.3" })
	}, twice},

	{"completed by the run that had lost it", func(w *world) { w.event(history.End, 3, "b.2").At += 1000 * ms }, foreign},
	{"completed and never run", func(w *world) {
		w.commit("t9", 9, false)
		w.claim(9, "a.9")
		w.finish(9, "completed")
	}, foreign},
	{"completed though the handler failed", func(w *world) { w.event(history.End, 1, "a.1").Outcome = history.Failed }, foreign},
	{"a failed attempt though the handler did not fail", func(w *world) { w.event(history.End, 2, "a.2").Outcome = history.OK }, foreign},
	{"released though the handler was content", func(w *world) {
		w.commit("t9", 9, false)
		w.claim(9, "a.9")
		w.start(9, "a.9")
		w.end(9, "a.9", history.OK)
		w.release(9)
	}, foreign},
	{"taken over while somebody has it", func(w *world) {
		w.commit("t9", 9, false)
		w.claim(9, "a.9")
		w.claim(9, "b.9")
	}, foreign},

	{"an effect twice", func(w *world) { w.effect(3) }, effects},
	{"no effect", func(w *world) { w.rows.Effects = nil }, effects},
	{"the effect of the run that had lost the job", func(w *world) { w.rows.Effects[0].Token = "a.3" }, effects},
	{"an effect of a job that does not exist", func(w *world) { w.rows.Effects = append(w.rows.Effects, history.Effect{Job: 6}) }, effects},
	{"an effect of a job that failed", func(w *world) {
		w.commit("t9", 9, true)
		w.claim(9, "a.9")
		w.start(9, "a.9")
		w.end(9, "a.9", history.Discard)
		w.fail(9)
		w.effect(9)
	}, effects},

	{"one attempt too many", func(w *world) { w.job(1).Attempts++ }, attempts},
	{"no failure row", func(w *world) { w.rows.Failures = w.rows.Failures[1:] }, attempts},
	{"two failure rows", func(w *world) { w.rows.Failures = append(w.rows.Failures, w.rows.Failures[0]) }, attempts},
	{"a failure row of the wrong attempt", func(w *world) { w.rows.Failures[0].Attempt = 7 }, attempts},
	{"a claim that was not counted", func(w *world) {
		w.commit("t9", 9, false)
		w.change(9, func(j *history.Job) { j.State, j.Token = "processing", "a.9" })
	}, attempts},
	{"more attempts than allowed", func(w *world) { w.job(2).MaxAttempts = 1 }, attempts},
	{"given up too early", func(w *world) { w.event(history.End, 5, "b.5").Outcome = history.Failed }, attempts},
	{"a token that was used before", func(w *world) {
		w.commit("t9", 9, false)
		w.claim(9, "a.9")
		w.release(9)
		w.claim(9, "a.9")
	}, attempts},

	{"two unfinished jobs of one key", func(w *world) {
		w.job(1).Key, w.job(2).Key = "k", "k"
		w.job(1).FinishedAt = w.job(2).CreatedAt + 5000*ms
	}, uniques},
	{"a duplicate of a job that is not unique", func(w *world) {
		w.events[0].Jobs = append(w.events[0].Jobs, history.Put{Ref: "t1.1", ID: 2, Dup: true})
	}, uniques},

	{"a tick twice", func(w *world) { w.job(11).Tick-- }, ticks},
	{"a tick without a job", func(w *world) { w.job(12).Tick++ }, ticks},
	{"no tick at all", func(w *world) {
		w.rows.Jobs = slices.DeleteFunc(w.rows.Jobs, func(j history.Job) bool { return j.Entry != "" })
	}, ticks},

	{"begun before its delay was over", func(w *world) { w.events[0].Jobs[0].Delay = 10_000 * ms }, early},
}

func lost(r history.Report) int     { return r.Lost }
func phantom(r history.Report) int  { return r.Phantom }
func overlap(r history.Report) int  { return r.Overlap }
func twice(r history.Report) int    { return r.Twice }
func foreign(r history.Report) int  { return r.Foreign }
func effects(r history.Report) int  { return r.Effects }
func attempts(r history.Report) int { return r.Attempts }
func uniques(r history.Report) int  { return r.Unique }
func ticks(r history.Report) int    { return r.Ticks }
func early(r history.Report) int    { return r.Early }

func TestCheckerFindsPlantedFaults(t *testing.T) {
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			w := newWorld()
			p.spoil(w)
			r := history.Check(w.events, w.rows, options)
			if p.count(r) == 0 || r.Broken() == 0 {
				t.Errorf("not found; the complaints are %q", r.Complaints)
			}
		})
	}
}

// innocent is what looks strange and is allowed, of a job 9.
var innocent = map[string]func(*world){
	"an unknown commit that did not come about": func(w *world) {
		w.events = append(w.events, history.Event{Kind: history.Enqueued, Tx: "t0", Jobs: []history.Put{{Ref: "t0.0", ID: 8}}},
			history.Event{Kind: history.Unknown, Tx: "t0"})
	},
	"an id that a rolled back job had before": func(w *world) {
		w.commit("t0", 6, false)
		w.claim(6, "a.0")
		w.start(6, "a.0")
		w.end(6, "a.0", history.OK)
		w.finish(6, "completed")
	},
	"a process that died between the end and the record of it": func(w *world) {
		w.claim(9, "a.9")
		w.start(9, "a.9")
		w.end(9, "a.9", history.OK)
		w.tick(lease)
		w.reap(9)
	},
	"a stale run that goes on beside the next": func(w *world) { w.event(history.End, 3, "a.3").At += 60_000 * ms },
	"a last attempt whose worker died": func(w *world) {
		w.claim(9, "a.9")
		w.start(9, "a.9")
		w.tick(lease)
		w.job(9).MaxAttempts = 1
		w.failure(9)
		w.change(9, func(j *history.Job) { j.State, j.Token = "failed", "" })
	},
	"a commit of RegisterTx that failed": func(w *world) {
		w.job(9).Tx = true
		w.claim(9, "a.9")
		w.start(9, "a.9")
		w.end(9, "a.9", history.OK)
		w.again(9, "pending")
	},
	"snoozed": func(w *world) {
		w.claim(9, "a.9")
		w.start(9, "a.9")
		w.end(9, "a.9", history.Snoozed)
		w.release(9)
	},
}

func TestCheckerAccusesNobodyWrongly(t *testing.T) {
	for name, do := range innocent {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.commit("t9", 9, false)
			do(w)
			if w.job(9).State == "pending" {
				w.claim(9, "b.9")
				w.start(9, "b.9")
				w.end(9, "b.9", history.OK)
				if w.job(9).Tx {
					w.effect(9)
				}
				w.finish(9, "completed")
			}
			if r := history.Check(w.events, w.rows, options); r.Broken() != 0 {
				t.Errorf("broken: %q", r.Complaints)
			}
		})
	}
}
