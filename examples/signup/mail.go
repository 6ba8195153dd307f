package main

import (
	"context"
	"fmt"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
)

// WelcomeEmail is the job that welcomes a new user. Its payload is all that the
// mail needs, as it was when the user signed up.
type WelcomeEmail struct {
	Email string `json:"email"`
	Token string `json:"token"` // of the link that confirms the address
}

// JobType is how the job is called in the database.
func (WelcomeEmail) JobType() string { return "send_welcome_email" }

// JobOptions are those of every such job, unless the enqueue says otherwise.
func (WelcomeEmail) JobOptions() []dispatcher.Option { return mailOptions }

// PasswordResetEmail is the job that mails a link to choose a new password.
type PasswordResetEmail struct {
	Email string `json:"email"`
	Token string `json:"token"`
}

// JobType is how the job is called in the database.
func (PasswordResetEmail) JobType() string { return "send_password_reset" }

// JobOptions are those of every such job, unless the enqueue says otherwise.
func (PasswordResetEmail) JobOptions() []dispatcher.Option { return mailOptions }

// A queue of their own: a slow mail server holds up mails and nothing else. After
// three attempts the address is probably wrong, and the job is failed for good.
var mailOptions = []dispatcher.Option{dispatcher.Queue("mail"), dispatcher.MaxAttempts(3)}

// Mailer answers the jobs that are mails.
type Mailer struct {
	Addr string // of the mail server
	URL  string // what links begin with
}

// Welcome is the handler of [WelcomeEmail]. An error is a failed attempt.
func (m *Mailer) Welcome(ctx context.Context, p WelcomeEmail) error {
	return send(ctx, m.Addr, Message{
		To: p.Email, ID: messageID(ctx, p.Token), Subject: "Welcome",
		Text: "Good to have you here! Please confirm your address:\n\n" + m.URL + "/confirm/" + p.Token,
	})
}

// PasswordReset is the handler of [PasswordResetEmail].
func (m *Mailer) PasswordReset(ctx context.Context, p PasswordResetEmail) error {
	return send(ctx, m.Addr, Message{
		To: p.Email, ID: messageID(ctx, p.Token), Subject: "Choose a new password",
		Text: "Somebody, you we hope, asked for a new password. Choose it within the hour:\n\n" + m.URL + "/reset/" + p.Token,
	})
}

// messageID is the same whenever the same job is run again. That is what makes a
// handler bear repetition: a worker may be killed after the mail server's yes and
// before it has recorded the completion. The job then runs again, as it must, for
// nobody knows how far it got; the mail goes out twice, and whoever sorts it into
// a mailbox sees that it has this one already.
//
// The job's id would do for one database. The token tells jobs of several
// databases apart, hashed, because mail servers log Message-IDs.
func messageID(ctx context.Context, token string) string {
	job, ok := handlers.JobFrom(ctx)
	if !ok {
		return fmt.Sprintf("<%s@signup.example>", digest(token)[:16])
	}
	return fmt.Sprintf("<job-%d.%s@signup.example>", job.ID, digest(token)[:16])
}
