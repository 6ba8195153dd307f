package dispatcher_test

import (
	"context"
	"testing"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// tenant is a plugin that means every statement of the application.
type tenant struct{}

func (tenant) Name() string { return "tenant" }

func (tenant) Initialize(db *gorm.DB) error {
	where := func(condition string) func(*gorm.DB) {
		return func(db *gorm.DB) {
			if db.Statement.SQL.Len() == 0 {
				db.Statement.AddClause(clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: condition}}})
			}
		}
	}
	set := func(db *gorm.DB) { db.Statement.SetColumn("TenantID", 7, true) }
	refuse := func(db *gorm.DB) {
		if db.Statement.SQL.Len() > 0 {
			db.AddError(errRaw)
		}
	}
	cb := db.Callback()
	for _, err := range []error{
		cb.Query().Before("gorm:query").Register("tenant:query", where("tenant_id = 7")),
		cb.Query().Before("gorm:query").Register("soft:query", where("deleted_at IS NULL")),
		cb.Row().Before("gorm:row").Register("tenant:row", refuse),
		cb.Raw().Before("gorm:raw").Register("tenant:raw", refuse),
		cb.Update().Before("gorm:update").Register("tenant:update", where("tenant_id = 7")),
		cb.Delete().Before("gorm:delete").Register("tenant:delete", where("tenant_id = 7")),
		cb.Create().Before("gorm:create").Register("tenant:create", set),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

type rawError struct{}

func (rawError) Error() string { return "the application forbids raw SQL" }

var errRaw rawError

func TestApplicationsPluginsDoNotTouchJobs(t *testing.T) {
	testdb.Each(t, func(t *testing.T, plain *gorm.DB) {
		db := testdb.Again(t, plain)
		if err := db.Use(tenant{}); err != nil {
			t.Fatal(err)
		}
		if err := db.Find(&[]models.Job{}).Error; err == nil {
			t.Fatal("the plugin lets a query pass; want it to add its WHERE")
		}
		liveOneLife(t, db, plain)
	})
}

func TestApplicationsConfigurationDoesNotTouchJobs(t *testing.T) {
	testdb.Each(t, func(t *testing.T, plain *gorm.DB) {
		liveOneLife(t, testdb.Again(t, plain, testdb.GormConfig(func(c *gorm.Config) {
			c.QueryFields, c.CreateBatchSize, c.TranslateError = true, 50, true
			c.DefaultContextTimeout = time.Nanosecond // no statement of the application can pass
			c.PropagateUnscoped, c.FullSaveAssociations = true, true
			c.NowFunc = func() time.Time { return time.Time{} }
			c.Logger = logger.Default.LogMode(logger.Silent)
		})), plain)
	})
}

// An application's limit for its own transactions is not the library's.
func TestDefaultTransactionTimeoutIsTheApplications(t *testing.T) {
	testdb.Each(t, func(t *testing.T, plain *gorm.DB) {
		db := testdb.Again(t, plain, testdb.GormConfig(func(c *gorm.Config) { c.DefaultTransactionTimeout = time.Nanosecond }))
		if err := db.Transaction(func(tx *gorm.DB) error { return nil }); err == nil {
			t.Fatal("the application's transaction passes; want its limit to end it")
		}
		for range 2 {
			if _, err := dispatcher.EnqueueNow(t.Context(), db, welcome{7}, dispatcher.Unique("k")); err != nil {
				t.Errorf("EnqueueNow = %v; want nil", err)
			}
		}
		wantCount(t, plain, &models.Job{}, 1)
	})
}

func TestPostgresWithTheSimpleProtocol(t *testing.T) {
	testdb.Each(t, func(t *testing.T, plain *gorm.DB) {
		for _, prepare := range []bool{false, true} {
			db, err := gorm.Open(postgres.New(postgres.Config{DSN: testdb.DSN(plain), PreferSimpleProtocol: true}),
				&gorm.Config{PrepareStmt: prepare, Logger: logger.Discard})
			if err != nil {
				t.Fatal(err)
			}
			liveOneLife(t, db, plain)
			if pool, err := db.DB(); err == nil {
				pool.Close()
			}
		}
	}, testdb.Only(testdb.Postgres))
}

// liveOneLife migrates, enqueues in every way, and runs the jobs, all through db.
func liveOneLife(t *testing.T, db, plain *gorm.DB) {
	t.Helper()
	clearJobs(t, plain)
	if err := models.Migrate(db); err != nil {
		t.Fatal(err)
	}
	if err := models.Check(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	tx := plain.Begin() // a limit of db may end its own
	defer tx.Rollback()
	handle := db.Session(&gorm.Session{Context: context.Background()})
	handle.Statement.ConnPool = tx.Statement.ConnPool
	ps := make([]keyed, 120)
	ps[0].Key, ps[119].Key = "k", "k"
	receipts, err := dispatcher.EnqueueMany(t.Context(), handle, ps)
	if err != nil || !receipts[119].Duplicate || receipts[119].ID != receipts[0].ID {
		t.Fatalf("EnqueueMany = %v, %v; want the last a duplicate", receipts, err)
	}
	if _, err := dispatcher.Enqueue(t.Context(), handle, welcome{1}, dispatcher.Delay(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit().Error; err != nil {
		t.Fatal(err)
	}
	if _, err := dispatcher.EnqueueNow(t.Context(), db, welcome{2}); err != nil {
		t.Fatal(err)
	}
	wantCount(t, plain, &models.Job{}, 121)
	registry := handlers.NewRegistry()
	handlers.Register(registry, func(context.Context, keyed) error { return nil })
	handlers.Register(registry, func(context.Context, welcome) error { return nil })
	w, err := jobs.NewWorker(db, registry, jobs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.Drain(t.Context()); n != 120 || err != nil {
		t.Errorf("Drain = %d, %v; want 120", n, err)
	}
}
