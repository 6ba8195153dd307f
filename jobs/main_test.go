package jobs_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Whoever starts a goroutine waits for it. Ignored is what GORM's cache of prepared
// statements keeps for the life of its handle, and what belongs to the connections
// that testdb keeps to the servers themselves.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"),
		goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"),
		goleak.IgnoreAnyFunction("github.com/go-sql-driver/mysql.(*mysqlConn).startWatcher.func1"),
	)
}
