// Package session is what gormjobs keeps on the application's *gorm.DB: a handle
// of its own that shares the application's connections and transactions and
// nothing else of it, and the workers of this process that want to be told of
// new jobs.
//
// It is a gorm.Plugin, because every session and transaction of a handle carries
// the plugins of the handle.
package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/logger"

	"github.com/gormjobs/gormjobs/internal/dialect"
)

const pluginName = "gormjobs"

// plugins guards the Plugins map of every handle, which GORM leaves unguarded:
// the first Enqueue of a process may come from many goroutines at once.
var plugins sync.RWMutex

// plugin is what the handle carries.
type plugin struct {
	isolated *gorm.DB
	hub      Hub
	plain    plain
	commits  atomic.Bool // statements outside of transactions were seen to
}

func (*plugin) Name() string { return pluginName }

func (*plugin) Initialize(*gorm.DB) error { return nil }

func of(db *gorm.DB) (*plugin, error) {
	plugins.RLock()
	p, ok := db.Plugins[pluginName].(*plugin)
	plugins.RUnlock()
	if ok {
		return p, nil
	}
	plugins.Lock()
	defer plugins.Unlock()
	if p, ok := db.Plugins[pluginName].(*plugin); ok {
		return p, nil
	}
	if err := dialect.Supported(db); err != nil {
		return nil, err
	}
	isolated, err := isolate(db)
	if err != nil {
		return nil, fmt.Errorf("open gormjobs's own session: %w", err)
	}
	p = &plugin{isolated: isolated}
	db.Plugins[pluginName] = p
	return p, nil
}

// In returns a session on db's connection, or on its transaction if db is in
// one. It has the application's naming strategy and dialect, and none of its
// conditions, callbacks, plugins, timeouts, logger, or errors: a tenant plugin
// adds its WHERE to every statement, and tx.Model(&Order{}) would make our
// Create insert into the orders.
//
// A handle that has an error already, such as that of a Begin that failed, or is
// in DryRun mode is refused: on the isolated session neither would be seen.
func In(ctx context.Context, db *gorm.DB) (*gorm.DB, error) {
	switch {
	case db == nil:
		return nil, errors.New("the *gorm.DB is nil")
	case db.Error != nil:
		return nil, fmt.Errorf("the *gorm.DB has an error already: %w", db.Error)
	case db.DryRun:
		return nil, ErrDryRun
	}
	return On(ctx, db, db.Statement.ConnPool)
}

// ErrDryRun is returned for a handle that only prints SQL.
var ErrDryRun = errors.New("the *gorm.DB is in DryRun mode, and gormjobs would do nothing with it")

// On is like [In], but on a connection of the library's choice.
func On(ctx context.Context, db *gorm.DB, pool gorm.ConnPool) (*gorm.DB, error) {
	p, err := of(db)
	if err != nil {
		return nil, err
	}
	if ctx == nil { // else s would share the statement of all sessions
		ctx = context.Background()
	}
	s := p.isolated.Session(&gorm.Session{NewDB: true, Context: ctx})
	s.Statement.ConnPool = pool
	return s, nil
}

// HubOf returns the hub that db carries.
func HubOf(db *gorm.DB) (*Hub, error) {
	p, err := of(db)
	if err != nil {
		return nil, err
	}
	return &p.hub, nil
}

func isolate(db *gorm.DB) (*gorm.DB, error) {
	return gorm.Open(dialector{db.Dialector, db}, &gorm.Config{
		NamingStrategy:           &namer{Namer: db.NamingStrategy},
		SkipDefaultTransaction:   true,
		DisableAutomaticPing:     true,
		DisableNestedTransaction: false,
		Logger:                   logger.Discard,
	})
}

// dialector is the application's own, initialized without its callbacks.
type dialector struct {
	gorm.Dialector
	app *gorm.DB
}

func (d dialector) Initialize(db *gorm.DB) error {
	app := d.app.Callback()
	callbacks.RegisterDefaultCallbacks(db, &callbacks.Config{
		LastInsertIDReversed: dialect.LastInsertIDReversed(d.app),
		CreateClauses:        app.Create().Clauses,
		QueryClauses:         app.Query().Clauses,
		UpdateClauses:        app.Update().Clauses,
		DeleteClauses:        app.Delete().Clauses,
	})
	for name, build := range d.app.ClauseBuilders {
		db.ClauseBuilders[name] = build
	}
	db.ConnPool = d.app.ConnPool
	return nil
}

// Interfaces that GORM looks for on a dialector and that embedding hides.

func (d dialector) SavePoint(tx *gorm.DB, name string) error {
	if s, ok := d.Dialector.(gorm.SavePointerDialectorInterface); ok {
		return s.SavePoint(tx, name)
	}
	return gorm.ErrUnsupportedDriver
}

func (d dialector) RollbackTo(tx *gorm.DB, name string) error {
	if s, ok := d.Dialector.(gorm.SavePointerDialectorInterface); ok {
		return s.RollbackTo(tx, name)
	}
	return gorm.ErrUnsupportedDriver
}
