package models

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/gormjobs/gormjobs/internal/session"
)

// MissingError names what [Check] did not find.
type MissingError struct {
	Tables  []string
	Columns []string // table.column
	Indexes []string
}

// Error names everything that is missing, and the remedy.
func (e *MissingError) Error() string {
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"table", e.Tables}, {"column", e.Columns}, {"index", e.Indexes}} {
		for _, name := range p.names {
			parts = append(parts, p.what+" "+name)
		}
	}
	return "gormjobs: the database lacks " + strings.Join(parts, ", ") + ": run models.Migrate, or the statements of models.DDL"
}

// Check returns a *[MissingError] unless all tables, columns and indexes are
// there. A worker runs it when it starts: without its index a claim locks every
// row of its queue, and the other workers get nothing.
//
// It compares names, not definitions. Connections with autocommit=0, in which no
// worker would see what is new, are an error too.
func Check(ctx context.Context, db *gorm.DB) error {
	s, err := session.In(ctx, db)
	if err != nil {
		return err
	}
	if err := check(s); err != nil {
		return err
	}
	return session.Autocommits(ctx, db)
}

func check(s *gorm.DB) error {
	found, err := look(s)
	if err != nil {
		return err
	}
	var e MissingError
	for _, model := range found.tables {
		e.Tables = append(e.Tables, model.TableName(s.NamingStrategy))
	}
	for _, c := range found.columns {
		e.Columns = append(e.Columns, c.model.TableName(s.NamingStrategy)+"."+c.name)
	}
	for _, i := range found.indexes {
		e.Indexes = append(e.Indexes, i.name(s))
	}
	if len(e.Tables)+len(e.Columns)+len(e.Indexes) > 0 {
		return &e
	}
	return nil
}

type missing struct {
	tables  []schema.TablerWithNamer
	columns []column
	indexes []index
}

type column struct {
	model schema.TablerWithNamer
	name  string
}

// look reads the live schema. A table that is missing lacks its indexes too.
func look(s *gorm.DB) (missing, error) {
	var m missing
	migrator := s.Migrator()
	for _, model := range tables() {
		if !migrator.HasTable(model) {
			m.tables = append(m.tables, model)
			continue
		}
		have, err := columns(s, model)
		if err != nil {
			return m, err
		}
		stmt := &gorm.Statement{DB: s}
		if err := stmt.Parse(model); err != nil {
			return m, err
		}
		for _, f := range stmt.Schema.Fields {
			if f.DBName != "" && !have[f.DBName] {
				m.columns = append(m.columns, column{model, f.DBName})
			}
		}
	}
	for _, i := range indexes {
		// By the table's name: asked by model, GORM writes into the schema that all
		// sessions share, and a worker and a scheduler may start at once.
		table := i.model.(schema.TablerWithNamer).TableName(s.NamingStrategy)
		if i.on(s) != "" && !migrator.HasIndex(table, i.name(s)) {
			m.indexes = append(m.indexes, i)
		}
	}
	// The Migrator's questions answer false when the database cannot be asked.
	if err := s.Exec("SELECT 1").Error; err != nil {
		return m, fmt.Errorf("look at the tables of gormjobs: %w", err)
	}
	return m, nil
}

// columns asks the table itself: one cheap statement on every database. Its text
// is another each time: PostgreSQL refuses a SELECT * that the driver prepared
// before a column was added.
func columns(s *gorm.DB, model schema.TablerWithNamer) (map[string]bool, error) {
	rows, err := session.Unprepared(s).Model(model).Where(fmt.Sprintf("%d = 0", 1+rand.Uint32()>>1)).Rows()
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", model.TableName(s.NamingStrategy), err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	have := make(map[string]bool, len(names))
	for _, name := range names {
		have[name] = true
	}
	return have, rows.Err()
}
