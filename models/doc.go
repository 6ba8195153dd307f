// Package models has the rows of gormjobs: what a job is, what is kept of a
// failed attempt, and what the scheduler remembers. It creates and checks their
// tables, and it has no behaviour beyond that.
//
// The rows are ordinary GORM models, so an application reads them as it reads
// its own:
//
//	var failed []models.Job
//	err := db.Preload("Failures").Where("state = ?", models.Failed).Find(&failed).Error
//
// Changing their state is the work of package jobs: a state set by hand skips
// the fence that keeps a job from being run twice.
package models
