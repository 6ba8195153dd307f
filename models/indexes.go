package models

import (
	"fmt"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/gormjobs/gormjobs/internal/dialect"
)

// index is one entry of the list that Migrate creates, DDL prints and Check looks
// for. A database without partial indexes takes the columns of full.
type index struct {
	model   any
	purpose string // part of the name, with a version: GORM and IF NOT EXISTS compare names only
	unique  bool   // tagged in the model too, and created with its table
	columns string
	where   string
	full    string
}

// Every index costs every job. None is on reserved_by or reserved_until: on
// MariaDB one brought back the deadlocks that the rest of the design avoids.
var indexes = []index{
	{Job{}, "claim_v1", false, "queue, priority, available_at, id", "state = 'pending'", "state, queue, priority, available_at, id"},
	{Job{}, "running_v1", false, "id", "state = 'processing'", ""}, // MySQL: the claim index's prefix
	{Job{}, "due_v1", false, "due_at", "due_at IS NOT NULL", "due_at"},
	{Job{}, "done_v1", false, "finished_at", "finished_at IS NOT NULL", "finished_at"},
	{Job{}, "live_v1", true, "unique_live", "unique_live IS NOT NULL", "unique_live"},
	{Failure{}, "job_v1", false, "job_id", "", "job_id"},
}

// tables are the models, in the order they are created in.
func tables() []schema.TablerWithNamer { return []schema.TablerWithNamer{Job{}, Failure{}, Schedule{}} }

// on returns the columns of the index on db, and "" if db needs none.
func (i index) on(db *gorm.DB) string {
	if dialect.PartialIndexes(db) {
		return i.columns
	}
	return i.full
}

// name carries the table's name: PostgreSQL skips a second index of one name
// silently, though it would be on another table.
func (i index) name(db *gorm.DB) string {
	return indexName(db, i.model.(schema.TablerWithNamer), i.purpose)
}

func indexName(db *gorm.DB, model schema.TablerWithNamer, purpose string) string {
	return db.NamingStrategy.IndexName(model.TableName(db.NamingStrategy), purpose)
}

// ClaimIndex is the name of the index that answers a claim.
func ClaimIndex(db *gorm.DB) string { return indexName(db, Job{}, "claim_v1") }

// FailuresIndex is the name of the index that finds a job's failures.
func FailuresIndex(db *gorm.DB) string { return indexName(db, Failure{}, "job_v1") }

func (i index) create(db *gorm.DB) string {
	quote := db.Statement.Quote
	var b strings.Builder
	b.WriteString("CREATE ")
	if i.unique {
		b.WriteString("UNIQUE ")
	}
	fmt.Fprintf(&b, "INDEX %s ON %s (%s)", quote(i.name(db)), quote(i.model.(schema.TablerWithNamer).TableName(db.NamingStrategy)), i.on(db))
	if i.where != "" && dialect.PartialIndexes(db) {
		b.WriteString(" WHERE " + i.where)
	}
	return b.String()
}
