//go:build linux

package server

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Crash kills the server's processes, all at once, without a warning.
func (s *Server) Crash() {
	if s.cmd == nil {
		return
	}
	pid := s.cmd.Process.Pid
	_ = syscall.Kill(pid, syscall.SIGSTOP) // so that it starts no more
	for _, c := range children(pid) {
		_ = syscall.Kill(c, syscall.SIGKILL)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	<-s.exited
	s.cmd = nil
}

// children reads which processes a process has started.
func children(parent int) []int {
	entries, _ := os.ReadDir("/proc")
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state ppid …; a name may have spaces.
		rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(rest) > 1 && rest[1] == strconv.Itoa(parent) {
			found = append(found, pid)
		}
	}
	return found
}

// Stop ends the server for good. Its data is not needed any more.
func (s *Server) Stop() {
	s.Crash()
	if s.admin != nil {
		s.admin.Close()
	}
}

// CutAll makes the server end all connections of the application.
func (s *Server) CutAll(ctx context.Context) (n int, err error) {
	rows, err := s.admin.QueryContext(ctx, s.flavour.cut())
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var kills []string
	for rows.Next() {
		var answer string
		if err := rows.Scan(&answer); err != nil {
			return 0, err
		}
		n++
		if strings.HasPrefix(answer, "KILL ") {
			kills = append(kills, answer)
		}
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	for _, k := range kills {
		_, _ = s.admin.ExecContext(ctx, k) // it may be gone by itself
	}
	return n, nil
}

// SetReadOnly makes the server refuse the application's writes, or take them again.
func (s *Server) SetReadOnly(ctx context.Context, on bool) error {
	conn, err := s.admin.Conn(ctx) // one session: the first statement may be about it
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, stmt := range s.flavour.readOnly(on) {
		if _, err := conn.ExecContext(ctx, stmt); err != nil {
			return fmt.Errorf("set read only %v: %w", on, err)
		}
	}
	return nil
}
