package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// build makes the program as somebody without a C compiler would.
func build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "signup.exe")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

func TestTheDemoEndsWell(t *testing.T) {
	program := build(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-demo", "-people", "12")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output() // waits for all who have its stderr: the workers too
	if err != nil {
		t.Fatalf("the demo: %v\n%s\n%s", err, out, log.Bytes())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := lines[len(lines)-1]
	// 12 and the refused one, of which one has an invitation without a seat. Three
	// come again. Of the five who ask for a link, one never signed up.
	const want = `^demo ok: 11 sign-ups, 5 rolled back, \d+ mails, [1-9]\d* repeats dropped by Message-ID, [1-9]\d* retries, 1 kill, 1 job failed for good, 10 sessions cleaned$`
	if !regexp.MustCompile(want).MatchString(last) {
		t.Errorf("the last line is\n%s\nwant\n%s", last, want)
	}
}

// The demo cannot clean up after itself when it is killed. Its worker notices.
func TestAKilledDemoLeavesNoWorkerBehind(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), build(t), "-demo", "-people", "1000")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	var log bytes.Buffer
	cmd.Stderr = &log // a pipe that the worker holds, too: Wait waits for its end
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "worker started") {
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("a worker still runs")
	}
}
