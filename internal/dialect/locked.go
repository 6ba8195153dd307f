package dialect

import "gorm.io/gorm"

// Many is from how many rows on a statement is one of many, with a text of its own.
//
// PostgreSQL keeps the plan of a prepared text that has run a few times, until the
// next ANALYZE of the table, and one that it made while the table was empty may read
// all of a full one. What is sent day and night, when there is little or nothing to
// do, is therefore another text than what is sent when there is much to do: that one
// is planned when the rows are there.
const Many = 100

// Locked is how an UPDATE finds the rows that it has locked itself, in its common
// table expression named locked: a SELECT of columns.
//
// On PostgreSQL it goes to their places in the table, by ctid, instead of looking
// them all up again in the index of the ids. A place is one in a table: tableoid tells
// which, should there be partitions or tables that inherit. A row that has got another
// place since the statement began, because somebody else changed it, is left out this
// time.
func Locked(db *gorm.DB, many bool) (columns, where string) {
	switch {
	case db.Name() != postgres:
		return "id", "id IN (SELECT id FROM locked)"
	case !many:
		return "tableoid, ctid", "(tableoid, ctid) IN (SELECT tableoid, ctid FROM locked)"
	}
	// All places in one pass. The second condition is a look into a hash table: should a
	// plan read the whole table in spite of it all, it compares every row with that, and
	// not with each of a thousand places.
	return "tableoid, ctid", "ctid = ANY(ARRAY(SELECT ctid FROM locked)) AND ((tableoid, ctid) IN (SELECT tableoid, ctid FROM locked)) IS TRUE"
}
