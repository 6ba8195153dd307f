package testdb

import (
	"database/sql"
	"slices"

	"gorm.io/gorm"
)

// Option changes what [Each], [Open], [Again] and [OpenDSN] do.
type Option func(*settings)

type settings struct {
	only       []Kind
	empty      bool
	alone      bool
	parallel   bool
	config     []func(*gorm.Config)
	parameters map[Kind][][2]string
	pool       int
	isolation  sql.IsolationLevel
}

func settingsOf(opts []Option) settings {
	s := settings{only: kinds, parameters: map[Kind][][2]string{}}
	for _, o := range opts {
		o(&s)
	}
	return s
}

// Only leaves the kinds that are not named out, of [Each].
func Only(kinds ...Kind) Option {
	return func(s *settings) { s.only = kinds }
}

// Servers leaves SQLite out, of [Each].
func Servers(s *settings) { s.only = []Kind{Postgres, MySQL, MariaDB} }

// Empty leaves the database without tables.
func Empty(s *settings) { s.empty = true }

// Alone runs the test while no other test uses this kind of server, in any
// process: for those that count what only the whole server counts, such as
// [Deadlocks], or that measure time.
func Alone(s *settings) { s.alone = true }

// Parallel calls t.Parallel for each of the subtests of [Each].
func Parallel(s *settings) { s.parallel = true }

// GormConfig changes the configuration before the handle is opened.
func GormConfig(change func(*gorm.Config)) Option {
	return func(s *settings) { s.config = append(s.config, change) }
}

// Parameter adds a parameter to the DSN of one kind, spelled as its driver
// wants it, in place of the usual parameters of that name. It has no effect on
// [Again] and [OpenDSN], whose DSN is made already.
func Parameter(kind Kind, name, value string) Option {
	return func(s *settings) {
		s.parameters[kind] = append(slices.Clone(s.parameters[kind]), [2]string{name, value})
	}
}

// Pool limits the pool's connections to n instead of 20. On SQLite there is
// always one.
func Pool(n int) Option {
	return func(s *settings) { s.pool = n }
}

// Isolation makes level the default of the database's sessions, in place of
// the server's own. SQLite knows only serializable transactions. It has no
// effect on [Again] and [OpenDSN], whose DSN has it already.
func Isolation(level sql.IsolationLevel) Option {
	return func(s *settings) { s.isolation = level }
}
