package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

func TestAMailOutlivesTheTroubleOfItsServer(t *testing.T) {
	for name, c := range map[string]struct {
		trouble Trouble
		failure string // part of what is recorded
		repeats int
	}{
		"busy":       {Busy, "451", 0},
		"rejects":    {Rejects, "554", 0},
		"hangsUp":    {HangsUp, "EOF", 0},
		"losesReply": {LosesReply, "EOF", 1},
	} {
		t.Run(name, func(t *testing.T) {
			db := testdb.Open(t, testdb.SQLite, translated)
			app := newApp(t, db)
			box := &Mailbox{Trouble: func(_ Message, try int) Trouble {
				if try == 1 {
					return c.trouble
				}
				return None
			}}
			mailer := startMailbox(t, box)
			signUp(t, app, "ada@example.com")
			if n := drain(t, db, mailer); n != 2 {
				t.Errorf("%d runs, want 2", n)
			}
			wantMails(t, box, "Welcome to ada@example.com")
			if got := len(box.Repeats()); got != c.repeats {
				t.Errorf("%d repeats were dropped, want %d", got, c.repeats)
			}
			job := onlyJob(t, db)
			if job.State != models.Completed || len(job.Failures) != 1 || !strings.Contains(job.Failures[0].Error, c.failure) {
				t.Errorf("the job is %s with failures %+v, want completed with one of %q", job.State, job.Failures, c.failure)
			}
		})
	}
}

func TestAMailThatIsRefusedThreeTimesHasFailedForGood(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		app, box := newApp(t, db), &Mailbox{Refuse: func(string) bool { return true }}
		mailer := startMailbox(t, box)
		signUp(t, app, "nobody@example.com")
		if n := drain(t, db, mailer); n != 3 {
			t.Errorf("%d runs, want 3", n)
		}
		wantMails(t, box)
		job := onlyJob(t, db)
		if job.State != models.Failed || job.Attempts != 3 || len(job.Failures) != 3 {
			t.Errorf("the job is %s after %d attempts with %d failures, want failed, 3, 3", job.State, job.Attempts, len(job.Failures))
		}
		if !strings.Contains(job.LastError, "no such mailbox") {
			t.Errorf("the last error is %q, want the server's words", job.LastError)
		}
	}, translated)
}

func TestNoTokenIsInWhatIsRecordedOfAFailure(t *testing.T) {
	db := testdb.Open(t, testdb.SQLite, translated)
	app := newApp(t, db)
	mailer := startMailbox(t, &Mailbox{Trouble: func(Message, int) Trouble { return Rejects }})
	signUp(t, app, "ada@example.com")
	drain(t, db, mailer)
	job := onlyJob(t, db)
	_, token, _ := strings.Cut(string(job.Payload), `"token":"`)
	token, _, _ = strings.Cut(token, `"`)
	if len(token) < 20 {
		t.Fatalf("the payload has the token %q", token)
	}
	for _, f := range job.Failures {
		if strings.Contains(f.Error, token) {
			t.Errorf("the failure has the token in it: %s", f.Error)
		}
	}
}

// A server that accepts connections and says nothing.
func TestAMailServerThatHangsIsLeftWhenTheTimeIsUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	connected := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			connected <- c
		}
	}()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	sent := make(chan error, 1)
	go func() { sent <- send(ctx, l.Addr().String(), Message{To: "ada@example.com", ID: "<1@test>"}) }()
	c := <-connected
	defer c.Close()
	reason := errors.New("time is up")
	cancel(reason)
	select {
	case err := <-sent:
		if !errors.Is(err, reason) {
			t.Errorf("send = %v, want %v", err, reason)
		}
	case <-time.After(10 * time.Second):
		t.Error("send still waits for the server")
	}
}

func TestAJobHasOneMessageIDInAllItsRuns(t *testing.T) {
	ids := map[string]bool{}
	registry := handlers.NewRegistry()
	handlers.Register(registry, func(ctx context.Context, p WelcomeEmail) error {
		ids[messageID(ctx, p.Token)] = true
		return nil
	})
	handler, _ := registry.Lookup(WelcomeEmail{}.JobType())
	run := func(job models.Job) {
		if err := handler.Run(t.Context(), &job); err != nil {
			t.Fatal(err)
		}
	}
	run(models.Job{ID: 7, Attempts: 1, Payload: `{"token":"a"}`})
	run(models.Job{ID: 7, Attempts: 2, Payload: `{"token":"a"}`})
	if len(ids) != 1 {
		t.Errorf("two runs of one job have the Message-IDs %v, want one", ids)
	}
	run(models.Job{ID: 8, Payload: `{"token":"a"}`})
	run(models.Job{ID: 7, Payload: `{"token":"b"}`}) // of another database
	if len(ids) != 3 {
		t.Errorf("three jobs have the Message-IDs %v, want three", ids)
	}
}
