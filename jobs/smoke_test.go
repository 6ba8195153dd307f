package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

type ping struct {
	N int `json:"n"`
}

func (ping) JobType() string { return "ping" }

func TestSmoke(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		ctx := t.Context()
		if err := models.Migrate(db); err != nil {
			t.Fatal(err)
		}
		reg := handlers.NewRegistry()
		handlers.Register(reg, func(ctx context.Context, p ping) error {
			if p.N == 7 {
				return errors.New("seven")
			}
			return nil
		})
		w, err := jobs.NewWorker(db, reg, jobs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if _, err := dispatcher.EnqueueNow(ctx, db, ping{i}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := dispatcher.EnqueueNow(ctx, db, ping{1}, dispatcher.Unique("a"))
		t.Log(r, err)
		r, err = dispatcher.EnqueueNow(ctx, db, ping{1}, dispatcher.Unique("a"))
		t.Log(r, err)
		r, err = dispatcher.EnqueueNow(ctx, db, ping{1}, dispatcher.UniqueFor("a", time.Hour), dispatcher.At(time.Now().Add(time.Hour)))
		t.Log(r, err)
		r, err = dispatcher.EnqueueNow(ctx, db, ping{1}, dispatcher.Delay(time.Hour))
		t.Log(r, err)
		err = db.Transaction(func(tx *gorm.DB) error {
			rs, err := dispatcher.EnqueueMany(ctx, tx, []ping{{20}, {21}, {22}}, dispatcher.Metadata(map[string]string{"a": "b"}))
			t.Log(rs, err)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		b, err := jobs.Backlog(ctx, db, 100)
		t.Log(b, err)
		n, err := w.Drain(ctx)
		t.Log(n, err, w.Stats())
		c, err := jobs.Count(ctx, db)
		t.Log(c, err)
		j, err := jobs.Get(ctx, db, 8)
		t.Logf("%+v %v", j, err)
		b, err = jobs.Backlog(ctx, db, 100)
		t.Log(b, err)
		rp, err := jobs.Reap(ctx, db)
		t.Log(rp, err)
		np, err := jobs.Prune(ctx, db, jobs.PruneOptions{Completed: time.Microsecond})
		t.Log(np, err)
		if err := jobs.Cancel(ctx, db, r.ID); err != nil {
			t.Fatal(err)
		}
		if err := jobs.Requeue(ctx, db, r.ID); err != nil {
			t.Fatal(err)
		}
		ctx2, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := w.Run(ctx2); err != nil {
			t.Fatal(err)
		}
		if err := jobs.Delete(ctx, db, r.ID); err != nil {
			t.Fatal(err)
		}
	})
}
