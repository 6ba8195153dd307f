package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// effect is what a RegisterTx handler does: N is unique, so that doing it twice
// is an error.
type effect struct {
	ID   uint
	N    int `gorm:"uniqueIndex"`
	Note string
}

// eachWithEffects is testdb.Each with the table of effects, with and without
// PrepareStmt.
func eachWithEffects(t *testing.T, fn func(t *testing.T, db *gorm.DB), opts ...testdb.Option) {
	for _, prepared := range []bool{false, true} {
		t.Run(fmt.Sprintf("PrepareStmt=%t", prepared), func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				if err := db.AutoMigrate(&effect{}); err != nil {
					t.Fatal(err)
				}
				fn(t, db)
			}, append(opts, testdb.GormConfig(func(c *gorm.Config) { c.PrepareStmt = prepared }))...)
		})
	}
}

func onPingTx(fn func(context.Context, *gorm.DB, ping) error, opts ...handlers.Option) *handlers.Registry {
	reg := handlers.NewRegistry()
	handlers.RegisterTx(reg, fn, opts...)
	return reg
}

func wantEffects(t *testing.T, db *gorm.DB, want int64) {
	t.Helper()
	var n int64
	if err := db.Model(&effect{}).Count(&n).Error; err != nil || n != want {
		t.Errorf("%d effects, %v; want %d", n, err, want)
	}
}

func TestWritesOfARegisterTxHandlerCommitWithItsJob(t *testing.T) {
	eachWithEffects(t, func(t *testing.T, db *gorm.DB) {
		reg := onPingTx(func(ctx context.Context, tx *gorm.DB, p ping) error {
			if j, ok := handlers.JobFrom(ctx); !ok || j.Attempts != 1 {
				t.Errorf("JobFrom = %v, %t; want the job in its first attempt", j, ok)
			}
			if err := tx.Create(&effect{N: p.N}).Error; err != nil {
				return err
			}
			if _, err := dispatcher.Enqueue(ctx, tx, ping{p.N}, dispatcher.Delay(time.Hour)); err != nil {
				return err
			}
			switch p.N {
			case 1:
				return errBoom
			case 2:
				panic("half-way")
			case 3:
				return handlers.Snooze(time.Hour)
			}
			return nil
		})
		ids := enqueuePings(t, db, 4)
		drain(t, newWorker(t, db, reg, jobs.Config{}), 4)
		wantState(t, db, ids[0], models.Completed, 1)
		wantState(t, db, ids[1], models.Scheduled, 1)
		wantState(t, db, ids[2], models.Scheduled, 1)
		wantState(t, db, ids[3], models.Scheduled, 0)
		wantEffects(t, db, 1)
		counts, err := jobs.Count(t.Context(), db)
		if err != nil || counts[models.Scheduled] != 4 { // the three, and the one that the first enqueued
			t.Errorf("Count = %v, %v; want 4 scheduled", counts, err)
		}
	})
}

func TestRegisterTxHandlerCannotEndItsTransaction(t *testing.T) {
	eachWithEffects(t, func(t *testing.T, db *gorm.DB) {
		said := make(chan error, 10)
		reg := onPingTx(func(_ context.Context, tx *gorm.DB, p ping) error {
			if err := tx.Create(&effect{N: p.N}).Error; err != nil {
				return err
			}
			switch p.N {
			case 0:
				said <- tx.Session(&gorm.Session{}).Commit().Error
				return errBoom
			case 1:
				said <- tx.Session(&gorm.Session{}).Rollback().Error
				return nil
			default: // goes on after the refusal
				said <- tx.Session(&gorm.Session{}).Commit().Error
				return tx.Model(&effect{}).Where("n = ?", p.N).Update("note", "after").Error
			}
		})
		ids := enqueuePings(t, db, 3)
		drain(t, newWorker(t, db, reg, jobs.Config{Queues: jobs.Queues{"default": 1}}), 3)
		for range ids {
			if err := receive(t, said, "the handlers end it"); err == nil || !strings.Contains(err.Error(), "commits with the job's completion") {
				t.Errorf("Commit or Rollback = %v; want that it commits with the job", err)
			}
		}
		wantState(t, db, ids[0], models.Scheduled, 1)
		wantState(t, db, ids[1], models.Completed, 1)
		wantState(t, db, ids[2], models.Completed, 1)
		wantEffects(t, db, 2)
	})
}

func TestRegisterTxHandlerMayNestTransactions(t *testing.T) {
	eachWithEffects(t, func(t *testing.T, db *gorm.DB) {
		reg := onPingTx(func(_ context.Context, tx *gorm.DB, p ping) error {
			err := tx.Transaction(func(tx *gorm.DB) error {
				if err := tx.Create(&effect{N: 1}).Error; err != nil {
					return err
				}
				return errBoom
			})
			if !errors.Is(err, errBoom) {
				return fmt.Errorf("the inner transaction = %w; want boom", err)
			}
			return tx.Transaction(func(tx *gorm.DB) error { return tx.Create(&effect{N: 2}).Error })
		})
		id := enqueue(t, db, ping{})
		drain(t, newWorker(t, db, reg, jobs.Config{}), 1)
		wantState(t, db, id, models.Completed, 1)
		wantEffects(t, db, 1)
	})
}

// On SQLite nobody can take the job while the handler's transaction is open.
func TestRegisterTxThatLosesItsLeaseCommitsNothing(t *testing.T) {
	eachWithEffects(t, func(t *testing.T, db *gorm.DB) {
		entered, proceed := make(chan int, 2), make(chan struct{})
		reg := onPingTx(func(ctx context.Context, tx *gorm.DB, p ping) error {
			j, _ := handlers.JobFrom(ctx)
			if j.Attempts == 2 {
				entered <- 2
			}
			if err := tx.Create(&effect{N: p.N, Note: fmt.Sprint("run ", j.Attempts)}).Error; err != nil {
				return err // the second run waits here for the first one's end
			}
			if j.Attempts == 1 {
				entered <- 1
				<-proceed // deaf to its context
			}
			return nil
		})
		id := enqueue(t, db, ping{7})
		w := newWorker(t, db, reg, jobs.Config{})
		stop := start(t, w)
		receive(t, entered, "the handler starts")
		expire(t, db, id)
		reap(t, db, jobs.Reaped{Returned: 1})
		receive(t, entered, "the worker has the job again")
		close(proceed)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if s := w.Stats(); s.Lost != 1 || s.Completed != 1 {
			t.Errorf("Stats = %+v; want 1 lost, 1 completed", s)
		}
		var all []effect
		if err := db.Find(&all).Error; err != nil || len(all) != 1 || all[0].Note != "run 2" {
			t.Errorf("effects %v, %v; want the second run's", all, err)
		}
		wantState(t, db, id, models.Completed, 2)
	}, testdb.Servers)
}

func TestRegisterTxHasTheApplicationsCallbacksAtReadCommitted(t *testing.T) {
	eachWithEffects(t, func(t *testing.T, db *gorm.DB) {
		stamp := func(tx *gorm.DB) {
			if e, ok := tx.Statement.Dest.(*effect); ok {
				e.Note = "stamped"
			}
		}
		if err := db.Callback().Create().Before("gorm:create").Register("stamp", stamp); err != nil {
			t.Fatal(err)
		}
		// What another connection commits between two reads shows in the second one.
		other := testdb.Again(t, db)
		reg := onPingTx(func(_ context.Context, tx *gorm.DB, p ping) error {
			if testdb.KindOf(db) != testdb.SQLite {
				wantEffects(t, tx, 0)
				if err := other.Create(&effect{N: 1}).Error; err != nil {
					return err
				}
				wantEffects(t, tx, 1)
			}
			return tx.Create(&effect{N: 2}).Error
		})
		id := enqueue(t, db, ping{})
		drain(t, newWorker(t, db, reg, jobs.Config{}), 1)
		wantState(t, db, id, models.Completed, 1)
		var e effect
		if err := db.Where("n = 2").Take(&e).Error; err != nil || e.Note != "stamped" {
			t.Errorf("effect %+v, %v; want it stamped", e, err)
		}
	})
}
