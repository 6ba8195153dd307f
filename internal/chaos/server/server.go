//go:build linux

// Package server runs a database server that may be broken: with the durable
// settings that its defaults are, on data of its own, killed and started again on
// the same port.
package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // the drivers of admin
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/gormjobs/gormjobs/internal/chaos/child"
)

// ErrMissing says that the server's program is not installed.
var ErrMissing = errors.New("no server program found (make test gets them)")

// Database is the name of the database that a server has for the application.
const Database = "chaos"

// Server is one that runs, or was killed.
type Server struct {
	flavour flavour
	dir     string
	port    int
	account *syscall.Credential
	cmd     *exec.Cmd
	exited  chan struct{}
	admin   *sql.DB
}

// flavour is what differs between the servers.
type flavour interface {
	user() string
	initialize(dir string) *exec.Cmd
	command(dir string, port int) *exec.Cmd
	driver() string
	// dsn of the administrator, and of the application through addr.
	dsn(admin bool, addr string) string
	create() []string // statements, once
	cut() string      // a query that ends, or lists KILL statements for, all connections of the application
	readOnly(on bool) []string
	version() string // a query
}

// Start makes a new server of a kind in dir. weak gives up the durability of a
// commit, to see that this is noticed.
func Start(ctx context.Context, kind, dir string, weak bool) (*Server, error) {
	f, err := find(kind, weak)
	if err != nil {
		return nil, err
	}
	s := &Server{flavour: f, dir: dir}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	init := f.initialize(s.data())
	init.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	init.Dir = dir
	if out, err := init.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initialize %s: %w\n%s", kind, err, out)
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	if s.admin, err = sql.Open(f.driver(), f.dsn(true, s.Addr())); err != nil {
		return nil, err
	}
	s.admin.SetMaxOpenConns(4)
	if err := s.Restart(ctx); err != nil {
		return nil, err
	}
	for _, stmt := range f.create() {
		if _, err := s.admin.ExecContext(ctx, stmt); err != nil {
			s.Stop()
			return nil, fmt.Errorf("prepare %s: %w", kind, err)
		}
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// prepare makes a folder that the server's user may use: servers refuse to be root.
func (s *Server) prepare() error {
	if err := os.MkdirAll(filepath.Join(s.dir, "tmp"), 0o755); err != nil || os.Getuid() != 0 {
		return err
	}
	u, err := user.Lookup(s.flavour.user())
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	s.account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	for _, d := range []string{s.dir, filepath.Join(s.dir, "tmp")} {
		if err := os.Chown(d, uid, gid); err != nil {
			return err
		}
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Addr is where the server listens.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Version is what the server says of itself.
func (s *Server) Version(ctx context.Context) (v string, err error) {
	err = s.admin.QueryRowContext(ctx, s.flavour.version()).Scan(&v)
	return v, err
}

// DSN leads to the application's database: through addr, as a user without rights
// beyond it, or for the administrator, directly.
func (s *Server) DSN(addr string) string { return s.flavour.dsn(false, addr) }

// AdminDSN is like [Server.DSN] for somebody whom read-only periods spare.
func (s *Server) AdminDSN() string { return s.flavour.dsn(true, s.Addr()) }

// Restart starts the server if it is down, and returns when it answers. While the
// children of a killed one still die, it tries again.
func (s *Server) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		if s.cmd == nil {
			if err := s.launch(); err != nil {
				return err
			}
		}
		if _, err := s.admin.ExecContext(ctx, "SELECT 1"); err == nil {
			return nil
		}
		select {
		case <-s.exited:
			s.cmd = nil
		case <-ctx.Done():
			return fmt.Errorf("the server does not come up: %w; see %s", ctx.Err(), s.dir)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) launch() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.flavour.command(s.data(), s.port)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	if err := child.Start(cmd); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	s.cmd, s.exited = cmd, exited
	return nil
}
