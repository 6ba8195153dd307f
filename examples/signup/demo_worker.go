package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// workers starts this program again as a process that only runs jobs, one at a
// time.
type workers struct {
	url string
	env []string // SIGNUP_DSN and SMTP_ADDR

	mu      sync.Mutex
	stdin   io.Closer
	process *exec.Cmd
	ended   chan error // gets what Wait returns
}

func (w *workers) start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "-worker", "-hasty", "-tied", "-url", w.url)
	cmd.Env = append(os.Environ(), w.env...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	fmt.Println("worker started, process", cmd.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	w.stdin, w.process, w.ended = stdin, cmd, ended
	return nil
}

// kill is SIGKILL: the process gets no chance to do anything about it. When kill
// returns it is gone.
func (w *workers) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process == nil {
		return
	}
	_ = w.process.Process.Kill() // unless it has ended by itself
	<-w.ended
	w.process = nil
}

// stop lets the worker finish what it is doing, as SIGTERM would.
func (w *workers) stop() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process == nil {
		return errors.New("there is no worker to stop")
	}
	w.stdin.Close()
	select {
	case err := <-w.ended:
		w.process = nil
		if err != nil {
			return fmt.Errorf("the worker did not end well: %w", err)
		}
		return nil
	case <-time.After(20 * time.Second):
		return errors.New("the worker did not end")
	}
}

// running returns an error if the worker has ended by itself.
func (w *workers) running() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process == nil {
		return errors.New("no worker is running")
	}
	select {
	case err := <-w.ended:
		w.process = nil
		return fmt.Errorf("the worker has ended by itself: %v", err)
	default:
		return nil
	}
}
