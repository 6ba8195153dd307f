package testdb

import (
	"database/sql"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
)

// Deadlocks returns how many deadlocks the server has counted so far: in this
// database on PostgreSQL, altogether on MySQL and MariaDB (so compare two
// readings, and say [Alone]), 0 on SQLite, which has none.
//
// PostgreSQL's sessions report with a delay of up to ten seconds, or when they
// end. Deadlocks ends the idle ones of this process; close those of others.
func Deadlocks(t testing.TB, db *gorm.DB) int64 {
	t.Helper()
	kind := KindOf(db)
	if kind == SQLite {
		return 0
	}
	srv, err := server(kind)
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	switch kind {
	case Postgres:
		var name string
		err = db.Session(&gorm.Session{NewDB: true}).Raw("SELECT current_database()").Scan(&name).Error
		if err == nil {
			endIdle(DSN(db), srv, name)
			err = srv.pool.QueryRow("SELECT deadlocks FROM pg_stat_database WHERE datname = $1", name).Scan(&n)
		}
	case MySQL:
		if _, err = srv.pool.Exec("SET GLOBAL innodb_monitor_enable = 'lock_deadlocks'"); err == nil {
			err = srv.pool.QueryRow("SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'").Scan(&n)
		}
	case MariaDB:
		err = srv.pool.QueryRow("SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Innodb_deadlocks'").Scan(&n)
	}
	if err != nil {
		t.Fatalf("read the deadlocks of %s: %v", kind, err)
	}
	return n
}

// pools has the handles of this process by DSN.
var pools struct {
	sync.Mutex
	of map[string][]*sql.DB
}

func remember(db *gorm.DB) {
	pool, err := db.DB()
	if err != nil {
		return
	}
	pools.Lock()
	defer pools.Unlock()
	if pools.of == nil {
		pools.of = map[string][]*sql.DB{}
	}
	pools.of[DSN(db)] = append(pools.of[DSN(db)], pool)
}

// endIdle closes the idle connections to a database and waits for the server
// to have noticed.
func endIdle(dsn string, srv *adminServer, name string) {
	pools.Lock()
	defer pools.Unlock()
	busy := 0
	for _, pool := range pools.of[dsn] {
		pool.SetMaxIdleConns(0)
		busy += pool.Stats().InUse
		pool.SetMaxIdleConns(poolSize)
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var n int
		err := srv.pool.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'", name).Scan(&n)
		if err != nil || n <= busy {
			return
		}
	}
}
