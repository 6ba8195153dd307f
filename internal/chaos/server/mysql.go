//go:build linux

package server

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// mysql is MySQL, and MariaDB.
type mysql struct {
	program []string // and its first arguments
	mariaDB bool
	install string // MariaDB's program that makes the data
	weak    bool
}

func (mysql) user() string   { return "mysql" }
func (mysql) driver() string { return "mysql" }

func (m mysql) run(args ...string) *exec.Cmd {
	all := append(m.program[1:len(m.program):len(m.program)], args...)
	return exec.Command(m.program[0], all...)
}

func (m mysql) initialize(dir string) *exec.Cmd {
	if m.mariaDB {
		return exec.Command(m.install, "--no-defaults", "--datadir="+dir, "--auth-root-authentication-method=normal", "--skip-test-db")
	}
	return m.run("--datadir="+dir, "--initialize-insecure")
}

// command has the defaults: a flush at every commit, and MySQL's binary log.
func (m mysql) command(dir string, port int) *exec.Cmd {
	tmp := filepath.Join(filepath.Dir(dir), "tmp")
	args := []string{"--datadir=" + dir, "--tmpdir=" + tmp, "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port), "--socket=s",
		"--pid-file=" + filepath.Join(tmp, "pid"), "--max-connections=300"}
	if !m.mariaDB {
		args = append(args, "--mysqlx=OFF", "--secure-file-priv=NULL", "--log-bin-trust-function-creators=ON")
	}
	if m.weak {
		args = append(args, "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin")
	}
	return m.run(args...)
}

// The administrator is root without a password: the server listens on the
// loopback only, holds nothing, and lives for minutes.
func (mysql) dsn(admin bool, addr string) string {
	if admin {
		return fmt.Sprintf("root@tcp(%s)/?parseTime=true&timeout=3s", addr)
	}
	return fmt.Sprintf("app@tcp(%s)/%s?parseTime=true&timeout=3s", addr, Database)
}

func (mysql) create() []string {
	return []string{"CREATE DATABASE " + Database, "CREATE USER 'app'@'%'", "GRANT ALL ON " + Database + ".* TO 'app'@'%'"}
}

func (mysql) cut() string {
	return "SELECT CONCAT('KILL ', id) FROM information_schema.processlist WHERE user = 'app'"
}

func (m mysql) readOnly(on bool) []string {
	variable := "super_read_only"
	if m.mariaDB {
		variable = "read_only"
	}
	if on {
		return []string{"SET SESSION lock_wait_timeout = 3", "SET GLOBAL " + variable + " = ON"}
	}
	return []string{"SET GLOBAL " + variable + " = OFF", "SET GLOBAL read_only = OFF"}
}

func (m mysql) version() string {
	if m.mariaDB {
		return "SELECT CONCAT('MariaDB ', substring_index(version(), '-', 1))"
	}
	return "SELECT CONCAT('MySQL ', substring_index(version(), '-', 1))"
}
