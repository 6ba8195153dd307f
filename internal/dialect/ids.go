package dialect

import (
	"strconv"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// IDIn holds for the rows of ids, of which there is at least one.
func IDIn(db *gorm.DB, ids []uint64) clause.Expr {
	if len(ids) == 1 {
		return clause.Expr{SQL: "id = ?", Vars: []any{ids[0]}}
	}
	return IDInList(db, ids, len(ids) >= Many)
}

// IDInList is IDIn as part of a statement that may have other lists. A list of
// hundreds of arguments is much of the work of its statement. PostgreSQL takes an
// array: one text for any number, which its driver prepares once, or two: see [Many].
// For the others the ids are part of the text, and such statements are kept from
// GORM's prepared ones.
func IDInList(db *gorm.DB, ids []uint64, many bool) clause.Expr {
	list := make([]byte, 0, 10*len(ids))
	for n, id := range ids {
		if n > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, id, 10)
	}
	switch {
	case !TakesArrays(db):
		return clause.Expr{SQL: "id IN (" + string(list) + ")"}
	case many:
		return clause.Expr{SQL: "id = ANY(CAST(? AS bigint[]) /* many */)", Vars: []any{"{" + string(list) + "}"}}
	}
	return clause.Expr{SQL: "id = ANY(CAST(? AS bigint[]))", Vars: []any{"{" + string(list) + "}"}}
}
