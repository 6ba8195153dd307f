package dialect

import "gorm.io/gorm"

// Array is how an INSERT … SELECT takes many payloads as one argument: one text for
// any number of rows, and a fraction of its parsing.
type Array struct {
	Open, Close byte   // of the argument, whose elements are quoted as JSON's
	Select      string // of queue, type, priority, payload, metadata, max_attempts, in this order
	From        string // with the elements in theirs
}

// Payloads returns how, where the ids of such an INSERT are known. On MySQL those
// of an INSERT … SELECT need not be consecutive.
func Payloads(db *gorm.DB) (a Array, ok bool) {
	switch db.Name() {
	case postgres:
		return Array{
			'{', '}', "SELECT ?, ?, CAST(? AS smallint), CAST(p AS json), CAST(? AS json), CAST(? AS bigint)",
			" FROM unnest(CAST(? AS text[])) WITH ORDINALITY AS u(p, n) ORDER BY n",
		}, true
	case sqlite:
		return Array{'[', ']', "SELECT ?, ?, ?, value, ?, ?", " FROM json_each(?) ORDER BY key"}, true
	}
	return Array{}, false
}
