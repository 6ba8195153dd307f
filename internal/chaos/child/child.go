//go:build linux

// Package child starts processes that do not outlive this one.
package child

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

type order struct {
	cmd *exec.Cmd
	err chan error
}

var orders = sync.OnceValue(func() chan<- order {
	c := make(chan order)
	go serve(c)
	return c
})

// serve keeps its thread for ever: the kernel sends the signal when the thread ends
// that has started the child.
func serve(orders <-chan order) {
	runtime.LockOSThread()
	for o := range orders {
		o.err <- o.cmd.Start()
	}
}

// Start is cmd.Start, with the child in a process group of its own, and killed by
// the kernel when this process ends, however that is.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true // not for the terminal's Ctrl-C
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	o := order{cmd, make(chan error)}
	orders() <- o
	return <-o.err
}
