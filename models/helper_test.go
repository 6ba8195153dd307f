package models_test

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"

	"github.com/gormjobs/gormjobs/internal/testdb"
)

// spy is a pool that notes the statements, and whether it was gone around.
type spy struct {
	*sql.DB
	mu   sync.Mutex
	sent []string
	past int // times the pool itself was asked for, as a migration does
}

func (s *spy) GetDBConn() (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past++
	return s.DB, nil
}

func (s *spy) note(query string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, query)
}

func (s *spy) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s.note(query)
	return s.DB.ExecContext(ctx, query, args...)
}

func (s *spy) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s.note(query)
	return s.DB.QueryContext(ctx, query, args...)
}

func (s *spy) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s.note(query)
	return s.DB.QueryRowContext(ctx, query, args...)
}

// watched is db with a spy as its pool.
func watched(t *testing.T, db *gorm.DB) (*gorm.DB, *spy) {
	t.Helper()
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	s := &spy{DB: pool}
	db = db.WithContext(t.Context())
	db.Statement.ConnPool = s
	return db, s
}

// strategies are the ways applications name tables.
var strategies = map[string]schema.NamingStrategy{
	"default":       {},
	"TablePrefix":   {TablePrefix: "app_"},
	"SingularTable": {SingularTable: true},
	"NoLowerCase":   {NoLowerCase: true},
	"long names":    {TablePrefix: strings.Repeat("p", 63-len("queue_schedules")-1) + "_"},
	"index names of 64 characters": {
		TablePrefix: strings.Repeat("q", 64-len("idx_queue_jobs_claim_v1")-1) + "_",
	},
	"hyphen": {TablePrefix: "my-app_"},
}

// eachStrategy runs fn on an empty database under each naming strategy, and on
// PostgreSQL in a schema too.
func eachStrategy(t *testing.T, fn func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	for name, strategy := range strategies {
		t.Run(name, func(t *testing.T) {
			testdb.Each(t, fn, testdb.Empty, testdb.GormConfig(named(strategy)))
		})
	}
	t.Run("schema", func(t *testing.T) {
		testdb.Each(t, func(t *testing.T, db *gorm.DB) {
			if err := db.Exec("CREATE SCHEMA jobs").Error; err != nil {
				t.Fatal(err)
			}
			fn(t, db)
		}, testdb.Empty, testdb.Only(testdb.Postgres), testdb.GormConfig(named(schema.NamingStrategy{TablePrefix: "jobs."})))
	})
}

func named(strategy schema.NamingStrategy) func(*gorm.Config) {
	return func(c *gorm.Config) { c.NamingStrategy, c.Logger = strategy, logger.Discard }
}
