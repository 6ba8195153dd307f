// Package testdb gives a test a fresh database on every kind of server that
// the library supports.
//
//	testdb.Each(t, func(t *testing.T, db *gorm.DB) { // /sqlite, /postgres, /mysql, /mariadb
//		…
//	})
//
// SQLite needs nothing. A server comes from the environment
// (GORMJOBS_TEST_POSTGRES, GORMJOBS_TEST_MYSQL, GORMJOBS_TEST_MARIADB: a DSN
// with which databases can be created; or "off"), else a throw-away one is started by
// servers.sh from the programs that are installed, shared by all test
// processes, and stopped when nobody has used it for two minutes. A kind that
// cannot be had is skipped with a loud line; under GORMJOBS_TEST_REQUIRE=all
// its tests fail. `make test` gets what is missing and sets that.
//
// Each process that has reached a kind of database adds a line, kind and
// version, to the file that GORMJOBS_TEST_RECORD names.
package testdb
