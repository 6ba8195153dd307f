// Package proxy passes TCP connections on, and breaks them on demand.
//
// It is our own hundred lines because toxiproxy, used as a library, brings fifteen
// modules (Prometheus, protobuf, an HTTP router) into the go.mod of a library whose
// users would see them all, and has no way to cut a connection in the middle of an
// answer once so many bytes have passed, which is what loses the answer of a
// commit.
package proxy

import (
	"errors"
	"net"
	"sync"
	"time"
)

// Mode is what happens to the bytes that pass.
type Mode struct {
	// Delay holds every piece up for so long.
	Delay time.Duration
	// Stall holds everything back until the mode changes, as a network that loses
	// packets and sends them again.
	Stall bool
	// Drop throws everything away and says so to nobody. A connection that has lost
	// something stays silent, and is closed when the mode changes.
	Drop bool
	// CutAfter closes both ends once so many bytes of answers have passed, on each
	// connection. 0: never.
	CutAfter int
}

// Proxy listens, and passes on to one address.
type Proxy struct {
	listener net.Listener
	to       string

	mu      sync.Mutex
	mode    Mode
	changed chan struct{} // closed when mode is replaced
	links   map[*link]struct{}
	wg      sync.WaitGroup
	closed  bool
}

// Listen begins to pass connections on, from a free port of the loopback.
func Listen(to string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, to: to, changed: make(chan struct{}), links: map[*link]struct{}{}}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where it listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set changes the mode of all connections, open and new.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.lost {
			l.close()
		}
		l.answered = 0
	}
	p.mode = m
	close(p.changed)
	p.changed = make(chan struct{})
}

// Cut closes all connections. How many that were is returned.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.links)
	for l := range p.links {
		l.close()
	}
	return n
}

// Close ends everything.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.Set(Mode{})
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.wg.Go(func() { p.serve(client) })
		}
	}
}

func (p *Proxy) state() (Mode, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.changed
}
