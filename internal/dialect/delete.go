package dialect

import (
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// DeleteByList deletes the rows of table whose column is one of ids and for which
// the guard holds. On MySQL and MariaDB the list is joined: a DELETE … WHERE id IN
// (…) scans the whole of a small table, locks all it sees, and waits for callers'
// open inserts while it holds those locks. It is raw because GORM's Delete cannot
// join.
func DeleteByList(db *gorm.DB, table, column, index string, ids []uint64, guard string) clause.Expr {
	quoted := db.Statement.Quote(table)
	if db.Name() != mysql {
		return clause.Expr{SQL: "DELETE FROM " + quoted + " WHERE " + column + " IN ? AND " + guard, Vars: []any{ids}}
	}
	list := "SELECT ? AS listed" + strings.Repeat(" UNION ALL SELECT ?", len(ids)-1)
	vars := make([]any, len(ids))
	for i, id := range ids {
		vars[i] = id
	}
	return clause.Expr{
		SQL:  "DELETE t FROM (" + list + ") d STRAIGHT_JOIN " + quoted + " t " + forceIndex(index) + " ON t." + column + " = d.listed WHERE " + guard,
		Vars: vars,
	}
}
