package scheduler_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
	"github.com/gormjobs/gormjobs/scheduler"
)

func TestTickGivesOneJobHoweverManySchedulersRun(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		for range 3 {
			run(t, newScheduler(t, testdb.Again(t, db), cronOnly(), scheduler.Entry{Name: "beat", Spec: "@every 1s", Payload: report{}}))
		}
		var got []time.Time
		until(t, "there are jobs for 4 ticks", func() bool { got = tickedFor(t, db, "default"); return len(got) >= 4 })
		for i := range len(got) - 1 {
			if d := got[i+1].Sub(got[i]); d != time.Second {
				t.Errorf("jobs for the ticks %v; want one for each second", got)
			}
		}
	}, testdb.Parallel)
}

// frozen is a pool whose first transaction begins only when the test lets it.
type frozen struct {
	*sql.DB
	first              atomic.Bool
	begun, thaw, ended chan struct{}
}

// freeze gives db such a pool.
func freeze(t *testing.T, db *gorm.DB) *frozen {
	pool := poolOf(t, db)
	f := &frozen{DB: pool, begun: make(chan struct{}), thaw: make(chan struct{}), ended: make(chan struct{})}
	db.ConnPool, db.Statement.ConnPool = f, f
	return f
}

// BeginTx implements gorm.ConnPoolBeginner.
func (f *frozen) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	if f.first.Swap(true) {
		return f.DB.BeginTx(ctx, opts)
	}
	close(f.begun)
	<-f.thaw
	tx, err := f.DB.BeginTx(ctx, opts)
	return &thawed{tx, f}, err
}

type thawed struct {
	*sql.Tx
	f *frozen
}

func (t *thawed) Commit() error {
	defer close(t.f.ended)
	return t.Tx.Commit()
}

func TestSchedulerThatWasStoppedBeforeItsClaimChangesNothing(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		for name, meanwhile := range map[string]map[string]any{
			// Its time has come too: the clock alone is no guard.
			"others-acted-on-the-tick": {"next_tick": models.At(now.Add(-10 * time.Second))},
			"another-version-has-it":   {"spec": "@every 77h"},
		} {
			beat := scheduler.Entry{Name: name, Spec: away(now), Payload: report{}}
			insertRow(t, db, name, beat.Spec, now.Add(-20*time.Second))
			stopped := testdb.Again(t, db)
			f := freeze(t, stopped)
			stop := run(t, newScheduler(t, stopped, cronOnly(), beat))
			<-f.begun
			if err := db.Model(&models.Schedule{}).Where("name = ?", name).Updates(meanwhile).Error; err != nil {
				t.Fatal(err)
			}
			before := rowOf(t, db, name)
			close(f.thaw)
			<-f.ended
			stop()
			wantTicks(t, db, "default")
			if after := rowOf(t, db, name); after != before {
				t.Errorf("%s: the row is %+v; want it untouched: %+v", name, after, before)
			}
		}
	})
}

func TestTickWhoseEnqueueFailsIsRetried(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		tick := now.Add(-20 * time.Second).Truncate(time.Second)
		failures := new(atomic.Int32)
		failures.Store(3)
		insertRow(t, db, "flaky", away(now), tick)
		run(t, newScheduler(t, db, cronOnly(), scheduler.Entry{Name: "flaky", Spec: away(now), Payload: flaky{failures}}))
		until(t, "the job is there", func() bool { return len(tickedFor(t, db, "default")) > 0 })
		wantTicks(t, db, "default", tick)
		if row := rowOf(t, db, "flaky"); row.LastTick != models.At(tick) || failures.Load() != -1 {
			t.Errorf("last_tick = %s after %d more encodings; want %s and the first that worked", row.LastTick, -1-failures.Load(), tick)
		}
	}, testdb.Parallel)
}

// It panics instead of failing: the process goes on, and so does the tick.
func TestTickWhoseOptionPanicsIsRetried(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite)
	now := clock(t, db)
	tick := now.Add(-20 * time.Second).Truncate(time.Second)
	insertRow(t, db, "flaky", away(now), tick)
	var calls atomic.Int32
	boom := func(*dispatcher.Request) {
		if calls.Add(1) == 1 {
			panic("boom")
		}
	}
	run(t, newScheduler(t, db, cronOnly(), scheduler.Entry{Name: "flaky", Spec: away(now), Payload: report{}, Options: []dispatcher.Option{boom}}))
	until(t, "the job is there", func() bool { return len(tickedFor(t, db, "default")) > 0 })
	wantTicks(t, db, "default", tick)
}

func TestTickIsNotTakenBeforeItsTime(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		run(t, newScheduler(t, db, cronOnly(), scheduler.Entry{Name: "beat", Spec: "@every 1s", Payload: report{}}))
		until(t, "there are 2 jobs", func() bool { return len(tickedFor(t, db, "default")) >= 2 })
		var jobs []models.Job
		if err := db.Limit(2).Find(&jobs).Error; err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if tick, _ := scheduler.Tick(&j); j.CreatedAt.Time().Before(tick) {
				t.Errorf("the job for %s was enqueued at %s, before", tick, j.CreatedAt)
			}
		}
	}, testdb.Parallel)
}

func TestWorkersOfTheProcessAreTold(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		now := clock(t, db)
		hub, err := session.HubOf(db)
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan int, 1)
		defer hub.Subscribe(func(n session.News) {
			if n.Committed && n.Queue == "mail" {
				// Through another pool: the job is there for others.
				select {
				case told <- 1:
				default:
				}
			}
		})()
		insertRow(t, db, "beat", away(now), now.Add(-time.Second))
		run(t, newScheduler(t, db, cronOnly(), scheduler.Entry{Name: "beat", Spec: away(now), Payload: report{}, Options: []dispatcher.Option{dispatcher.Queue("mail")}}))
		select {
		case <-told:
			if n := len(tickedFor(t, db, "mail")); n != 1 {
				t.Errorf("%d jobs when the workers were told; want 1", n)
			}
		case <-time.After(30 * time.Second):
			t.Error("no worker was told of the job")
		}
	})
}
