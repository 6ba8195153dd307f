package session

import (
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/gormjobs/gormjobs/internal/dialect"
)

// namer remembers what the application's naming strategy calls the tables of
// gormjobs: GORM's own tries some thirty regular expressions to find a plural,
// which was much of an Enqueue.
type namer struct {
	schema.Namer
	tables     sync.Map
	indexes    sync.Map
	statements sync.Map
	prepared   sync.Map
}

// TableName implements schema.Namer.
func (n *namer) TableName(table string) string {
	if name, ok := n.tables.Load(table); ok {
		return name.(string)
	}
	name := n.Namer.TableName(table)
	n.tables.Store(table, name)
	return name
}

// IndexName implements schema.Namer.
func (n *namer) IndexName(table, column string) string {
	key := [2]string{table, column}
	if name, ok := n.indexes.Load(key); ok {
		return name.(string)
	}
	name := n.Namer.IndexName(table, column)
	n.indexes.Store(key, name)
	return name
}

// Statement is s.Raw(build(), args...) whose text is remembered under key. GORM
// copies the text of a statement byte by byte to find its placeholders. Statements of one key have one text and
// arguments of the same kinds, none of them a list or an expression.
func Statement(s *gorm.DB, key any, build func() string, args ...any) *gorm.DB {
	n, ok := s.NamingStrategy.(*namer)
	if !ok {
		return s.Raw(build(), args...)
	}
	text, ok := n.statements.Load(key)
	if !ok {
		tx := s.Raw(build(), args...)
		n.statements.Store(key, tx.Statement.SQL.String())
		return tx
	}
	return finished(s, text.(string), args)
}

// Long is s.Raw(text, args...) for a text that is made once and whose arguments are
// no lists and no expressions: it is not copied where its placeholders are the
// driver's own.
func Long(s *gorm.DB, text string, args ...any) *gorm.DB {
	if dialect.NumbersPlaceholders(s) {
		return s.Raw(text, args...)
	}
	return finished(s, text, args)
}

// finished is a statement whose text is the driver's.
func finished(s *gorm.DB, text string, args []any) *gorm.DB {
	tx := s.Raw("")
	tx.Statement.SQL.WriteString(text)
	tx.Statement.Vars = args
	return tx
}

// Exec executes what [Statement] returned, for its result.
func Exec(tx *gorm.DB) *gorm.DB { return tx.Callback().Raw().Execute(tx) }
