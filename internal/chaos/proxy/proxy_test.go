package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo is a server that answers what it hears, and the proxy before it.
func echo(t *testing.T) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	p, err := Listen(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); l.Close() })
	return p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// say writes s and returns what comes back within the time.
func say(t *testing.T, c net.Conn, s string, within time.Duration) (string, error) {
	t.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	return hear(c, len(s), within)
}

func hear(c net.Conn, n int, within time.Duration) (string, error) {
	_ = c.SetReadDeadline(time.Now().Add(within))
	buf := make([]byte, n)
	got, err := io.ReadFull(c, buf)
	return string(buf[:got]), err
}

func TestPassesOn(t *testing.T) {
	c := dial(t, echo(t))
	if got, err := say(t, c, "hello", 5*time.Second); got != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDelays(t *testing.T) {
	p := echo(t)
	p.Set(Mode{Delay: 50 * time.Millisecond})
	c, began := dial(t, p), time.Now()
	if got, err := say(t, c, "hello", 5*time.Second); got != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("took %s; want 50 ms each way", took)
	}
}

func TestCutsInTheMiddleOfAnAnswer(t *testing.T) {
	p := echo(t)
	p.Set(Mode{CutAfter: 3})
	if got, err := say(t, dial(t, p), "hello", 5*time.Second); got != "hel" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q, %v; want hel and an end", got, err)
	}
}

func TestStallLosesNothing(t *testing.T) {
	p := echo(t)
	c := dial(t, p)
	p.Set(Mode{Stall: true})
	if got, err := say(t, c, "hello", 50*time.Millisecond); got != "" || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v; want silence", got, err)
	}
	p.Set(Mode{})
	if got, err := hear(c, 5, 5*time.Second); got != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDropIsSilentAndThenAnEnd(t *testing.T) {
	p := echo(t)
	c := dial(t, p)
	p.Set(Mode{Drop: true})
	if got, err := say(t, c, "hello", 50*time.Millisecond); got != "" || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v; want silence", got, err)
	}
	p.Set(Mode{})
	if got, err := hear(c, 5, 5*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v; want an end", got, err)
	}
	if got, err := say(t, dial(t, p), "hello", 5*time.Second); got != "hello" || err != nil {
		t.Errorf("a new connection got %q, %v", got, err)
	}
}

func TestCutEndsAll(t *testing.T) {
	p := echo(t)
	c := dial(t, p)
	if _, err := say(t, c, "x", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if n := p.Cut(); n != 1 {
		t.Errorf("cut %d; want 1", n)
	}
	if _, err := hear(c, 1, 5*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v; want an end", err)
	}
}
