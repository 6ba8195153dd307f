package main

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
)

// naiveMail is a row of the queue that everyone writes first.
type naiveMail struct {
	ID      uint
	Address string
	Sent    bool
}

// naiveWorker is the worker that goes with it: read the oldest pending row, send,
// mark it. Nothing tells a second one that the first has this row already.
func naiveWorker(ctx context.Context, db *gorm.DB, smtpAddr string) error {
	var m naiveMail
	if err := db.Where("sent = ?", false).Order("id").Take(&m).Error; err != nil {
		return err
	}
	if err := send(ctx, smtpAddr, Message{To: m.Address, ID: "<" + rand.Text() + "@naive>", Subject: "Welcome"}); err != nil {
		return err
	}
	return db.Model(&m).Update("sent", true).Error
}

// holdFirst is a mailbox that keeps the first mail and makes its sender wait for
// the answer: the moment between the send and the mark, as long as we like.
func holdFirst() (box *Mailbox, kept <-chan struct{}, release func()) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	var n atomic.Int32
	box = &Mailbox{Kept: func(Message) {
		if n.Add(1) == 1 {
			close(arrived)
			<-answer
		}
	}}
	return box, arrived, func() { close(answer) }
}

func TestTwoNaiveWorkersSendOneMailTwice(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if err := db.AutoMigrate(&naiveMail{}); err != nil {
			t.Fatal(err)
		}
		if err := db.Create(&naiveMail{Address: "ada@example.com"}).Error; err != nil {
			t.Fatal(err)
		}
		box, kept, release := holdFirst()
		mailer := startMailbox(t, box)

		first := make(chan error, 1)
		go func() { first <- naiveWorker(t.Context(), db, mailer.Addr) }()
		<-kept
		second := naiveWorker(t.Context(), testdb.Again(t, db), mailer.Addr)
		release()
		if err := <-first; err != nil || second != nil {
			t.Fatalf("the workers end with %v and %v, want nil", err, second)
		}
		// Neither has noticed anything.
		wantMails(t, box, "Welcome to ada@example.com", "Welcome to ada@example.com")
	})
}

func TestTwoWorkersSendOneMailOnce(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		app := newApp(t, db)
		signUp(t, app, "ada@example.com")
		box, kept, release := holdFirst()
		mailer := startMailbox(t, box)

		type result struct {
			n   int
			err error
		}
		first := make(chan result, 1)
		worker := newWorker(t, db, mailer)
		go func() { n, err := worker.Drain(t.Context()); first <- result{n, err} }()
		<-kept
		n, err := newWorker(t, testdb.Again(t, db), mailer).Drain(t.Context())
		release()
		if n != 0 || err != nil {
			t.Errorf("the second worker's Drain = %d, %v; want 0: the first has the job", n, err)
		}
		if got := <-first; got.n != 1 || got.err != nil {
			t.Errorf("the first worker's Drain = %d, %v; want 1", got.n, got.err)
		}
		wantMails(t, box, "Welcome to ada@example.com")
		if repeats := box.Repeats(); len(repeats) != 0 {
			t.Errorf("it was sent again: %v", repeats)
		}
	}, translated)
}
