package main

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// CleanupExpiredSessions is the job that cron enqueues, see background.go.
type CleanupExpiredSessions struct{}

// JobType is how the job is called in the database.
func (CleanupExpiredSessions) JobType() string { return "cleanup_expired_sessions" }

// cleanupExpiredSessions is registered with RegisterTx: what it does through tx
// commits together with the job's completion.
func cleanupExpiredSessions(_ context.Context, tx *gorm.DB, _ CleanupExpiredSessions) error {
	now := time.Now().Unix()
	if err := tx.Where("expires_at < ?", now).Delete(&Session{}).Error; err != nil {
		return err
	}
	return tx.Where("expires_at < ?", now).Delete(&PasswordReset{}).Error
}
