package models

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
)

// migrateTimeout bounds a migration, with the wait for another process's.
const migrateTimeout = 15 * time.Minute

// Migrate creates the tables and indexes of gormjobs, or what is missing of them,
// under db's naming strategy. It is for every start of the application: a second
// run sends no DDL, and several processes may run it at once. It never drops or
// alters a column.
//
// db must not be in a transaction: MySQL and MariaDB commit at every CREATE. An
// application that runs its own migrations prints the statements with [DDL] and
// verifies the result with [Check].
func Migrate(db *gorm.DB) error {
	if err := session.Root(db, "migrate gormjobs"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(db.Statement.Context, migrateTimeout)
	defer cancel()
	s, err := session.In(ctx, db)
	if err != nil {
		return err
	}
	// Without a lock first: every start but the first ends here.
	var missing *MissingError
	if err := check(s); !errors.As(err, &missing) {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return fmt.Errorf("migrate gormjobs: %w", err)
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("migrate gormjobs: %w", err)
	}
	defer conn.Close()
	// All on one connection: the lock is the connection's, and the pool may have
	// no other.
	if s, err = session.On(ctx, db, conn); err != nil {
		return err
	}
	err = dialect.ExclusiveMigration(ctx, s, conn, JobsTable(s), func() error { return createMissing(s) })
	if err != nil {
		return fmt.Errorf("migrate gormjobs: %w", err)
	}
	return nil
}

// JobsTable is the name of the jobs' table under db's naming strategy, unquoted.
func JobsTable(db *gorm.DB) string { return Job{}.TableName(db.NamingStrategy) }

// FailuresTable is the name of the failures' table, likewise.
func FailuresTable(db *gorm.DB) string { return Failure{}.TableName(db.NamingStrategy) }

// SchedulesTable is the name of the schedules' table, likewise.
func SchedulesTable(db *gorm.DB) string { return Schedule{}.TableName(db.NamingStrategy) }

// DDL returns the statements that create everything on an empty database of db's
// kind, without running one.
func DDL(db *gorm.DB) ([]string, error) {
	record := &recorder{}
	s, err := session.On(context.Background(), db, record)
	if err != nil {
		return nil, err
	}
	for _, model := range tables() {
		if err := createTable(s, model); err != nil {
			return nil, err
		}
	}
	for _, i := range indexes {
		if i.on(s) != "" && !i.unique {
			record.statements = append(record.statements, i.create(s))
		}
	}
	return record.statements, nil
}

func createMissing(s *gorm.DB) error {
	missing, err := look(s)
	if err != nil {
		return err
	}
	for _, model := range missing.tables {
		if err := createTable(s, model); err != nil {
			return err
		}
	}
	for _, c := range missing.columns {
		if err := s.Migrator().AddColumn(c.model, c.name); err != nil {
			return fmt.Errorf("add column %s: %w", c.name, err)
		}
	}
	if missing, err = look(s); err != nil { // a table may have come with indexes
		return err
	}
	for _, i := range missing.indexes {
		if err := s.Exec(i.create(s)).Error; err != nil {
			return fmt.Errorf("create index %s: %w", i.name(s), err)
		}
	}
	return nil
}

func createTable(s *gorm.DB, model schema.TablerWithNamer) error {
	if options := dialect.TableOptions(s); options != "" {
		s = s.Set("gorm:table_options", options)
	}
	if err := s.Migrator().CreateTable(model); err != nil {
		return fmt.Errorf("create table %s: %w", model.TableName(s.NamingStrategy), err)
	}
	return nil
}

// recorder is a connection that notes the statements instead of sending them.
type recorder struct{ statements []string }

func (r *recorder) ExecContext(_ context.Context, query string, _ ...any) (sql.Result, error) {
	r.statements = append(r.statements, query)
	return recorded{}, nil
}

var errRecorder = errors.New("the DDL of gormjobs asks the database nothing")

func (r *recorder) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	return nil, errRecorder
}

func (r *recorder) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, errRecorder
}

func (r *recorder) QueryRowContext(context.Context, string, ...any) *sql.Row { return &sql.Row{} }

type recorded struct{}

func (recorded) LastInsertId() (int64, error) { return 0, nil }
func (recorded) RowsAffected() (int64, error) { return 0, nil }
