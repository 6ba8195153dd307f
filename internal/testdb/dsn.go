package testdb

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/libtnb/sqlite"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

func dialector(kind Kind, dsn string) gorm.Dialector {
	switch kind {
	case SQLite:
		return sqlite.Open(dsn)
	case Postgres:
		return postgres.Open(dsn)
	case MySQL, MariaDB:
		return mysql.Open(dsn)
	}
	panic(fmt.Sprintf("testdb: no kind of database is called %q", kind))
}

// sqliteDSN has what the library's documentation asks of an application:
// transactions that take the write lock when they begin, and wait for it.
func sqliteDSN(file string, s settings) string {
	q := url.Values{}
	q.Set("_txlock", "immediate")
	q["_pragma"] = []string{"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"}
	replace(q, s.parameters[SQLite])
	// A subtest's folder may be called …#01, and a # would end the name.
	return "file:" + strings.NewReplacer("%", "%25", "#", "%23", "?", "%3f").Replace(file) + "?" + q.Encode()
}

// postgresDSN leads to another database of the server that admin leads to.
// Both forms of a DSN have room for parameters: URL and "key=value …".
func postgresDSN(admin, name string, s settings) (string, error) {
	q := url.Values{}
	if s.isolation != 0 {
		q.Set("default_transaction_isolation", strings.ToLower(s.isolation.String()))
	}
	replace(q, s.parameters[Postgres])
	if !strings.HasPrefix(admin, "postgres://") && !strings.HasPrefix(admin, "postgresql://") {
		dsn := admin + " dbname=" + name
		for _, k := range slices.Sorted(maps.Keys(q)) {
			dsn += fmt.Sprintf(" %s='%s'", k, q.Get(k))
		}
		return dsn, nil
	}
	u, err := url.Parse(admin)
	if err != nil {
		return "", err
	}
	all := u.Query()
	for k, v := range q {
		all[k] = v
	}
	all.Del("dbname")
	u.Path = "/" + name
	u.RawQuery = strings.ReplaceAll(all.Encode(), "+", "%20")
	return u.String(), nil
}

func mysqlDSN(kind Kind, admin, name string, s settings) (string, error) {
	c, err := mysqldriver.ParseDSN(admin)
	if err != nil {
		return "", err
	}
	c.DBName = name
	dsn := c.FormatDSN()
	base, old, _ := strings.Cut(dsn, "?")
	q, err := url.ParseQuery(old)
	if err != nil {
		return "", err
	}
	if !q.Has("parseTime") {
		q.Set("parseTime", "true")
	}
	if s.isolation != 0 {
		variable := "transaction_isolation"
		if kind == MariaDB {
			variable = "tx_isolation" // the other name is known from 11.1 on
		}
		level := strings.ToUpper(strings.ReplaceAll(s.isolation.String(), " ", "-"))
		q.Set(variable, "'"+level+"'")
	}
	replace(q, s.parameters[kind])
	return base + "?" + q.Encode(), nil
}

// replace sets parameters over q. One that is given twice is there twice.
func replace(q url.Values, parameters [][2]string) {
	for _, p := range parameters {
		q.Del(p[0])
	}
	for _, p := range parameters {
		q.Add(p[0], p[1])
	}
}
