package dialect

import (
	"errors"
	"reflect"
	"strings"
)

// Retryable tells whether err says "the same transaction, run again, may well
// succeed": a deadlock, a lock wait that ended, a serialization failure, a busy
// SQLite, a statement prepared before a migration. The errors are recognised
// without their drivers' types, because the library links no driver.
func Retryable(err error) bool {
	if err == nil {
		return false
	}
	switch state := sqlState(err); state {
	case "40001", "40P01", "55P03": // serialization failure, deadlock, lock not available
		return true
	case "0A000":
		// A SELECT * prepared before a migration; the driver prepares it anew.
		return strings.Contains(err.Error(), "cached plan must not change result type")
	}
	switch number(err) {
	case 1213, 1205, 1020: // deadlock, lock wait timeout, record has changed (MariaDB)
		return true
	}
	return Busy(err)
}

// Busy tells whether err is SQLite's: somebody else is writing.
func Busy(err error) bool {
	if err == nil {
		return false
	}
	s := err.Error()
	return strings.Contains(s, "SQLITE_BUSY") || strings.Contains(s, "database is locked") ||
		strings.Contains(s, "database table is locked")
}

// Unknown tells whether err is no answer of the database: the connection was lost,
// or the wait was given up. What became of the statement, or of a commit, is then
// not known.
func Unknown(err error) bool {
	return err != nil && sqlState(err) == "" && number(err) == 0 && !Busy(err) && !sqliteAnswer(err)
}

// MissingTable tells whether err says that a table is not there.
func MissingTable(err error) bool {
	return sqlState(err) == "42P01" || number(err) == 1146 || strings.Contains(err.Error(), "no such table")
}

// sqliteAnswer recognises SQLite's own errors by the method that modernc's driver
// gives its result code with, or by their text.
func sqliteAnswer(err error) bool {
	var e interface{ Code() int }
	return errors.As(err, &e) || strings.Contains(err.Error(), "SQL logic error") || strings.Contains(err.Error(), "constraint failed")
}

// sqlState is the five-character code of a PostgreSQL error, of pgx and of pq
// alike.
func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// number is the Number field of a go-sql-driver MySQLError. The type has no
// method that gives it, and its package is a driver.
func number(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		v := reflect.ValueOf(err)
		if v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct && v.Elem().Type().Name() == "MySQLError" {
			if f := v.Elem().FieldByName("Number"); f.CanUint() {
				return int(f.Uint())
			}
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				if n := number(e); n != 0 {
					return n
				}
			}
		}
	}
	return 0
}
