//go:build linux

package server

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// find finds the programs where internal/testdb/servers.sh finds them, or has put
// them.
func find(kind string, weak bool) (flavour, error) {
	switch kind {
	case "postgres":
		if bin, ok := findPostgres(); ok {
			return postgres{bin, weak}, nil
		}
	case "mysql":
		if program, ok := findMySQL(); ok {
			return mysql{program: program, weak: weak}, nil
		}
	case "mariadb":
		program, ok := findMySQLd("MARIADBD", true, "mariadbd", "mysqld")
		install, err := lookPath("mariadb-install-db", "mysql_install_db")
		if ok && err == nil {
			return mysql{program: []string{program, "--no-defaults"}, mariaDB: true, install: install, weak: weak}, nil
		}
	default:
		return nil, fmt.Errorf("no database is called %q", kind)
	}
	return nil, fmt.Errorf("%s: %w", kind, ErrMissing)
}

func findPostgres() (bin string, ok bool) {
	dirs := []string{os.Getenv("PG_BIN")}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"} {
		found, _ := filepath.Glob(pattern)
		slices.Reverse(found)
		dirs = append(dirs, found...)
	}
	if initdb, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(initdb))
	}
	for _, d := range dirs {
		if d != "" && executable(filepath.Join(d, "postgres")) && executable(filepath.Join(d, "initdb")) {
			return d, true
		}
	}
	return "", false
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// findMySQL prefers Debian's packages that servers.sh has unpacked: through their
// own dynamic linker, since the libraries are newer than the system's.
func findMySQL() (program []string, ok bool) {
	root := filepath.Join(cmp.Or(os.Getenv("GORMJOBS_TEST_DIR"), defaultDir()), "mysql", "root")
	linkers, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*/ld-linux*.so.*"))
	if server := filepath.Join(root, "usr/sbin/mysqld"); len(linkers) > 0 && executable(server) {
		share := filepath.Join(root, "usr/share/mysql")
		return []string{linkers[0], "--library-path", filepath.Dir(linkers[0]), server, "--no-defaults",
			"--basedir=" + filepath.Join(root, "usr"), "--plugin-dir=" + filepath.Join(root, "usr/lib/mysql/plugin"),
			"--lc-messages-dir=" + share, "--character-sets-dir=" + filepath.Join(share, "charsets")}, true
	}
	found, ok := findMySQLd("MYSQLD", false, "mysqld")
	return []string{found, "--no-defaults"}, ok
}

func defaultDir() string {
	if os.Getuid() == 0 {
		return "/var/cache/gormjobs-test"
	}
	cache, _ := os.UserCacheDir()
	return filepath.Join(cache, "gormjobs-test")
}

// findMySQLd looks at what a program says of itself: mysqld may be either.
func findMySQLd(variable string, mariaDB bool, names ...string) (string, bool) {
	for _, name := range append([]string{os.Getenv(variable)}, names...) {
		file, err := lookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.Command(file, "--no-defaults", "--version").Output()
		if err == nil && strings.Contains(string(out), "MariaDB") == mariaDB {
			return file, true
		}
	}
	return "", false
}

// lookPath looks where servers are too.
func lookPath(names ...string) (string, error) {
	for _, name := range names {
		if name == "" {
			continue
		}
		if file, err := exec.LookPath(name); err == nil {
			return file, nil
		}
		for _, dir := range []string{"/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/mysql/bin"} {
			if file := filepath.Join(dir, name); executable(file) {
				return file, nil
			}
		}
	}
	return "", exec.ErrNotFound
}
