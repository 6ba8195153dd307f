package history

import (
	"cmp"
	"slices"
	"time"
)

// Options are what the checker must know of the run.
type Options struct {
	// Slack is how far the machine's clock and the database's may be apart: SQLite's
	// is cut to milliseconds.
	Slack time.Duration
	// OneWriter: a process that is stopped may hold up all others.
	OneWriter bool
	// TickEvery is the distance of an entry's ticks.
	TickEvery map[string]time.Duration
}

// checker has all witnesses by job.
type checker struct {
	Report
	slack     int64
	oneWriter bool

	byRef    map[string]*Job
	byID     map[uint64]*Job
	runs     map[uint64][]*run
	diary    map[uint64][]Change
	failures map[uint64][]int
	effects  map[uint64][]Effect
	delays   map[string]int64
	exits    map[string]int64
	breaks   []Event
}

// run is one call of a handler.
type run struct {
	Event
	end      int64 // when it ended, or its process did; 0: it never did
	outcome  Outcome
	leaseEnd int64 // the last that the diary knows of
}

type runKey struct {
	job   uint64
	token string
}

// Check compares the witnesses.
func Check(events []Event, rows Rows, o Options) Report {
	c := &checker{
		slack: o.Slack.Microseconds(), oneWriter: o.OneWriter,
		byRef: map[string]*Job{}, byID: map[uint64]*Job{}, runs: map[uint64][]*run{}, diary: map[uint64][]Change{},
		failures: map[uint64][]int{}, effects: map[uint64][]Effect{}, delays: map[string]int64{}, exits: map[string]int64{},
	}
	c.AfterWhichBreak = map[string]int{}
	c.index(rows)
	c.transactions(events, rows)
	c.collectRuns(events)
	for _, id := range slices.Sorted(keys(c.diary)) {
		c.chain(id, c.diary[id])
	}
	for id, runs := range c.runs {
		c.checkRuns(id, runs)
	}
	for i := range rows.Jobs {
		c.job(&rows.Jobs[i])
	}
	c.strayEffects(rows.Effects)
	c.unique(rows.Jobs)
	c.ticks(rows.Jobs, o.TickEvery)
	return c.Report
}

func keys[V any](m map[uint64]V) func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (c *checker) index(rows Rows) {
	for i := range rows.Jobs {
		j := &rows.Jobs[i]
		c.byID[j.ID] = j
		if j.Ref == "" {
			c.CronJobs++
			continue
		}
		if other, ok := c.byRef[j.Ref]; ok {
			c.complain(&c.Phantom, "%s is there twice, as job %d and job %d", j.Ref, other.ID, j.ID)
		}
		c.byRef[j.Ref] = j
	}
	for _, d := range rows.Diary {
		c.diary[d.Job] = append(c.diary[d.Job], d)
	}
	for _, f := range rows.Failures {
		c.failures[f.Job] = append(c.failures[f.Job], f.Attempt)
	}
	for _, e := range rows.Effects {
		c.effects[e.Job] = append(c.effects[e.Job], e)
	}
}

// collectRuns joins starts and ends, and orders the runs of each job.
func (c *checker) collectRuns(events []Event) {
	byKey := map[runKey]*run{}
	for _, e := range events {
		switch e.Kind {
		case Start:
			k := runKey{e.Job, e.Token}
			if _, ok := byKey[k]; ok {
				c.complain(&c.Overlap, "job %d was begun twice under the claim %s", e.Job, e.Token)
			}
			r := &run{Event: e}
			byKey[k] = r
			c.runs[e.Job] = append(c.runs[e.Job], r)
			c.Runs++
		case Break:
			c.breaks = append(c.breaks, e)
		case Exit:
			c.exits[e.What] = e.At
		}
	}
	for _, e := range events {
		if e.Kind == End {
			if r := byKey[runKey{e.Job, e.Token}]; r != nil {
				r.end, r.outcome = e.At, e.Outcome
			}
		}
	}
	for _, runs := range c.runs {
		slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.At, b.At) })
		for _, r := range runs {
			if r.end == 0 {
				r.end = c.exits[r.Proc]
			}
		}
	}
	slices.SortFunc(c.breaks, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
}

func (c *checker) runOf(id uint64, token string) *run {
	for _, r := range c.runs[id] {
		if r.Token == token {
			return r
		}
	}
	return nil
}
