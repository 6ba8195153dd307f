package dialect

import (
	"strconv"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// IDIn holds for the rows of ids, of which there is at least one. A list of hundreds
// of arguments is much of the work of its statement. PostgreSQL takes an array: one
// text for any number, which its driver prepares once. For the others the ids are
// part of the text, and such statements are kept from GORM's prepared ones.
//
// A long list has a text of its own on PostgreSQL, see [Many].
func IDIn(db *gorm.DB, ids []uint64) clause.Expr {
	if len(ids) == 1 {
		return clause.Expr{SQL: "id = ?", Vars: []any{ids[0]}}
	}
	list := make([]byte, 0, 10*len(ids))
	for n, id := range ids {
		if n > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, id, 10)
	}
	if TakesArrays(db) {
		text := "id = ANY(CAST(? AS bigint[]))"
		if len(ids) >= Many {
			text = "id = ANY(CAST(? AS bigint[]) /* many */)"
		}
		return clause.Expr{SQL: text, Vars: []any{"{" + string(list) + "}"}}
	}
	return clause.Expr{SQL: "id IN (" + string(list) + ")"}
}
