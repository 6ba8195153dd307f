package dispatcher_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
	"gorm.io/plugin/dbresolver"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

var errBusiness = errors.New("out of stock")

// configurations are ways to open the application's handle.
var configurations = []struct {
	name   string
	change func(*gorm.Config)
}{
	{"default", func(*gorm.Config) {}},
	{"PrepareStmt", func(c *gorm.Config) { c.PrepareStmt = true }},
	{"SkipDefaultTransaction", func(c *gorm.Config) { c.SkipDefaultTransaction = true }},
	{"TablePrefix and SingularTable", func(c *gorm.Config) {
		c.NamingStrategy = schema.NamingStrategy{TablePrefix: "app_", SingularTable: true}
	}},
	{"NoLowerCase", func(c *gorm.Config) {
		c.NamingStrategy = schema.NamingStrategy{NoLowerCase: true, TablePrefix: "Upper"}
	}},
	{"PrepareStmt and a prefix", func(c *gorm.Config) {
		c.PrepareStmt = true
		c.NamingStrategy = schema.NamingStrategy{TablePrefix: "p_"}
	}},
	{"QueryFields, CreateBatchSize, TranslateError, AllowGlobalUpdate", func(c *gorm.Config) {
		c.QueryFields, c.CreateBatchSize, c.TranslateError, c.AllowGlobalUpdate = true, 50, true, true
	}},
	{"DisableNestedTransaction", func(c *gorm.Config) { c.DisableNestedTransaction = true }},
}

func TestJobIsThereIfAndOnlyIfTheTransactionCommits(t *testing.T) {
	testdb.Each(t, func(t *testing.T, first *gorm.DB) {
		for _, c := range configurations {
			t.Run(c.name, func(t *testing.T) {
				db := testdb.Again(t, first, testdb.GormConfig(c.change))
				if err := models.Migrate(db); err != nil {
					t.Fatal(err)
				}
				migrateOrders(t, db)
				clearTables(t, db)
				commitsAndRollsBack(t, db, db)
			})
		}
	})
}

func TestJobFollowsTheTransactionUnderDBResolver(t *testing.T) {
	for _, prepare := range []bool{false, true} {
		t.Run(fmt.Sprintf("PrepareStmt=%v", prepare), func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				migrateOrders(t, db)
				replica := testdb.Open(t, testdb.KindOf(db), testdb.Empty) // it has no tables
				resolver := dbresolver.Register(dbresolver.Config{Replicas: []gorm.Dialector{replica.Dialector}})
				if err := db.Use(resolver); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					resolver.Call(func(pool gorm.ConnPool) error { return pool.(*sql.DB).Close() })
				})
				commitsAndRollsBack(t, db, testdb.Again(t, db))
				if r, err := dispatcher.EnqueueNow(t.Context(), db, welcome{8}, dispatcher.Unique("k")); err != nil || r.Duplicate {
					t.Errorf("EnqueueNow = %+v, %v; want a new job", r, err)
				}
				if r, err := dispatcher.EnqueueNow(t.Context(), db, welcome{8}, dispatcher.Unique("k")); err != nil || !r.Duplicate {
					t.Errorf("EnqueueNow = %+v, %v; want a duplicate, read from the primary", r, err)
				}
			}, testdb.GormConfig(func(c *gorm.Config) { c.PrepareStmt = prepare }))
		})
	}
}

// commitsAndRollsBack enqueues through db with an order beside it, both ways, and
// reads through plain what came of it.
func commitsAndRollsBack(t *testing.T, db, plain *gorm.DB) {
	t.Helper()
	enqueue := func(outcome error) dispatcher.Receipt {
		var receipt dispatcher.Receipt
		err := db.Transaction(func(tx *gorm.DB) error {
			if err := tx.Create(&order{Note: "one"}).Error; err != nil {
				return err
			}
			var err error
			if receipt, err = dispatcher.Enqueue(t.Context(), tx, welcome{7}); err != nil {
				return err
			}
			return outcome
		})
		if !errors.Is(err, outcome) {
			t.Fatalf("Transaction = %v; want %v", err, outcome)
		}
		return receipt
	}
	enqueue(errBusiness)
	wantCount(t, plain, &models.Job{}, 0)
	wantCount(t, plain, &order{}, 0)
	receipt := enqueue(nil)
	if j := theJob(t, plain); j.ID != receipt.ID || j.Payload != `{"user_id":7}` || j.State != models.Pending {
		t.Errorf("job = %d %s %s; want %d {\"user_id\":7} pending", j.ID, j.Payload, j.State, receipt.ID)
	}
}
