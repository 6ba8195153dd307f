//go:build linux

package server

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

type postgres struct {
	bin  string
	weak bool
}

func (postgres) user() string   { return "postgres" }
func (postgres) driver() string { return "pgx" }

func (p postgres) initialize(dir string) *exec.Cmd {
	return exec.Command(filepath.Join(p.bin, "initdb"), "-D", dir, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
}

// command has the defaults, fsync and all, and room for connections. Checkpoints
// are frequent, so that a recovery has something of every kind to do.
func (p postgres) command(dir string, port int) *exec.Cmd {
	args := []string{"-D", dir, "-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(port), "-c", "unix_socket_directories=",
		"-c", "max_connections=300", "-c", "checkpoint_timeout=30s"}
	if p.weak {
		args = append(args, "-c", "synchronous_commit=off")
	}
	return exec.Command(filepath.Join(p.bin, "postgres"), args...)
}

func (postgres) dsn(admin bool, addr string) string {
	if admin {
		return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&default_transaction_read_only=off", addr)
	}
	return fmt.Sprintf("postgres://app@%s/%s?sslmode=disable&connect_timeout=3", addr, Database)
}

func (postgres) create() []string {
	return []string{"CREATE ROLE app LOGIN", "CREATE DATABASE " + Database + " OWNER app"}
}

func (postgres) cut() string {
	return "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE usename = 'app'"
}

func (postgres) readOnly(on bool) []string {
	set := "ALTER SYSTEM RESET default_transaction_read_only"
	if on {
		set = "ALTER SYSTEM SET default_transaction_read_only = on"
	}
	return []string{set, "SELECT pg_reload_conf()"}
}

func (postgres) version() string {
	return "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)"
}
