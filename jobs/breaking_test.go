package jobs_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
)

// errBroken is what a connection says that broke.
var errBroken = errors.New("write: broken pipe")

// breaking is a second handle on the database of db, which asks after every commit
// whether its answer gets lost. The commit has happened.
func breaking(t testing.TB, db *gorm.DB, lost func() bool) *gorm.DB {
	t.Helper()
	again := testdb.Again(t, db)
	pool, err := again.DB()
	if err != nil {
		t.Fatal(err)
	}
	again.ConnPool = &breakingPool{pool, lost}
	again.Statement.ConnPool = again.ConnPool
	return again
}

type breakingPool struct {
	*sql.DB
	lost func() bool
}

// BeginTx implements gorm.ConnPoolBeginner.
func (p *breakingPool) BeginTx(ctx context.Context, o *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.DB.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &breakingTx{tx, p.lost}, nil
}

// GetDBConn implements gorm.GetDBConnector.
func (p *breakingPool) GetDBConn() (*sql.DB, error) { return p.DB, nil }

type breakingTx struct {
	*sql.Tx
	lost func() bool
}

func (t *breakingTx) Commit() error {
	err := t.Tx.Commit()
	if err == nil && t.lost() {
		return errBroken
	}
	return err
}
