package dispatcher_test

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/models"
)

// welcome is a job of the tests' application, and order a row of its own.
type welcome struct {
	UserID int `json:"user_id"`
}

func (welcome) JobType() string { return "welcome" }

type order struct {
	ID   uint
	Note string
}

func migrateOrders(t *testing.T, db *gorm.DB) {
	t.Helper()
	if err := db.AutoMigrate(&order{}); err != nil {
		t.Fatal(err)
	}
}

// allJobs reads the rows as an application would.
func allJobs(t *testing.T, db *gorm.DB) []models.Job {
	t.Helper()
	var all []models.Job
	if err := db.Session(&gorm.Session{NewDB: true}).Order("id").Find(&all).Error; err != nil {
		t.Fatal(err)
	}
	return all
}

func theJob(t *testing.T, db *gorm.DB) models.Job {
	t.Helper()
	all := allJobs(t, db)
	if len(all) != 1 {
		t.Fatalf("jobs = %d; want 1", len(all))
	}
	return all[0]
}

func wantCount(t *testing.T, db *gorm.DB, model any, want int64) {
	t.Helper()
	var n int64
	if err := db.Session(&gorm.Session{NewDB: true}).Model(model).Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	if n != want {
		t.Errorf("rows of %T = %d; want %d", model, n, want)
	}
}

func clearTables(t *testing.T, db *gorm.DB) {
	t.Helper()
	for _, model := range []any{&models.Job{}, &order{}} {
		if err := db.Where("1 = 1").Delete(model).Error; err != nil {
			t.Fatal(err)
		}
	}
}

// spy notes what is sent through a transaction.
type spy struct {
	gorm.Tx
	mu   sync.Mutex
	sent []string
}

// watch puts a spy into tx and returns what it has seen when asked.
func watch(t *testing.T, tx *gorm.DB) (sent func() []string) {
	t.Helper()
	inner, ok := tx.Statement.ConnPool.(gorm.Tx)
	if !ok {
		t.Fatalf("ConnPool = %T; want a transaction", tx.Statement.ConnPool)
	}
	s := &spy{Tx: inner}
	tx.Statement.ConnPool = s
	return func() []string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return append([]string(nil), s.sent...)
	}
}

func (s *spy) note(query string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, query)
}

func (s *spy) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s.note(query)
	return s.Tx.ExecContext(ctx, query, args...)
}

func (s *spy) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s.note(query)
	return s.Tx.QueryContext(ctx, query, args...)
}

func (s *spy) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s.note(query)
	return s.Tx.QueryRowContext(ctx, query, args...)
}

func (s *spy) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	s.note(query)
	return s.Tx.PrepareContext(ctx, query)
}

// inserts counts the INSERTs among statements.
func inserts(statements []string) (n int) {
	for _, s := range statements {
		if strings.HasPrefix(s, "INSERT") {
			n++
		}
	}
	return n
}
