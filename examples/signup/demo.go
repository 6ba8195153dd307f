package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/models"
)

// demoLimit is far more than the demo takes.
const demoLimit = 2 * time.Minute

// story is one run of the demo. All its people have addresses at a domain of the
// run, so it can be told again on the same database and counts only its own.
type story struct {
	db     *gorm.DB
	url    string
	domain string
	before uint64 // the newest job there was
	box    *Mailbox
	workers
	killAt  int32 // kill the worker when so many mails are kept
	kept    atomic.Int32
	outcome outcome
}

// demo tells the story: the pages and the mail server are in this process, the
// worker is another one. dsn "" means an SQLite file that is deleted at the end.
// No other worker of the application may run on the database meanwhile: it would
// take jobs of the story, and mail them elsewhere.
func demo(ctx context.Context, dsn string, people int) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("the demo was not over after %s", demoLimit))
	defer cancel()
	if dsn == "" {
		dir, err := os.MkdirTemp("", "signup-demo-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		dsn = filepath.Join(dir, "signup.db")
	}
	db, err := openDatabase(dsn)
	if err != nil {
		return err
	}
	defer closeDatabase(db)
	if err := migrate(ctx, db); err != nil {
		return err
	}
	s := &story{db: db, domain: "run-" + strings.ToLower(rand.Text()[:10]) + ".example", killAt: int32(max(1, people/2))}
	if err := db.Model(&models.Job{}).Select("coalesce(max(id), 0)").Scan(&s.before).Error; err != nil {
		return err
	}

	s.box = &Mailbox{Refuse: func(to string) bool { return to == s.address("nobody") }, Trouble: s.trouble, Kept: s.mailKept}
	smtpAddr, stopMail, err := s.box.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer stopMail()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.url = "http://" + listener.Addr().String()
	s.workers = workers{url: s.url, env: []string{"SIGNUP_DSN=" + dsn, "SMTP_ADDR=" + smtpAddr}}
	defer s.workers.kill() // whatever happens below

	fmt.Println("pages and mailbox at", s.url, "while this lasts")
	// Passwords are hashed the cheap way here: the demo is about mails.
	web := &Web{app: &App{db: db, hashRounds: 1000}, box: s.box}
	pages, stopPages := context.WithCancel(ctx)
	group, pages := errgroup.WithContext(pages)
	group.Go(func() error { return servePages(pages, listener, web.Routes()) })
	err = s.tell(ctx, people)
	stopPages()
	if err = errors.Join(err, group.Wait()); err != nil {
		return fmt.Errorf("demo failed: %w", err)
	}
	fmt.Println("demo ok:", &s.outcome)
	return nil
}

func (s *story) tell(ctx context.Context, people int) error {
	if err := s.workers.start(); err != nil {
		return err
	}
	if err := s.signUps(ctx, people); err != nil {
		return err
	}
	if err := s.resets(ctx, people); err != nil {
		return err
	}
	if err := s.expireSessions(ctx); err != nil {
		return err
	}
	if err := s.finished(ctx); err != nil {
		return err
	}
	// Stopped in order, before the counting: nothing can change any more.
	if err := s.workers.stop(); err != nil {
		return err
	}
	return s.check(ctx)
}

func (s *story) address(name string) string { return name + "@" + s.domain }

func (s *story) mine(address string) bool { return strings.HasSuffix(address, "@"+s.domain) }

// trouble is the mail server's bad day. It strikes a mail once: a kill may cost
// it another attempt, and it has three.
func (s *story) trouble(m Message, try int) Trouble {
	if !s.mine(m.To) || try > 1 {
		return None
	}
	var person int
	if _, err := fmt.Sscanf(m.To, "p%d@", &person); err != nil {
		return None
	}
	switch person % 8 {
	case 1:
		return Busy
	case 2:
		return Rejects
	case 4:
		return HangsUp
	case 6:
		return LosesReply
	}
	return None
}

// mailKept kills the worker half-way, at the worst of moments: the mail is in the
// mailbox, and the worker will never know.
func (s *story) mailKept(m Message) {
	if !s.mine(m.To) || s.kept.Add(1) != s.killAt {
		return
	}
	fmt.Printf("kill -9 after %d mails, while %s is being delivered\n", s.killAt, m.ID)
	s.workers.kill()
	s.outcome.kills++
	if err := s.workers.start(); err != nil {
		fmt.Println("the worker does not start again:", err) // noticed when nothing gets finished
	}
}
