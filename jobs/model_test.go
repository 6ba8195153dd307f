package jobs_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"gorm.io/gorm"
	"pgregory.net/rapid"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// wish is a job as the model has it: what the documentation says about its row.
type wish struct {
	state         models.State
	queue         string
	priority      int16
	attempts, max int
	token         string
	key           string // of a unique job; "p" first if it is taken for a period
	live          bool   // the key is taken
	failures      int
	expired       bool // processing, and its lease has ended
	due           bool // scheduled, and its time has come
	old           bool // finished, and to be pruned
	place         models.Timestamp
	moved         bool // place may have changed: it is read again
	errorText     string
}

// machine is the model, and the database that must agree with it. Its actors are
// claimers, of which each remembers the jobs it was given, also when it has lost
// them; an operator; and the upkeep.
type machine struct {
	db       *gorm.DB
	jobs     map[uint64]*wish
	gone     []uint64
	claimers []*jobs.Claimer
	held     []models.Job
}

var machineQueues = []string{"default", "mail"}

func newMachine(t *rapid.T, db *gorm.DB) *machine {
	m := &machine{db: db, jobs: map[uint64]*wish{}}
	for _, table := range []string{"queue_jobs", "queue_failures"} {
		if err := db.Exec("DELETE FROM " + table).Error; err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 { // two for each queue, all of one name
		c, err := jobs.NewClaimer(db, jobs.ClaimerConfig{Name: "actor", Queue: machineQueues[i%2], Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		m.claimers = append(m.claimers, c)
	}
	return m
}

// errUndone makes a transaction end without its writes.
var errUndone = errors.New("undone")

// verb runs a verb as a caller may: on its own, in a transaction, or in one that
// is rolled back. It tells whether the verb's change stands.
func (m *machine) verb(t *rapid.T, do func(db *gorm.DB) error) (stands bool, err error) {
	switch rapid.SampledFrom([]string{"own", "transaction", "rolled back"}).Draw(t, "how") {
	case "own":
		return true, do(m.db)
	case "transaction":
		failed := m.db.Transaction(func(tx *gorm.DB) error { err = do(tx); return nil })
		if failed != nil {
			t.Fatalf("the caller's commit: %v", failed)
		}
		return true, err
	}
	failed := m.db.Transaction(func(tx *gorm.DB) error { err = do(tx); return errUndone })
	if !errors.Is(failed, errUndone) {
		t.Fatalf("the caller's rollback: %v", failed)
	}
	return false, err
}

// holder is the job that has a key.
func (m *machine) holder(key string) uint64 {
	for id, w := range m.jobs {
		if key != "" && w.live && w.key == key {
			return id
		}
	}
	return 0
}

// some draws a job of the given states: an id of any job, of one that is gone, or
// of one that never was, if there are no states.
func (m *machine) some(t *rapid.T, states ...models.State) (uint64, *wish) {
	ids := slices.Sorted(maps.Keys(m.jobs))
	if len(states) == 0 {
		ids = append(append(ids, m.gone...), 1<<40)
	} else {
		ids = slices.DeleteFunc(ids, func(id uint64) bool { return !slices.Contains(states, m.jobs[id].state) })
	}
	if len(ids) == 0 {
		t.Skip("no such job")
	}
	id := rapid.SampledFrom(ids).Draw(t, "job")
	return id, m.jobs[id]
}

func (m *machine) set(t *rapid.T, id uint64, columns map[string]any) {
	if err := m.db.Model(&models.Job{}).Where("id = ?", id).Updates(columns).Error; err != nil {
		t.Fatal(err)
	}
}

func (w *wish) finish(s models.State) {
	w.state, w.old = s, false
	if w.key != "" && w.key[0] != 'p' {
		w.live = false
	}
}

func (m *machine) enqueue(t *rapid.T) {
	w := &wish{state: models.Pending, queue: rapid.SampledFrom(machineQueues).Draw(t, "queue"), live: true,
		priority: rapid.Int16Range(0, 1).Draw(t, "priority"), max: rapid.IntRange(1, 3).Draw(t, "max")}
	opts := []dispatcher.Option{dispatcher.Queue(w.queue), dispatcher.Priority(int(w.priority)), dispatcher.MaxAttempts(w.max)}
	if rapid.IntRange(0, 3).Draw(t, "delayed") == 3 {
		w.state = models.Scheduled
		opts = append(opts, dispatcher.Delay(time.Hour))
	}
	switch w.key = rapid.SampledFrom([]string{"", "", "ua", "ua", "ub", "pa"}).Draw(t, "key"); {
	case w.key == "":
	case w.key[0] == 'u':
		opts = append(opts, dispatcher.Unique(w.key))
	default:
		opts = append(opts, dispatcher.UniqueFor(w.key, 100*365*24*time.Hour)) // the first century ends in 2070
	}
	var r dispatcher.Receipt
	stands := rapid.IntRange(0, 3).Draw(t, "committed") > 0
	err := m.db.Transaction(func(tx *gorm.DB) (err error) {
		if r, err = dispatcher.Enqueue(t.Context(), tx, ping{}, opts...); err == nil && !stands {
			err = errUndone
		}
		return err
	})
	if err != nil && !errors.Is(err, errUndone) {
		t.Fatal(err)
	}
	if holder := m.holder(w.key); r.Duplicate != (holder != 0) || r.Duplicate && r.ID != holder {
		t.Fatalf("receipt %+v; job %d has the key", r, holder)
	}
	if stands && !r.Duplicate {
		w.moved = true
		m.jobs[r.ID] = w
	}
}

func (m *machine) claim(t *rapid.T) {
	n := rapid.IntRange(0, len(m.claimers)-1).Draw(t, "claimer")
	limit := rapid.IntRange(1, 3).Draw(t, "limit")
	var due []uint64
	for id, w := range m.jobs {
		if w.state == models.Pending && w.queue == machineQueues[n%2] {
			due = append(due, id)
		}
	}
	slices.SortFunc(due, func(a, b uint64) int {
		x, y := m.jobs[a], m.jobs[b]
		return cmp.Or(cmp.Compare(x.priority, y.priority), cmp.Compare(x.place, y.place), cmp.Compare(a, b))
	})
	due = due[:min(limit, len(due))]
	claimed, err := m.claimers[n].Claim(t.Context(), limit)
	if err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for _, j := range claimed {
		got = append(got, j.ID)
	}
	if !slices.Equal(got, due) {
		t.Fatalf("claimed %v; want %v", got, due)
	}
	for _, j := range claimed {
		w := m.jobs[j.ID]
		w.state, w.expired, w.token = models.Processing, false, j.ReservedBy
		w.attempts++
		if j.Attempts != w.attempts || j.State != models.Processing || j.ReservedUntil.Time().Sub(j.ReservedAt.Time()) != time.Hour {
			t.Fatalf("claimed %+v; want attempt %d and a lease of 1h", j, w.attempts)
		}
		for _, h := range m.held {
			if h.ReservedBy == j.ReservedBy && h.ID == j.ID {
				t.Fatalf("two claims of job %d have the token %s", j.ID, j.ReservedBy)
			}
		}
	}
	m.held = append(m.held, claimed...)
}

// outcome ends or prolongs a run, often one that was lost long ago.
func (m *machine) outcome(t *rapid.T) {
	if len(m.held) == 0 {
		t.Skip("nothing was claimed yet")
	}
	m.end(t, rapid.SampledFrom(m.held).Draw(t, "held"))
}

// run is what a worker does.
func (m *machine) run(t *rapid.T) {
	before := len(m.held)
	m.claim(t)
	for _, j := range m.held[before:] {
		m.end(t, j)
	}
}

func (m *machine) end(t *rapid.T, j models.Job) {
	after := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "after")
	name := rapid.SampledFrom([]string{"complete", "retry", "fail", "release", "extend"}).Draw(t, "verb")
	cause := fmt.Errorf("cause %d", len(m.held))
	stands, err := m.verb(t, func(db *gorm.DB) error {
		switch name {
		case "complete":
			return jobs.Complete(t.Context(), db, &j)
		case "retry":
			return jobs.Retry(t.Context(), db, &j, cause, after)
		case "fail":
			return jobs.Fail(t.Context(), db, &j, cause)
		case "release":
			return jobs.Release(t.Context(), db, &j, after)
		}
		return jobs.Extend(t.Context(), db, &j, time.Hour)
	})
	w := m.jobs[j.ID]
	if w == nil || w.state != models.Processing || w.token != j.ReservedBy {
		if !errors.Is(err, jobs.ErrLost) {
			t.Fatalf("%s of job %d for %s = %v; want ErrLost: the row is %+v", name, j.ID, j.ReservedBy, err, w)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s of job %d = %v; want it done: the row is %+v", name, j.ID, err, w)
	}
	if !stands {
		return
	}
	back := func() {
		w.state, w.due = models.Pending, false
		if after > 0 {
			w.state = models.Scheduled
		}
	}
	switch name {
	case "complete":
		w.finish(models.Completed)
	case "retry":
		back()
		w.failures++
		w.moved, w.errorText = true, cause.Error()
	case "fail":
		w.finish(models.Failed)
		w.failures++
		w.errorText = cause.Error()
	case "release":
		back()
		w.attempts--
		w.moved = after > 0
	case "extend":
		w.expired = false
	}
}

func (m *machine) expire(t *rapid.T) {
	id, w := m.some(t, models.Processing)
	m.set(t, id, map[string]any{"reserved_until": 1})
	w.expired = true
}

func (m *machine) reap(t *rapid.T) {
	var want jobs.Reaped
	for id, w := range m.jobs {
		if w.state != models.Processing || !w.expired {
			continue
		}
		w.token = ""
		w.failures++
		w.errorText = "the lease ended: the worker died, was stopped, or could not reach the database"
		if w.attempts >= w.max {
			w.finish(models.Failed)
			want.Failed++
			continue
		}
		want.Returned++
		w.state, w.moved, w.due = models.Pending, true, false
		if w.attempts > 1 {
			w.state = models.Scheduled
			defer m.set(t, id, map[string]any{"due_at": 4e15}) // seconds pass on a slow machine
		}
	}
	if got, err := jobs.Reap(t.Context(), m.db); err != nil || got != want {
		t.Fatalf("Reap = %+v, %v; want %+v", got, err, want)
	}
}

func (m *machine) comeDue(t *rapid.T) {
	id, w := m.some(t, models.Scheduled)
	m.set(t, id, map[string]any{"due_at": 1})
	w.due = true
}

func (m *machine) promote(t *rapid.T) {
	want := 0
	for _, w := range m.jobs {
		if w.state == models.Scheduled && w.due {
			w.state = models.Pending
			want++
		}
	}
	if got, err := jobs.Promote(t.Context(), m.db); err != nil || got != want {
		t.Fatalf("Promote = %d, %v; want %d", got, err, want)
	}
}

// operate runs an operator's verb on any job, whatever its state.
func (m *machine) operate(t *rapid.T) {
	type verb struct {
		name string
		do   func(context.Context, *gorm.DB, uint64) error
		from []models.State
	}
	v := rapid.SampledFrom([]verb{
		{"cancel", jobs.Cancel, []models.State{models.Pending, models.Scheduled}},
		{"requeue", jobs.Requeue, []models.State{models.Failed, models.Cancelled}},
		{"delete", jobs.Delete, []models.State{models.Completed, models.Failed, models.Cancelled}},
	}).Draw(t, "verb")
	id, w := m.some(t)
	stands, err := m.verb(t, func(db *gorm.DB) error { return v.do(t.Context(), db, id) })
	if w == nil {
		if !errors.Is(err, jobs.ErrNotFound) {
			t.Fatalf("%s of job %d, which is not there = %v; want ErrNotFound", v.name, id, err)
		}
		return
	}
	if !slices.Contains(v.from, w.state) {
		var state *jobs.StateError
		if !errors.As(err, &state) || *state != (jobs.StateError{ID: id, State: w.state, Verb: v.name}) {
			t.Fatalf("%s of job %d = %v; want a StateError: it is %s", v.name, id, err, w.state)
		}
		return
	}
	if holder := m.holder(w.key); v.name == "requeue" && holder != 0 && holder != id {
		var taken *jobs.DuplicateError
		if !errors.As(err, &taken) || *taken != (jobs.DuplicateError{ID: id, Holder: holder}) {
			t.Fatalf("requeue of job %d = %v; want a DuplicateError: job %d has its key", id, err, holder)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s of job %d = %v; want it done: it is %s", v.name, id, err, w.state)
	}
	if !stands {
		return
	}
	switch v.name {
	case "cancel":
		w.finish(models.Cancelled)
	case "requeue":
		w.state, w.attempts, w.live, w.moved = models.Pending, 0, true, true
	case "delete":
		m.forget(id)
	}
}

func (m *machine) forget(id uint64) {
	delete(m.jobs, id)
	m.gone = append(m.gone, id)
}

func (m *machine) age(t *rapid.T) {
	id, w := m.some(t, models.Completed, models.Failed, models.Cancelled)
	m.set(t, id, map[string]any{"finished_at": 1 + rapid.IntRange(0, 2).Draw(t, "finished")})
	w.old = true
}

func (m *machine) prune(t *rapid.T) {
	var old []uint64
	for id, w := range m.jobs {
		if w.state.Finished() && w.old {
			old = append(old, id)
		}
	}
	n, err := jobs.Prune(t.Context(), m.db, jobs.PruneOptions{Batch: rapid.IntRange(1, 3).Draw(t, "batch"), Pause: time.Microsecond})
	if err != nil || n != len(old) {
		t.Fatalf("Prune = %d, %v; want %d", n, err, len(old))
	}
	for _, id := range old {
		m.forget(id)
	}
}

// agree compares all rows with the model.
func (m *machine) agree(t *rapid.T) {
	var rows []models.Job
	if err := m.db.Preload("Failures", func(q *gorm.DB) *gorm.DB { return q.Order("id") }).Order("id").Find(&rows).Error; err != nil {
		t.Fatal(err)
	}
	failures := 0
	for _, j := range rows {
		w := m.jobs[j.ID]
		if w == nil {
			t.Fatalf("job %d is there, and %s; want it gone", j.ID, j.State)
		}
		failures += len(j.Failures)
		got := wish{state: j.State, queue: j.Queue, priority: j.Priority, attempts: j.Attempts, max: j.MaxAttempts, token: j.ReservedBy,
			live: j.UniqueLive != nil, failures: len(j.Failures), place: j.AvailableAt, errorText: j.LastError}
		want := *w
		want.live = w.live && w.key != ""
		want.key, want.expired, want.due, want.old, want.moved = "", false, false, false, false
		if w.moved {
			w.place, w.moved = j.AvailableAt, false
			want.place = j.AvailableAt
		}
		if got != want {
			t.Fatalf("job %d is %+v; want %+v", j.ID, got, want)
		}
		if (j.DueAt != 0) != (w.state == models.Scheduled) || (j.FinishedAt != 0) != w.state.Finished() {
			t.Fatalf("job %d is %s with due_at %s and finished_at %s", j.ID, j.State, j.DueAt, j.FinishedAt)
		}
		if n := len(j.Failures); n > 0 && j.Failures[n-1].Error != w.errorText {
			t.Fatalf("the last failure of job %d is %q; want %q", j.ID, j.Failures[n-1].Error, w.errorText)
		}
	}
	if len(rows) != len(m.jobs) {
		t.Fatalf("%d jobs; want %d", len(rows), len(m.jobs))
	}
	var all int64
	if err := m.db.Model(&models.Failure{}).Count(&all).Error; err != nil || all != int64(failures) {
		t.Fatalf("%d failures, %v; %d of them have a job", all, err, failures)
	}
}

// rapidly sets how long the model test runs, which rapid takes from flags only.
func rapidly(t *testing.T, checks int) {
	t.Helper()
	if os.Getenv("GORMJOBS_TEST_LONG") != "" {
		checks *= 30
	}
	for name, value := range map[string]string{"rapid.checks": strconv.Itoa(checks), "rapid.steps": "100", "rapid.nofailfile": "true"} {
		f := flag.Lookup(name)
		if f.Value.String() != f.DefValue {
			continue // asked for on the command line
		}
		before := f.DefValue
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(before) })
	}
}

// Whatever sequence of verbs several claimers, an operator and the upkeep come up
// with: each returns what its documentation says, and the rows are as it says.
func TestEverySequenceOfVerbsDoesWhatTheModelSays(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		checks := 20
		if testdb.KindOf(db) == testdb.SQLite {
			checks = 60
		}
		rapidly(t, checks)
		rapid.Check(t, func(t *rapid.T) {
			m := newMachine(t, db)
			t.Repeat(map[string]func(*rapid.T){
				"enqueue": m.enqueue, "enqueue more": m.enqueue, "claim": m.claim, "run": m.run, "run more": m.run,
				"outcome": m.outcome, "expire": m.expire, "reap": m.reap, "come due": m.comeDue, "promote": m.promote,
				"operate": m.operate, "operate more": m.operate, "age": m.age, "prune": m.prune, "": m.agree,
			})
		})
	})
}
