// Package dialect is the only place that asks which database this is. Each
// function answers one question about an ability; its comment says what goes
// wrong without it.
package dialect

import (
	"fmt"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// The names that GORM's dialectors give themselves. MariaDB is "mysql".
const (
	postgres = "postgres"
	mysql    = "mysql"
	sqlite   = "sqlite"
)

// Supported returns an error unless db is one of the databases of gormjobs.
func Supported(db *gorm.DB) error {
	switch name := db.Name(); name {
	case postgres, mysql, sqlite:
		return nil
	default:
		return fmt.Errorf("gormjobs runs on PostgreSQL, MySQL, MariaDB and SQLite; this *gorm.DB is %q", name)
	}
}

// LocksRows tells whether two transactions may write at once, so that a claim
// locks its rows and others skip them. SQLite has one writer, and GORM drops the
// locking clause there.
func LocksRows(db *gorm.DB) bool { return db.Name() != sqlite }

// Now is the database's clock as an SQL expression: microseconds since 1970 UTC,
// constant within a statement, usable against an index, and right in any session
// time zone. (UNIX_TIMESTAMP(NOW(6)) is an hour off when summer time ends, and
// SQLite before 3.42 answers NULL to unixepoch('subsec'). PostgreSQL's extract is a
// numeric, and takes twice as long as date_part, a double with 0.24 µs between two
// neighbours, which the cast rounds to the right one until the year 2242.)
func Now(db *gorm.DB) string {
	switch db.Name() {
	case postgres:
		return "(date_part('epoch',statement_timestamp())*1000000)::bigint"
	case mysql:
		return "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))"
	default:
		return "CAST(ROUND((julianday('now')-2440587.5)*86400000)*1000 AS INTEGER)"
	}
}

// JSONType is the column type that keeps JSON text byte for byte. jsonb reorders
// keys and refuses \u0000, and MySQL's JSON rewrites numbers.
func JSONType(db *gorm.DB) string {
	switch db.Name() {
	case postgres:
		return "json"
	case mysql:
		return "longtext"
	default:
		return "text"
	}
}

// TableOptions is what CREATE TABLE needs so that names are compared byte for
// byte and text may hold any character: MySQL's default collation takes "Mail"
// for "mail", and a MariaDB server may default to latin1.
func TableOptions(db *gorm.DB) string {
	if db.Name() == mysql {
		return "ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
	}
	return ""
}

// PartialIndexes tells whether an index may have a WHERE. MySQL ignores it, which
// would turn a partial unique index into a full one.
func PartialIndexes(db *gorm.DB) bool { return db.Name() != mysql }

// UpdateReturns tells whether UPDATE … RETURNING gives the rows. MySQL has none,
// and on MariaDB GORM's clause.Returning is a syntax error.
func UpdateReturns(db *gorm.DB) bool { return db.Name() != mysql }

// LocksInUpdate tells whether an UPDATE can lock the rows it is about to write,
// leaving out those that somebody else has locked. MySQL refuses to read the
// table that it updates.
func LocksInUpdate(db *gorm.DB) bool { return db.Name() == postgres }

// ReadCommitted tells whether a statement outside of a transaction has the isolation
// that the library's own have. It does not on MySQL and MariaDB as they come, where
// it matters little: a claim is two statements there. On SQLite a transaction costs
// next to nothing, and waits for the writer before it begins.
func ReadCommitted(db *gorm.DB) (bool, error) {
	if db.Name() != postgres {
		return false, nil
	}
	var isolation string
	err := db.Raw("SELECT current_setting('default_transaction_isolation')").Scan(&isolation).Error
	return isolation == "read committed", err
}

// Autocommits tells whether a statement outside of a transaction commits by itself.
// A MySQL connection with autocommit=0 never commits it, and reads the same old
// snapshot for ever.
func Autocommits(db *gorm.DB) (yes bool, err error) {
	if db.Name() != mysql {
		return true, nil
	}
	return yes, db.Raw("SELECT @@autocommit").Row().Scan(&yes)
}

// NumbersPlaceholders tells whether a statement's placeholders are $1, $2 and so on,
// not question marks.
func NumbersPlaceholders(db *gorm.DB) bool { return db.Name() == postgres }

// ParsesInProcess tells whether there is no server to parse a text: the driver does.
func ParsesInProcess(db *gorm.DB) bool { return db.Name() == sqlite }

// TakesArrays tells whether a column of values can be one argument, an array in
// the server's text form. A statement of a thousand rows has thousands otherwise.
func TakesArrays(db *gorm.DB) bool { return db.Name() == postgres }

// KeepsDeadEntries tells whether an index scan walks over the entries of rows
// that have changed since, for as long as an old snapshot is open somewhere.
func KeepsDeadEntries(db *gorm.DB) bool { return db.Name() == postgres }

// InsertReturns tells whether the ids of that many rows come from INSERT …
// RETURNING. On MySQL GORM guesses them from the first one, wrongly after a
// conflict or with auto_increment_increment above 1. On SQLite the driver knows a
// single one, and a statement without rows costs less.
func InsertReturns(db *gorm.DB, rows int) bool {
	return db.Name() == postgres || db.Name() == sqlite && rows > 1
}

// LastInsertIDReversed tells whether the id that the driver reports for an INSERT
// of many rows is the last one's: GORM's Create then counts down from it.
func LastInsertIDReversed(db *gorm.DB) bool { return db.Name() == sqlite }

// ByID makes a write find its rows by the primary key alone. InnoDB leaves it for
// another index, or for a scan of the whole table, when the list of ids is a
// large share of the table, and then locks rows of everybody else.
func ByID(db *gorm.DB) clause.Expression { return Hint(db, "PRIMARY") }

// Hint makes a SELECT or an UPDATE on MySQL and MariaDB use the named index. It
// is no clause at all elsewhere.
func Hint(db *gorm.DB, index string) clause.Expression {
	if db.Name() != mysql {
		return hint("")
	}
	return hint(forceIndex(index))
}

func forceIndex(name string) string {
	return "FORCE INDEX (`" + strings.ReplaceAll(name, "`", "``") + "`)"
}

// hint is a gorm.StatementModifier that puts its text behind the table's name.
type hint string

// Build implements clause.Expression; the work is done by ModifyStatement.
func (hint) Build(clause.Builder) {}

// ModifyStatement implements gorm.StatementModifier.
func (h hint) ModifyStatement(stmt *gorm.Statement) {
	if h == "" {
		return
	}
	for _, name := range []string{"FROM", "UPDATE"} {
		c := stmt.Clauses[name]
		c.AfterExpression = clause.Expr{SQL: string(h)}
		stmt.Clauses[name] = c
	}
}

// InsertOrSkip is how an INSERT begins and ends that leaves out a row whose
// unique key is taken, and then says that it affected none. GORM's DoNothing says
// 1 on MariaDB, and 1 on MySQL with clientFoundRows. IGNORE cuts values that are
// too long, so lengths are checked before.
func InsertOrSkip(db *gorm.DB) (verb, tail string) {
	if db.Name() == mysql {
		return "INSERT IGNORE INTO ", ""
	}
	return "INSERT INTO ", " ON CONFLICT DO NOTHING"
}

// ReadLatest makes a read in the caller's transaction see rows that were committed
// after its snapshot: at MySQL's default isolation only a locking read does.
// PostgreSQL has no need to at its default.
func ReadLatest(db *gorm.DB) []clause.Expression {
	if db.Name() == mysql {
		return []clause.Expression{clause.Locking{Strength: clause.LockingStrengthShare}}
	}
	return nil
}

// Pairs holds for rows whose two columns are one of pairs. SQLite takes a list of
// rows only as VALUES.
func Pairs(db *gorm.DB, columns string, pairs [][]any) clause.Expr {
	if db.Name() == sqlite {
		return clause.Expr{SQL: columns + " IN (VALUES ?)", Vars: []any{pairs}, WithoutParentheses: true}
	}
	return clause.Expr{SQL: columns + " IN ?", Vars: []any{pairs}}
}

// HasNotify tells whether the database can tell a listener of another process
// about a commit.
func HasNotify(db *gorm.DB) bool { return db.Name() == postgres }

// Warnings returns what in the settings of db will hurt. On SQLite: a file that
// readers and the writer cannot use at once, and a writer that is not waited for.
// On MySQL and MariaDB: a connection in three-byte utf8, which makes "?" of each
// byte of an emoji, without an error outside strict mode.
func Warnings(db *gorm.DB) []string {
	db = db.Session(&gorm.Session{NewDB: true})
	switch db.Name() {
	case sqlite:
		return sqliteWarnings(db)
	case mysql:
		var charset string
		err := db.Raw("SELECT @@character_set_client").Scan(&charset).Error
		if err == nil && (charset == "utf8" || charset == "utf8mb3") {
			return []string{"the connection's character set is " + charset + ": set charset=utf8mb4 in the DSN, or payloads with emoji are refused or damaged"}
		}
	}
	return nil
}

func sqliteWarnings(db *gorm.DB) (found []string) {
	var mode string
	var timeout int
	if err := db.Raw("PRAGMA journal_mode").Scan(&mode).Error; err == nil && mode != "wal" && mode != "memory" {
		found = append(found, "SQLite's journal_mode is "+mode+": set it to WAL in the DSN, or readers and the writer wait for each other (the driver says how: _pragma=journal_mode(WAL), or _journal_mode=WAL)")
	}
	if err := db.Raw("PRAGMA busy_timeout").Scan(&timeout).Error; err == nil && timeout < 1000 {
		found = append(found, fmt.Sprintf("SQLite's busy_timeout is %d ms: set it to 10000 in the DSN, or writes fail while another process writes", timeout))
	}
	if pool, err := db.DB(); err == nil && pool.Stats().MaxOpenConnections != 1 {
		found = append(found, "SQLite's pool may have more than one connection: call SetMaxOpenConns(1), and set _txlock=immediate in the DSN, or transactions that read and then write fail while others write, and each connection to :memory: has a database of its own")
	}
	return found
}
