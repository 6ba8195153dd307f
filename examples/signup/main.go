// Command signup is a small web application whose mails are background jobs:
// people sign up and ask for password resets, and each mail is enqueued in the
// transaction of the rows it is about.
//
//	go run ./examples/signup          # serves the pages, on SQLite
//	go run ./examples/signup -demo    # shows what survives a kill -9
//
// Where to look first: SignUp in app.go enqueues, mail.go says what the jobs are
// and answers them, background.go runs them.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

type options struct {
	dsn, addr, url string
	worker         bool
	hasty, tied    bool
	demo           bool
	people         int
}

func main() {
	var o options
	// The environment, too: a command line is for everyone on the machine to read,
	// and a DSN has a password in it.
	flag.StringVar(&o.dsn, "dsn", "", "the database: postgres://…, user:pass@tcp(…)/name, or an SQLite file (default $SIGNUP_DSN, else signup.db)")
	flag.StringVar(&o.addr, "addr", "127.0.0.1:8080", "where to serve the pages")
	flag.StringVar(&o.url, "url", "", "what links in mails begin with (default http:// and -addr)")
	flag.BoolVar(&o.worker, "worker", false, "run the jobs only, no pages; needs $SMTP_ADDR")
	flag.BoolVar(&o.hasty, "hasty", false, "seconds instead of minutes: lease, backoff, cron")
	flag.BoolVar(&o.tied, "tied", false, "end when standard input does, as the children of -demo do")
	flag.BoolVar(&o.demo, "demo", false, "sign people up, kill the worker, and check that each got their mail")
	flag.IntVar(&o.people, "people", 40, "how many sign up in the demo")
	flag.Parse()

	// The first Ctrl-C ends everything in order. A second one, after stop, kills.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "signup:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("what is %q? see -h", flag.Arg(0))
	}
	dsn := cmp.Or(o.dsn, os.Getenv("SIGNUP_DSN"))
	url := cmp.Or(o.url, "http://"+o.addr)
	if o.tied {
		ctx = untilEOF(ctx, os.Stdin)
	}
	switch {
	case o.demo:
		return demo(ctx, dsn, o.people)
	case o.worker:
		return work(ctx, cmp.Or(dsn, "signup.db"), url, paceFor(o.hasty))
	}
	return serve(ctx, cmp.Or(dsn, "signup.db"), o.addr, url, paceFor(o.hasty))
}

// serve is the whole application in one process: pages, worker and schedule.
func serve(ctx context.Context, dsn, addr, url string, p pace) error {
	db, err := openDatabase(dsn)
	if err != nil {
		return err
	}
	defer closeDatabase(db)
	if err := migrate(ctx, db); err != nil {
		return err
	}
	smtpAddr, box := os.Getenv("SMTP_ADDR"), (*Mailbox)(nil)
	if smtpAddr == "" {
		// Closed last, by the defer: mails go out until the worker has ended.
		box = new(Mailbox)
		var stop func()
		if smtpAddr, stop, err = box.Start("127.0.0.1:0"); err != nil {
			return err
		}
		defer stop()
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("serving http://%s, mailing through %s\n", listener.Addr(), smtpAddr)
	web := &Web{app: &App{db: db, hashRounds: hashRounds}, box: box, secure: isHTTPS(url)}
	mailer := &Mailer{Addr: smtpAddr, URL: url}

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return servePages(ctx, listener, web.Routes()) })
	group.Go(func() error { return runJobs(ctx, db, mailer, p) })
	return group.Wait()
}

// work is a process that only runs jobs. Any number of them may.
func work(ctx context.Context, dsn, url string, p pace) error {
	smtpAddr := os.Getenv("SMTP_ADDR")
	if smtpAddr == "" {
		return errors.New("-worker needs a mail server in SMTP_ADDR: the one that the web process starts is its own")
	}
	db, err := openDatabase(dsn)
	if err != nil {
		return err
	}
	defer closeDatabase(db)
	return runJobs(ctx, db, &Mailer{Addr: smtpAddr, URL: url}, p)
}

// servePages serves until ctx ends, and then lets the requests under way finish.
func servePages(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := server.Shutdown(grace)
	<-served
	return err
}

// untilEOF ends the context when r does. A pipe ends when the process at its other
// end dies, however it dies, so a child that watches it is never left behind.
func untilEOF(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r)
		cancel()
	}()
	return ctx
}
