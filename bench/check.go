package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is one library with its settings; it runs in a process of its own, which stays up.
type entry struct {
	peer, config, variant string
	env                   []string
}

var (
	ours             = entry{peer: "gormjobs", config: "default"}
	oursBest         = entry{peer: "gormjobs", config: "best"}
	oursAsked        = entry{peer: "gormjobs", config: "default", variant: "notifying", env: []string{"GORMJOBS_ASKED=1"}}
	oursNotAged      = entry{peer: "gormjobs", config: "default", variant: "without them", env: []string{"BENCH_AGED=0"}}
	oursIdle         = entry{peer: "gormjobs", config: "default", variant: "idle"}
	oursNoJob        = entry{peer: "gormjobs", config: "default", variant: "without the job", env: []string{"GORMJOBS_NOJOB=1"}}
	riverDefault     = entry{peer: "river", config: "default"}
	riverBest        = entry{peer: "river", config: "best"}
	riverSQL         = entry{peer: "river-sql", config: "best"}
	riverLite        = entry{peer: "river-sqlite", config: "best"}
	backliteBest     = entry{peer: "backlite", config: "best"}
	gueBest          = entry{peer: "gue", config: "best"}
	watermillDefault = entry{peer: "watermill", config: "default"}
	floor            = entry{peer: "limit", config: "default", env: []string{"LIMIT_BATCH=500", "LIMIT_WORKERS=4"}}
	floorMy          = entry{peer: "limit", config: "default", env: []string{"LIMIT_BATCH=1000", "LIMIT_WORKERS=2"}}
	floorWake        = entry{peer: "limit", config: "default", variant: "with NOTIFY", env: []string{"LIMIT_NOTIFY=1", "LIMIT_WORKERS=1"}}
	floorNoJob       = entry{peer: "limit", config: "default", variant: "without the job", env: []string{"LIMIT_NOJOB=1"}}
)

// step is one workload for some of the entries, interleaved, so many times.
type step struct {
	q       params
	rounds  int
	entries []entry
}

// target is a line of the report: what of ours is compared with what of another's.
type target struct {
	text  string
	op    string
	value func(result) float64
	than  *entry // nil: the value itself
	op2   string // the other's workload, if it is another
	us    entry  // zero: ours
	bound float64
	most  bool // at most, not at least
}

type runner struct {
	kind, dsn, server string
	children          map[string]*child
	results           []result
	rounds            map[string][]result // by entry and workload
	out               io.Writer
}

type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func (e entry) key() string { return strings.Join([]string{e.peer, e.config, e.variant}, "/") }

func (r *runner) child(e entry) *child {
	if c := r.children[e.key()]; c != nil {
		return c
	}
	self, err := os.Executable()
	must(err)
	c := &child{cmd: exec.Command(self, "run", "-serve", "-peer", e.peer, "-db", r.kind, "-dsn", r.dsn, "-config", e.config, "-server", r.server)}
	c.cmd.Env = append(append(os.Environ(), e.env...), "BENCH_VARIANT="+e.variant)
	c.cmd.Stderr = os.Stderr
	c.in, err = c.cmd.StdinPipe()
	must(err)
	out, err := c.cmd.StdoutPipe()
	must(err)
	must(c.cmd.Start())
	c.lines = bufio.NewScanner(out)
	r.children[e.key()] = c
	return c
}

func (r *runner) end() {
	for _, c := range r.children {
		c.in.Close()
		_ = c.cmd.Wait()
	}
}

func (r *runner) do(s step) {
	for range max(s.rounds, 1) {
		for _, e := range s.entries {
			c := r.child(e)
			b, err := json.Marshal(s.q)
			must(err)
			fmt.Fprintf(c.in, "%s\n", b)
			var x result
			if !c.lines.Scan() {
				x = result{Peer: e.peer, DB: r.kind, Op: s.q.Op, Config: e.config, Note: "ERROR the process ended"}
				delete(r.children, e.key())
			} else {
				must(json.Unmarshal(c.lines.Bytes(), &x))
			}
			x.Variant = e.variant
			if strings.Contains(x.Note, "ERROR") {
				fmt.Fprintf(os.Stderr, "%s %s: %s\n", e.key(), s.q.Op, x.Note)
			}
			r.add(x)
		}
	}
}

func (r *runner) add(x result) {
	r.results = append(r.results, x)
	k := entry{peer: x.Peer, config: x.Config, variant: x.Variant}.key() + " " + x.Op
	r.rounds[k] = append(r.rounds[k], x)
	if r.out != nil {
		b, err := json.Marshal(x)
		must(err)
		fmt.Fprintf(r.out, "%s\n", b)
	}
}

// judge prints a line for the target, and returns what falls short. A ratio is the median of the rounds' ratios.
func (r *runner) judge(t target) (short string) {
	us := t.us
	if us.peer == "" {
		us = ours
	}
	mine := r.rounds[us.key()+" "+t.op]
	var xs []float64
	if t.than == nil {
		xs = each(good(mine), t.value)
	} else {
		op := t.op
		if t.op2 != "" {
			op = t.op2
		}
		other := r.rounds[t.than.key()+" "+op]
		if a, b := good(mine), good(other); t.op2 == "" {
			xs = ratios(mine, other, t.value)
		} else if len(a) > 0 && len(b) > 0 { // not side by side
			xs = append(xs, median(each(a, t.value))/median(each(b, t.value)))
		}
	}
	x := median(xs)
	ok := len(xs) > 0 && (x >= t.bound || t.most) && (x <= t.bound || !t.most)
	mark, sign := "ok   ", "≥"
	if !ok {
		mark = "SHORT"
	}
	if t.most {
		sign = "≤"
	}
	cpu := ""
	if t.than != nil && t.op2 == "" && !t.most {
		if c := r.cpuRatio(us, *t.than, t.op); c > 0 {
			cpu = fmt.Sprintf("  CPU a job ×%.2f", c)
		}
	}
	fmt.Printf("%s  %-56s %8.2f  (%s %g)%s\n", mark, t.text, x, sign, t.bound, cpu)
	if !ok {
		return fmt.Sprintf("%s: %.2f", t.text, x)
	}
	return ""
}

// cpuRatio is our CPU a job by the other's, of client and server together.
func (r *runner) cpuRatio(us, than entry, op string) float64 {
	a, b := good(r.rounds[us.key()+" "+op]), good(r.rounds[than.key()+" "+op])
	if len(a) == 0 || len(b) == 0 || median(each(b, cpuJob)) == 0 {
		return 0
	}
	return median(each(a, cpuJob)) / median(each(b, cpuJob))
}

// noise warns of a machine that was busy with something else.
func (r *runner) noise() {
	if f := median(each(slices.DeleteFunc(good(r.results), func(x result) bool { return x.Foreign == 0 }), func(x result) float64 { return x.Foreign })); f > 0.5 {
		fmt.Printf("\nNOISE: other programs used %.1f processors meanwhile; rates and latencies mean little, CPU a job more.\n", f)
	}
}

func parseKind(verb string, args []string) (r *runner, rounds int, rest []string) {
	flags := flag.NewFlagSet("bench "+verb, flag.ExitOnError)
	r = &runner{children: map[string]*child{}, rounds: map[string][]result{}}
	flags.StringVar(&r.dsn, "dsn", "", "of the server")
	flags.StringVar(&r.server, "server", "0", "its process id")
	flags.IntVar(&rounds, "rounds", 3, "how often each workload runs")
	must(flags.Parse(args))
	if flags.NArg() < 1 {
		fmt.Fprintf(os.Stderr, "bench %s postgres|mysql|mariadb|sqlite\n", verb)
		os.Exit(2)
	}
	r.kind = flags.Arg(0)
	return r, rounds, flags.Args()[1:]
}

func (r *runner) report(targets []target) int {
	var short []string
	for _, t := range targets {
		if s := r.judge(t); s != "" {
			short = append(short, s)
		}
	}
	r.noise()
	if len(short) > 0 {
		fmt.Printf("\nshort of its targets on %s:\n  %s\n", r.kind, strings.Join(short, "\n  "))
		return 1
	}
	return 0
}

// checkMain is the short form: less than a minute.
func checkMain(args []string) int {
	r, rounds, only := parseKind("check", args)
	defer r.end()
	began := time.Now()
	steps, targets := plan(r.kind, rounds, false)
	for _, s := range steps {
		if len(only) == 0 || slices.Contains(only, s.q.Op) {
			r.do(s)
		}
	}
	if len(only) > 0 {
		targets = slices.DeleteFunc(targets, func(t target) bool { return !slices.Contains(only, t.op) })
	}
	code := r.report(targets)
	fmt.Printf("%s, %.0f s\n", r.kind, time.Since(began).Seconds())
	return code
}

// fullMain is the long form: it writes every run to a file, and prints the tables and the targets. With workloads named,
// it does only those again, and keeps the file's others.
func fullMain(args []string) int {
	r, rounds, only := parseKind("full", args)
	defer r.end()
	name := filepath.Join("results", r.kind+".jsonl")
	must(os.MkdirAll(filepath.Dir(name), 0o755))
	var kept []result
	if _, err := os.Stat(name); err == nil && len(only) > 0 {
		kept = slices.DeleteFunc(readResults([]string{name}), func(x result) bool { return slices.Contains(only, x.Op) })
	}
	f, err := os.Create(name)
	must(err)
	defer f.Close()
	r.out = f
	for _, x := range kept {
		r.add(x)
	}
	steps, targets := plan(r.kind, rounds, true)
	for _, s := range steps {
		if len(only) == 0 || slices.Contains(only, s.q.Op) {
			r.do(s)
		}
	}
	tables(os.Stdout, r.results)
	fmt.Println()
	return r.report(slices.DeleteFunc(targets, func(t target) bool {
		ran := func(x result) bool { return x.Op == t.op }
		return len(only) > 0 && !slices.Contains(only, t.op) && !slices.ContainsFunc(r.results, ran)
	}))
}
