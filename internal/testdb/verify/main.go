// Verify reads the output of `go test -json` on its standard input and prints
// what matters of it, the runner's own summary last. It exits with 1 when a
// test failed, when one was skipped that is not just long, or when one of the
// kinds of database that are named as arguments was not tested.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	r, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !r.report(os.Stdout, os.Args[1:]) {
		os.Exit(1)
	}
}

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

type test struct{ pkg, name string }

type run struct {
	output  map[test]*strings.Builder
	failed  []test
	skipped []test
	passed  map[string]int // by kind of database
	other   []string       // what is no event, and errors of the compiler
	summary []string
}

var (
	summaryLine = regexp.MustCompile(`^(ok|FAIL|\?|---)\s`)
	kindInName  = regexp.MustCompile(`/(sqlite|postgres|mysql|mariadb)(/|$)`)
)

func read(from io.Reader) (*run, error) {
	r := &run{output: map[test]*strings.Builder{}, passed: map[string]int{}}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			r.other = append(r.other, lines.Text())
			continue
		}
		r.add(e)
	}
	return r, lines.Err()
}

func (r *run) add(e event) {
	id := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		if e.Test == "" && summaryLine.MatchString(e.Output) {
			r.summary = append(r.summary, e.Output)
			return
		}
		if r.output[id] == nil {
			r.output[id] = &strings.Builder{}
		}
		r.output[id].WriteString(e.Output)
	case "build-output":
		r.other = append(r.other, strings.TrimSuffix(e.Output, "\n"))
	case "fail":
		r.failed = append(r.failed, id)
	case "skip":
		if e.Test != "" { // a package without tests counts as skipped
			r.skipped = append(r.skipped, id)
		}
	case "pass":
		if m := kindInName.FindStringSubmatch(e.Test); m != nil {
			r.passed[m[1]]++
		}
		delete(r.output, id)
	}
}

// report says whether all is well.
func (r *run) report(w io.Writer, kinds []string) (good bool) {
	var wrong []string
	for _, line := range r.other {
		fmt.Fprintln(w, line)
	}
	for _, id := range r.failed {
		fmt.Fprintf(w, "\n=== %s %s\n%s", id.pkg, id.name, r.text(id))
	}
	if len(r.failed) > 0 {
		wrong = append(wrong, "tests failed")
	}
	for _, id := range r.skipped {
		if !strings.Contains(r.text(id), "GORMJOBS_TEST_LONG") {
			wrong = append(wrong, fmt.Sprintf("%s %s was skipped", id.pkg, id.name))
			fmt.Fprintf(w, "\n=== %s %s\n%s", id.pkg, id.name, r.text(id))
			continue
		}
		fmt.Fprintf(w, "long, not run: %s %s\n", id.pkg, id.name)
	}
	for _, kind := range kinds {
		fmt.Fprintf(w, "passed on %s: %d\n", kind, r.passed[kind])
		if r.passed[kind] == 0 {
			wrong = append(wrong, kind+" was not tested")
		}
	}
	if len(r.summary) == 0 {
		wrong = append(wrong, "no test ran")
	}
	for _, why := range slices.Compact(wrong) {
		fmt.Fprintf(w, "WRONG: %s\n", why)
	}
	for _, line := range r.summary {
		io.WriteString(w, line)
	}
	return len(wrong) == 0
}

func (r *run) text(id test) string {
	if r.output[id] == nil {
		return ""
	}
	return r.output[id].String()
}
