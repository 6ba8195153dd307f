package proxy

import (
	"net"
	"sync"
	"time"
)

// link is one connection with its two ends.
type link struct {
	client, server net.Conn

	// Guarded by Proxy.mu.
	lost     bool // some of its bytes were thrown away
	answered int  // bytes from the server since the mode was set
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", p.to, 2*time.Second)
	if err != nil {
		return // as if the server had refused it
	}
	l := &link{client: client, server: server}
	defer l.close()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()
	var ends sync.WaitGroup
	ends.Go(func() { p.pass(l, client, server, false) })
	ends.Go(func() { p.pass(l, server, client, true) })
	ends.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// pass copies one direction until either end is closed.
func (p *Proxy) pass(l *link, from, to net.Conn, answers bool) {
	defer l.close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		piece, cut := p.treat(l, buf[:n], answers)
		if len(piece) > 0 {
			if _, err := to.Write(piece); err != nil {
				return
			}
		}
		if cut {
			return
		}
	}
}

// treat does to a piece what the mode says, and returns what is to be passed on.
func (p *Proxy) treat(l *link, piece []byte, answers bool) (rest []byte, cut bool) {
	m, changed := p.state()
	if m.Delay > 0 {
		time.Sleep(m.Delay) // bytes on a slow wire cannot be called back
	}
	for m.Stall {
		<-changed
		m, changed = p.state()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Drop || l.lost {
		l.lost = true
		return nil, false
	}
	if m.CutAfter > 0 && answers {
		if l.answered+len(piece) >= m.CutAfter {
			return piece[:m.CutAfter-l.answered], true
		}
		l.answered += len(piece)
	}
	return piece, false
}
