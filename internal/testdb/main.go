package testdb

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, for its TestMain, and fails if they leave a
// goroutine behind. A pool that was not closed is one.
func Main(m *testing.M) {
	goleak.VerifyTestMain(closing{m},
		// GORM's cache of prepared statements has no Close: this lives as long as the
		// process, for every handle with PrepareStmt.
		goleak.IgnoreAnyFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"),
	)
}

// closing closes this package's own connections to the servers when the tests
// have run.
type closing struct{ *testing.M }

// Run implements goleak's TestingM.
func (c closing) Run() int {
	code := c.M.Run()
	for _, o := range servers {
		if o.srv != nil {
			o.srv.pool.Close()
		}
	}
	return code
}
