//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gormjobs/gormjobs/internal/chaos/child"
	"github.com/gormjobs/gormjobs/internal/chaos/history"
	"github.com/gormjobs/gormjobs/internal/chaos/proxy"
)

// post is a place that a process has; when it dies, another takes it.
type post struct {
	fleet *fleet
	part  string
	index int
	proxy *proxy.Proxy // nil: SQLite
	dsn   string

	mu      sync.Mutex // whoever breaks the process, or puts another in its place
	process *process
	number  int
}

// process is one that runs, or has run.
type process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{}
	wanted atomic.Bool // its end
}

// fleet are all processes of the application.
type fleet struct {
	base  role
	dir   string // for their logs
	log   *history.Log
	posts []*post
	died  atomic.Int64 // processes that ended and should not have
	stuck atomic.Int64 // processes that SIGTERM did not end in time
}

// start puts a new process in place.
func (p *post) start() error {
	p.number++
	r := p.fleet.base
	r.Part, r.Name, r.DSN = p.part, fmt.Sprintf("%s-%d-%d", p.part, p.index, p.number), p.dsn
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(p.fleet.dir, r.Name+".log"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), r.environment())
	cmd.Stdout, cmd.Stderr = out, out
	if err := child.Start(cmd); err != nil {
		return err
	}
	q := &process{name: r.Name, cmd: cmd, exited: make(chan struct{})}
	p.process = q
	go func() {
		_ = cmd.Wait()
		p.fleet.log.Write(history.Event{Kind: history.Exit, What: q.name})
		if !q.wanted.Load() {
			p.fleet.died.Add(1)
		}
		close(q.exited)
	}()
	return nil
}

func (q *process) signal(s syscall.Signal) { _ = q.cmd.Process.Signal(s) }

// kill ends the process without a warning.
func (q *process) kill() {
	q.wanted.Store(true)
	q.signal(syscall.SIGKILL)
	<-q.exited
}

// termLimit is what a worker may take: its handlers' time, what they get to
// return, what the last outcomes get to be recorded, and a busy machine.
const termLimit = 30 * time.Second

// term asks the process to end, and tells whether it did.
func (q *process) term() bool {
	q.wanted.Store(true)
	q.signal(syscall.SIGTERM)
	t := time.NewTimer(termLimit)
	defer t.Stop()
	select {
	case <-q.exited:
		return true
	case <-t.C:
		q.kill()
		return false
	}
}

// end ends all processes of a part, in order.
func (f *fleet) end(part string) {
	var wg sync.WaitGroup
	for _, p := range f.posts {
		if p.part != part || p.process == nil {
			continue
		}
		wg.Go(func() {
			if !p.process.term() {
				f.stuck.Add(1)
			}
		})
	}
	wg.Wait()
}

// close kills what still runs.
func (f *fleet) close() {
	for _, p := range f.posts {
		if p.process != nil {
			p.process.kill()
		}
		if p.proxy != nil {
			p.proxy.Close()
		}
	}
}
