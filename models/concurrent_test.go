package models_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// startVariable makes the test binary an application that starts: it opens the
// database, says that it is ready, waits for a line, and migrates.
const startVariable = "GORMJOBS_TEST_START"

func TestMain(m *testing.M) {
	if kind := os.Getenv(startVariable); kind != "" {
		if err := start(testdb.Kind(kind), os.Getenv(startVariable+"_DSN")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testdb.Main(m)
}

func start(kind testdb.Kind, dsn string) error {
	db, err := testdb.OpenDSN(kind, dsn)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	return models.Migrate(db)
}

func TestEightProcessesMigrateAtOnce(t *testing.T) {
	eightProcesses(t)
}

// The wait for the lock must not leave the others with a snapshot from before it.
func TestEightProcessesMigrateAtOnceAtEveryIsolation(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) { eightProcesses(t, testdb.Servers, testdb.Isolation(level)) })
	}
}

func eightProcesses(t *testing.T, opts ...testdb.Option) {
	t.Helper()
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var processes []*process
		for range 8 {
			processes = append(processes, newProcess(t, db))
		}
		for _, p := range processes {
			p.awaitReady(t)
		}
		for _, p := range processes {
			fmt.Fprintln(p.stdin, "go")
		}
		for i, p := range processes {
			rest, _ := io.ReadAll(p.stdout)
			if err := p.Wait(); err != nil {
				t.Errorf("process %d = %v: %s%s; want no error", i, err, rest, p.stderr)
			}
		}
		if err := models.Check(t.Context(), db); err != nil {
			t.Errorf("Check = %v; want nil", err)
		}
		if _, err := dispatcher.EnqueueNow(t.Context(), db, ping{}); err != nil {
			t.Errorf("EnqueueNow = %v; want nil", err)
		}
	}, append(opts, testdb.Empty)...)
}

type process struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *bytes.Buffer
}

func newProcess(t *testing.T, db *gorm.DB) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), startVariable+"="+string(testdb.KindOf(db)), startVariable+"_DSN="+testdb.DSN(db))
	p := &process{Cmd: cmd, stderr: new(bytes.Buffer)}
	cmd.Stderr = p.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(stdout)
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	if line, err := p.stdout.ReadString('\n'); line != "ready\n" {
		t.Fatalf("a process said %q, %v; want ready", line, err)
	}
}
