package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
)

// App is what the application does, without its pages.
type App struct {
	db         *gorm.DB
	hashRounds int
}

// What the visitor can do something about.
var (
	ErrTaken       = errors.New("there is an account for this address already")
	ErrInvitation  = errors.New("this invitation has no seats left")
	ErrCredentials = errors.New("the address or the password is wrong")
	ErrLink        = errors.New("this link has expired, or was used before")
)

// SignUp creates the user and their first session, and welcomes them by mail. It
// returns the session's token.
//
// The mail is a row like the others: if anything below fails, the process dies
// included, there is no user and no mail. If all is well there are both. No order
// of "commit" and "send" could promise that.
func (a *App) SignUp(ctx context.Context, address, password, invitation string) (session string, err error) {
	email, err := parseAddress(address)
	if err != nil {
		return "", err
	}
	hash, err := hashPassword(password, a.hashRounds) // takes long: before the transaction
	if err != nil {
		return "", err
	}
	session, confirmation := rand.Text(), rand.Text()

	err = a.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		user := User{Email: email, PasswordHash: hash, ConfirmationHash: digest(confirmation)}
		if err := tx.Create(&user).Error; err != nil {
			return err
		}
		if err := tx.Create(newSession(user.ID, session)).Error; err != nil {
			return err
		}
		if _, err := dispatcher.Enqueue(ctx, tx, WelcomeEmail{Email: email, Token: confirmation}); err != nil {
			return err
		}
		// Last, because everybody with this invitation waits for its row until we
		// commit. It can still undo all of the above.
		return takeSeat(tx, invitation)
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return "", ErrTaken
	}
	if err != nil {
		return "", fmt.Errorf("sign up: %w", err)
	}
	return session, nil
}

// takeSeat is a condition and a write in one statement, so that two guests cannot
// both have the last seat.
func takeSeat(tx *gorm.DB, code string) error {
	if code == "" {
		return nil // an invitation is not required
	}
	update := tx.Model(&Invitation{}).Where("code = ? AND seats > 0", code).
		Update("seats", gorm.Expr("seats - 1"))
	if update.Error != nil {
		return update.Error
	}
	if update.RowsAffected == 0 {
		return ErrInvitation
	}
	return nil
}

// RequestReset mails a link with which a new password can be chosen. It says
// nothing about whether there is such a user, so that nobody can find out who has
// an account here.
func (a *App) RequestReset(ctx context.Context, address string) error {
	email, err := parseAddress(address)
	if err != nil {
		return err
	}
	token := rand.Text()
	return a.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var users []User
		if err := tx.Where("email = ?", email).Limit(1).Find(&users).Error; err != nil || len(users) == 0 {
			return err
		}
		reset := PasswordReset{TokenHash: digest(token), UserID: users[0].ID, ExpiresAt: time.Now().Add(resetLifetime).Unix()}
		if err := tx.Create(&reset).Error; err != nil {
			return err
		}
		_, err := dispatcher.Enqueue(ctx, tx, PasswordResetEmail{Email: email, Token: token})
		return err
	})
}

// ResetPassword uses a link up, and ends the user's sessions.
func (a *App) ResetPassword(ctx context.Context, token, password string) error {
	hash, err := hashPassword(password, a.hashRounds)
	if err != nil {
		return err
	}
	return a.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var resets []PasswordReset
		if err := tx.Where("token_hash = ?", digest(token)).Limit(1).Find(&resets).Error; err != nil {
			return err
		}
		if len(resets) == 0 {
			return ErrLink
		}
		// The delete decides who of two with the same link is first.
		used := tx.Where("token_hash = ? AND expires_at > ?", digest(token), time.Now().Unix()).Delete(&PasswordReset{})
		if used.Error != nil {
			return used.Error
		}
		if used.RowsAffected == 0 {
			return ErrLink
		}
		if err := tx.Where("user_id = ?", resets[0].UserID).Delete(&Session{}).Error; err != nil {
			return err
		}
		return tx.Model(&User{}).Where("id = ?", resets[0].UserID).Update("password_hash", hash).Error
	})
}

// Confirm notes that the user got the welcome mail. A second click does no harm.
func (a *App) Confirm(ctx context.Context, token string) error {
	var users []User
	err := a.db.WithContext(ctx).Where("confirmation_hash = ?", digest(token)).Limit(1).Find(&users).Error
	if err != nil {
		return err
	}
	if len(users) == 0 {
		return ErrLink
	}
	return a.db.WithContext(ctx).Model(&User{}).Where("id = ?", users[0].ID).Update("confirmed", true).Error
}

// SignIn checks the password and returns the token of a new session.
func (a *App) SignIn(ctx context.Context, address, password string) (session string, err error) {
	email, err := parseAddress(address)
	if err != nil {
		return "", ErrCredentials
	}
	var users []User
	if err := a.db.WithContext(ctx).Where("email = ?", email).Limit(1).Find(&users).Error; err != nil {
		return "", err
	}
	if len(users) == 0 || !checkPassword(users[0].PasswordHash, password) {
		return "", ErrCredentials
	}
	session = rand.Text()
	return session, a.db.WithContext(ctx).Create(newSession(users[0].ID, session)).Error
}

// SignOut ends a session.
func (a *App) SignOut(ctx context.Context, session string) error {
	return a.db.WithContext(ctx).Where("token_hash = ?", digest(session)).Delete(&Session{}).Error
}

// UserOf returns whose session it is, and nil if it is nobody's.
func (a *App) UserOf(ctx context.Context, session string) (*User, error) {
	var users []User
	err := a.db.WithContext(ctx).Joins("JOIN sessions ON sessions.user_id = users.id").
		Where("sessions.token_hash = ? AND sessions.expires_at > ?", digest(session), time.Now().Unix()).
		Limit(1).Find(&users).Error
	if err != nil || len(users) == 0 {
		return nil, err
	}
	return &users[0], nil
}
