package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/libtnb/sqlite"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"github.com/gormjobs/gormjobs/models"
)

// openDatabase opens what the DSN looks like. All drivers are pure Go.
func openDatabase(dsn string) (*gorm.DB, error) {
	config := &gorm.Config{
		// So that a taken address is gorm.ErrDuplicatedKey on every database.
		TranslateError: true,
		// Errors are returned, and logged by whoever handles them. GORM's own logger
		// would print the values of a slow statement, password hashes among them.
		Logger: logger.Discard,
	}
	switch {
	case strings.HasPrefix(dsn, "postgres://"), strings.HasPrefix(dsn, "postgresql://"), strings.Contains(dsn, "host="):
		return open(postgres.Open(dsn), config, 20)
	case strings.Contains(dsn, "@tcp("), strings.Contains(dsn, "@unix("):
		return open(mysql.Open(dsn), config, 20)
	}
	// More than one connection to an SQLite file only makes writers wait for one
	// another.
	return open(sqlite.Open(sqliteDSN(dsn)), config, 1)
}

// sqliteDSN adds what every application wants of SQLite: transactions that take
// the write lock when they begin, wait for it, and do not block readers. A DSN
// that begins with file: is left as it is.
func sqliteDSN(file string) string {
	if strings.HasPrefix(file, "file:") {
		return file
	}
	return "file:" + file + "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
}

func open(d gorm.Dialector, config *gorm.Config, connections int) (*gorm.DB, error) {
	db, err := gorm.Open(d, config)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return db, nil
}

func closeDatabase(db *gorm.DB) {
	if pool, err := db.DB(); err == nil {
		pool.Close()
	}
}

// migrate creates the tables of the application, then those of gormjobs.
func migrate(ctx context.Context, db *gorm.DB) error {
	db = db.WithContext(ctx)
	if err := db.AutoMigrate(&User{}, &Session{}, &PasswordReset{}, &Invitation{}); err != nil {
		return fmt.Errorf("migrate the application: %w", err)
	}
	if err := models.Migrate(db); err != nil {
		return err
	}
	// An invitation to try: its fourth guest is turned away.
	return db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Invitation{Code: "friends", Seats: 3}).Error
}
