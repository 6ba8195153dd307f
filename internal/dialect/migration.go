package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"

	"gorm.io/gorm"
)

// ExclusiveMigration runs fn while no other process migrates the same table: an
// advisory lock on PostgreSQL, GET_LOCK on MySQL and MariaDB, an immediate
// transaction on SQLite. Without it most of eight processes that start at once
// fail, as each sees a table missing that another is creating. Everything fn does
// must go through conn. On PostgreSQL and SQLite it happens in one transaction.
func ExclusiveMigration(ctx context.Context, db *gorm.DB, conn *sql.Conn, table string, fn func() error) error {
	switch db.Name() {
	case mysql:
		return withNamedLock(ctx, conn, table, fn)
	case postgres:
		// Above READ COMMITTED the snapshot would be older than the wait for the lock,
		// and not have the tables that were created meanwhile.
		return inTransaction(ctx, conn, "BEGIN ISOLATION LEVEL READ COMMITTED", fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", int64(hash(table))), fn)
	default:
		return inTransaction(ctx, conn, "BEGIN IMMEDIATE", "", fn)
	}
}

func hash(table string) uint64 {
	h := fnv.New64a()
	h.Write([]byte("gormjobs migrate " + table))
	return h.Sum64()
}

func inTransaction(ctx context.Context, conn *sql.Conn, begin, lock string, fn func() error) error {
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		return err
	}
	err := func() error {
		if lock != "" {
			if _, err := conn.ExecContext(ctx, lock); err != nil {
				return err
			}
		}
		return fn()
	}()
	end := "COMMIT"
	if err != nil {
		end = "ROLLBACK"
	}
	// The connection goes back to the pool, so its transaction must end.
	_, endErr := conn.ExecContext(context.WithoutCancel(ctx), end)
	return errors.Join(err, endErr)
}

func withNamedLock(ctx context.Context, conn *sql.Conn, table string, fn func() error) (err error) {
	// The lock is the server's, not the database's; MySQL takes 64 characters.
	var database sql.NullString
	if err := conn.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return err
	}
	name := fmt.Sprintf("gormjobs %x", hash(database.String+"."+table))
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 600)", name).Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errors.New("another process has been migrating for 10 minutes")
	}
	defer func() {
		_, releaseErr := conn.ExecContext(context.WithoutCancel(ctx), "SELECT RELEASE_LOCK(?)", name)
		err = errors.Join(err, releaseErr)
	}()
	return fn()
}
