package models_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormjobs/gormjobs/models"
)

// openExample stands for the application's own database.
func openExample() *gorm.DB {
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		log.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		log.Fatal(err)
	}
	pool.SetMaxOpenConns(1) // each connection of :memory: is a database of its own
	return db
}

func closeExample(db *gorm.DB) {
	if pool, err := db.DB(); err == nil {
		pool.Close()
	}
}

// Migrate is for every start of the application.
func ExampleMigrate() {
	db := openExample()
	defer closeExample(db)
	for range 2 {
		if err := models.Migrate(db); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(db.Migrator().HasTable("queue_jobs"))
	// Output: true
}

// Check is for applications that run their own migrations.
func ExampleCheck() {
	db := openExample()
	defer closeExample(db)
	err := models.Check(context.Background(), db)
	var missing *models.MissingError
	if errors.As(err, &missing) {
		fmt.Println(missing.Tables)
	}
	// Output: [queue_jobs queue_failures queue_schedules]
}

// DDL prints what Migrate would run, for a tool that keeps migrations as files.
func ExampleDDL() {
	db := openExample()
	defer closeExample(db)
	statements, err := models.DDL(db)
	if err != nil {
		log.Fatal(err)
	}
	for _, statement := range statements {
		if !strings.HasPrefix(statement, "CREATE TABLE") {
			fmt.Println(statement)
		}
	}
	// Output:
	// CREATE UNIQUE INDEX `idx_queue_jobs_live_v1` ON `queue_jobs`(`unique_live`) WHERE unique_live IS NOT NULL
	// CREATE INDEX `idx_queue_jobs_claim_v1` ON `queue_jobs` (queue, priority, available_at, id) WHERE state = 'pending'
	// CREATE INDEX `idx_queue_jobs_running_v1` ON `queue_jobs` (id) WHERE state = 'processing'
	// CREATE INDEX `idx_queue_jobs_due_v1` ON `queue_jobs` (due_at) WHERE due_at IS NOT NULL
	// CREATE INDEX `idx_queue_jobs_done_v1` ON `queue_jobs` (finished_at) WHERE finished_at IS NOT NULL
	// CREATE INDEX `idx_queue_failures_job_v1` ON `queue_failures` (job_id)
}

// Rows are ordinary GORM models.
func ExampleJob() {
	db := openExample()
	defer closeExample(db)
	if err := models.Migrate(db); err != nil {
		log.Fatal(err)
	}
	var failed []models.Job
	err := db.Preload("Failures").Where("state = ?", models.Failed).Limit(100).Find(&failed).Error
	fmt.Println(len(failed), err)
	// Output: 0 <nil>
}
