package main

import "time"

// Times are Unix seconds: a number means the same on all four databases, whatever
// time zone they, their drivers and this process are in.

// User is somebody who has signed up.
type User struct {
	ID               uint   `gorm:"primaryKey"`
	Email            string `gorm:"size:254;not null;uniqueIndex"`
	PasswordHash     string `gorm:"size:200;not null"`
	ConfirmationHash string `gorm:"size:64;not null;index"` // of the welcome mail's token
	Confirmed        bool   `gorm:"not null"`
	CreatedAt        int64  `gorm:"not null"`
}

// Session is a browser that is signed in. Only its cookie has the token itself:
// who reads the table cannot sign in with what they find.
type Session struct {
	TokenHash string `gorm:"size:64;primaryKey"`
	UserID    uint   `gorm:"not null;index"`
	ExpiresAt int64  `gorm:"not null;index"`
}

// PasswordReset is a link that was mailed.
type PasswordReset struct {
	TokenHash string `gorm:"size:64;primaryKey"`
	UserID    uint   `gorm:"not null;index"`
	ExpiresAt int64  `gorm:"not null"`
}

// Invitation lets so many more people in.
type Invitation struct {
	Code  string `gorm:"size:50;primaryKey"`
	Seats int    `gorm:"not null"`
}

const (
	sessionLifetime = 14 * 24 * time.Hour
	resetLifetime   = time.Hour
)

func newSession(user uint, token string) *Session {
	return &Session{TokenHash: digest(token), UserID: user, ExpiresAt: time.Now().Add(sessionLifetime).Unix()}
}
