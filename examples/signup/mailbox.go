package main

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// Mailbox is a mail server that keeps everybody's mail, for those who try the
// example. The zero value accepts everything; the demo and the tests give it bad
// days. Set the functions before Start.
type Mailbox struct {
	// Refuse tells which addresses do not exist.
	Refuse func(to string) bool
	// Trouble says what goes wrong with a mail that is delivered for the try-th time.
	Trouble func(m Message, try int) Trouble
	// Kept is called when a mail is kept, before the sender hears so.
	Kept func(m Message)

	mu       sync.Mutex
	messages []Message
	tries    map[string]int // deliveries by Message-ID
	kept     map[string]int // those that were accepted
	repeats  []Message      // those that were here already
}

// Trouble is something that a mail server does now and then.
type Trouble int

// What can go wrong.
const (
	None       Trouble = iota
	Busy               // 451: later, please
	Rejects            // 554: no
	HangsUp            // the connection breaks, and the mail is not kept
	LosesReply         // the mail is kept, but the connection breaks before the yes
)

// keptMessages bounds the memory of a mailbox that runs for long.
const keptMessages = 2000

// Start listens on addr, and returns where that is. stop ends the server and all
// connections.
func (b *Mailbox) Start(addr string) (listening string, stop func(), err error) {
	b.tries, b.kept = map[string]int{}, map[string]int{}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, err
	}
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &delivery{box: b, conn: c.Conn()}, nil
	}))
	server.Domain = "localhost"
	server.MaxMessageBytes = 1 << 20
	server.ReadTimeout, server.WriteTimeout = 30*time.Second, 30*time.Second
	server.ErrorLog = log.New(io.Discard, "", 0) // broken connections are its business
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	return l.Addr().String(), func() { l.Close(); server.Close(); <-served }, nil
}

// Messages returns what is in the mailbox, oldest first.
func (b *Mailbox) Messages() []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.messages)
}

// Repeats returns the mails that came again and were dropped.
func (b *Mailbox) Repeats() []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.repeats)
}

// take counts a delivery and says what goes wrong with it.
func (b *Mailbox) take(m Message) Trouble {
	b.mu.Lock()
	b.tries[m.ID]++
	try := b.tries[m.ID]
	b.mu.Unlock()
	if b.Trouble == nil {
		return None
	}
	return b.Trouble(m, try)
}

// keep puts a mail into the mailbox, unless one of its Message-ID is there.
func (b *Mailbox) keep(m Message) {
	b.mu.Lock()
	b.kept[m.ID]++
	first := b.kept[m.ID] == 1
	if first {
		b.messages = append(b.messages, m)
	} else {
		b.repeats = append(b.repeats, m)
	}
	if len(b.messages) > keptMessages {
		delete(b.kept, b.messages[0].ID)
		delete(b.tries, b.messages[0].ID)
		b.messages = slices.Delete(b.messages, 0, 1)
	}
	b.mu.Unlock()
	if first && b.Kept != nil {
		b.Kept(m)
	}
}

// delivery is one connection.
type delivery struct {
	box  *Mailbox
	conn net.Conn
	to   string
}

// Mail implements smtp.Session.
func (d *delivery) Mail(string, *smtp.MailOptions) error { return nil }

// Rcpt implements smtp.Session.
func (d *delivery) Rcpt(to string, _ *smtp.RcptOptions) error {
	if d.box.Refuse != nil && d.box.Refuse(to) {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such mailbox"}
	}
	d.to = to
	return nil
}

// Data implements smtp.Session.
func (d *delivery) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m, err := readMessage(raw, d.to)
	if err != nil {
		return err
	}
	switch d.box.take(m) {
	case Busy:
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 2}, Message: "busy, try again later"}
	case Rejects:
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 3, 0}, Message: "not today"}
	case HangsUp:
		return d.conn.Close()
	case LosesReply:
		d.box.keep(m)
		return d.conn.Close()
	}
	d.box.keep(m)
	return nil
}

// Reset implements smtp.Session.
func (d *delivery) Reset() { d.to = "" }

// Logout implements smtp.Session.
func (d *delivery) Logout() error { return nil }

func readMessage(raw []byte, to string) (Message, error) {
	in, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Message{}, err
	}
	text, err := io.ReadAll(in.Body)
	if err != nil {
		return Message{}, err
	}
	return Message{
		To: to, ID: in.Header.Get("Message-ID"), Subject: in.Header.Get("Subject"),
		Text: strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")),
	}, nil
}

// Link is the first link in the mail.
func (m Message) Link() string {
	for word := range strings.FieldsSeq(m.Text) {
		if strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://") {
			return word
		}
	}
	return ""
}
