package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/smtp"
	"strings"
	"time"
)

// Message is a mail.
type Message struct {
	To, ID, Subject, Text string
}

const sender = "hello@signup.example"

// send hands a mail to the server at addr. nil means that the server said yes.
func send(ctx context.Context, addr string, m Message) error {
	err := deliver(ctx, addr, m)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // rather than that the connection was closed
	}
	if err != nil {
		return fmt.Errorf("send %s: %w", m.ID, err)
	}
	return nil
}

func deliver(ctx context.Context, addr string, m Message) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	// net/smtp knows no context. Ending the connection ends whatever it waits for.
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	return talk(conn, addr, m)
}

func talk(conn net.Conn, addr string, m Message) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	if ok, _ := c.Extension("STARTTLS"); ok {
		if err := c.StartTLS(&tls.Config{ServerName: host}); err != nil {
			return err
		}
	}
	if err := c.Mail(sender); err != nil {
		return err
	}
	if err := c.Rcpt(m.To); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, m.text()); err != nil {
		return err
	}
	// Here the server says yes or no. What comes after does not count: an error of
	// QUIT would have the mail sent again.
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit()
	return nil
}

// text is the mail as it goes over the wire. The parts are ASCII, and none of
// them comes from a user but To, which parseAddress has looked at.
func (m Message) text() string {
	return strings.Join([]string{
		"From: " + sender,
		"To: " + m.To,
		"Subject: " + m.Subject,
		"Message-ID: " + m.ID,
		"Date: " + time.Now().Format(time.RFC1123Z),
		"Content-Type: text/plain; charset=us-ascii",
		"",
		strings.ReplaceAll(m.Text, "\n", "\r\n"),
	}, "\r\n") + "\r\n"
}
