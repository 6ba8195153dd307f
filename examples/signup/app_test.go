package main

import (
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
)

func TestACommittedSignUpIsWelcomedOnce(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		app, box := newApp(t, db), new(Mailbox)
		mailer := startMailbox(t, box)
		signUp(t, app, "Ada@Example.com")
		drain(t, db, mailer)
		wantMails(t, box, "Welcome to ada@example.com")
	}, translated)
}

func TestASignUpRolledBackAfterItsEnqueueSendsNothing(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		app, box := newApp(t, db), new(Mailbox)
		mailer := startMailbox(t, box)
		if err := db.Create(&Invitation{Code: "one", Seats: 1}).Error; err != nil {
			t.Fatal(err)
		}
		if _, err := app.SignUp(t.Context(), "first@example.com", "long enough", "one"); err != nil {
			t.Fatal(err)
		}
		if _, err := app.SignUp(t.Context(), "second@example.com", "long enough", "one"); !errors.Is(err, ErrInvitation) {
			t.Fatalf("the second with an invitation for one: %v, want %v", err, ErrInvitation)
		}
		if n := drain(t, db, mailer); n != 1 {
			t.Errorf("%d jobs ran, want 1", n)
		}
		wantMails(t, box, "Welcome to first@example.com")
		var users int64
		if err := db.Model(&User{}).Count(&users).Error; err != nil || users != 1 {
			t.Errorf("%d users, %v; want 1", users, err)
		}
	}, translated)
}

func TestATakenAddressIsNotWelcomedAgain(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		app, box := newApp(t, db), new(Mailbox)
		mailer := startMailbox(t, box)
		signUp(t, app, "ada@example.com")
		if _, err := app.SignUp(t.Context(), "ADA@example.com", "long enough", ""); !errors.Is(err, ErrTaken) {
			t.Fatalf("the same address again: %v, want %v", err, ErrTaken)
		}
		drain(t, db, mailer)
		wantMails(t, box, "Welcome to ada@example.com")
	}, translated)
}

func TestAResetIsMailedToThoseWithAnAccountOnly(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		app, box := newApp(t, db), new(Mailbox)
		mailer := startMailbox(t, box)
		signUp(t, app, "ada@example.com")
		for _, address := range []string{"ada@example.com", "stranger@example.com"} {
			if err := app.RequestReset(t.Context(), address); err != nil {
				t.Fatalf("request a reset for %s: %v", address, err)
			}
		}
		drain(t, db, mailer)
		wantMails(t, box, "Welcome to ada@example.com", "Choose a new password to ada@example.com")
	}, translated)
}

func TestTheCleanupDeletesExpiredSessionsOnly(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		newApp(t, db)
		now := time.Now()
		for token, expires := range map[string]time.Time{"old": now.Add(-time.Second), "older": now.Add(-time.Hour), "live": now.Add(time.Hour)} {
			s := newSession(1, token)
			s.ExpiresAt = expires.Unix()
			if err := db.Create(s).Error; err != nil {
				t.Fatal(err)
			}
		}
		if _, err := dispatcher.EnqueueNow(t.Context(), db, CleanupExpiredSessions{}); err != nil {
			t.Fatal(err)
		}
		if n := drain(t, db, &Mailer{}); n != 1 {
			t.Fatalf("%d jobs ran, want 1", n)
		}
		var left []Session
		if err := db.Find(&left).Error; err != nil {
			t.Fatal(err)
		}
		if len(left) != 1 || left[0].TokenHash != digest("live") {
			t.Errorf("left are %v, want the live one", left)
		}
	}, translated)
}

func TestAnAddressCannotAddHeadersToItsMail(t *testing.T) {
	for _, address := range []string{
		"ada@example.com\r\nBcc: eve@example.com", "Ada <ada@example.com>", "ada@example.com, eve@example.com",
		"ada", "", "\"a\r\nb\"@example.com", "adä@example.com",
	} {
		if got, err := parseAddress(address); !errors.Is(err, ErrAddress) {
			t.Errorf("parseAddress(%q) = %q, %v; want %v", address, got, err, ErrAddress)
		}
	}
}
