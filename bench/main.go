// Command bench drives gormjobs and other job queues, its peers, through the same workloads. See README.md for the
// workloads, and for how to add a peer.
//
//	bench run -peer P -db KIND -dsn DSN -op WORKLOAD   one run, one line of JSON
//	bench check KIND | bench full KIND                 side by side; the scripts check and full call these
//	bench tables FILE…, bench chart FILE… >FILE.svg    what full has written, as Markdown and as an image
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"math/rand"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrSkip says that a peer has no way to do a workload.
var ErrSkip = errors.New("skip")

// Args is the job payload of every peer: about 200 bytes of JSON. T is when the job was due (Unix ns), for latency.
type Args struct {
	T   int64  `json:"t"`
	ID  int64  `json:"id"`
	Pad string `json:"pad"`
}

const pad = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

var seq atomic.Int64

func newArgs(t int64) Args { return Args{T: t, ID: seq.Add(1), Pad: pad} }
func (a Args) bytes() []byte {
	b, err := json.Marshal(a)
	must(err)
	return b
}
func decode(b []byte) int64 {
	var a Args
	must(json.Unmarshal(b, &a))
	return a.T
}

// Handler is called once per job run, with the job's T.
type Handler func(t int64)

// Peer is what a library must be able to do. A method returns ErrSkip where the library has no way to do it.
type Peer interface {
	Setup(ctx context.Context) error                                         // empty tables, made anew; open pools
	Insert(ctx context.Context, a Args) error                                // one job in its own transaction
	Bulk(ctx context.Context, as []Args) error                               // many jobs in one call
	Biz(ctx context.Context, order int64, a Args) error                      // BEGIN; INSERT orders; enqueue one; COMMIT
	Start(ctx context.Context, conc int, h Handler) (stop func(), err error) // start a worker
	Left(ctx context.Context) (int64, error)                                 // jobs not yet durably completed
	Age(ctx context.Context, n int) error                                    // put n completed rows in the table
	Preload(ctx context.Context, n int) error                                // n ready jobs, by any means (not timed)
	Statements(ctx context.Context) (statements, commits int64, err error)   // server counters (idle cost)
	Close()
}

type factory func(db, dsn, config string) (Peer, error)

var peers = map[string]factory{}

type result struct {
	Peer     string  `json:"peer"`
	DB       string  `json:"db"`
	Op       string  `json:"op"`
	Config   string  `json:"config"`
	N        int64   `json:"n"`
	Seconds  float64 `json:"seconds"`
	PerSec   float64 `json:"per_sec"`
	P50      float64 `json:"p50_ms,omitempty"`
	P95      float64 `json:"p95_ms,omitempty"`
	P99      float64 `json:"p99_ms,omitempty"`
	Max      float64 `json:"max_ms,omitempty"`
	CPU      float64 `json:"client_cpu_s"`
	DBCPU    float64 `json:"db_cpu_s"`
	Foreign  float64 `json:"foreign_cores"` // cores that neither this process nor its servers used: noise
	Handled  int64   `json:"handled,omitempty"`
	Left     int64   `json:"left,omitempty"`
	StmtsSec float64 `json:"statements_per_s,omitempty"`
	TxSec    float64 `json:"commits_per_s,omitempty"`
	First    float64 `json:"first_per_s,omitempty"` // snapshot: rates of the first and the last ninth
	Last     float64 `json:"last_per_s,omitempty"`
	Variant  string  `json:"variant,omitempty"` // what other settings a row has
	Note     string  `json:"note,omitempty"`
	Skipped  bool    `json:"skipped,omitempty"`
}

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func cpu() float64 {
	var r syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
}

// serverPID is the process of the database server: what it and its children use is the server's.
var serverPID int

// machine returns the CPU seconds that the whole machine has spent and those that the database server has.
func machine() (busy, server float64) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0 // no Linux: no CPU figures but this process's own
	}
	line, _, _ := strings.Cut(string(b), "\n")
	for i, f := range strings.Fields(line)[1:9] {
		if i != 3 && i != 4 { // idle, iowait
			n, _ := strconv.ParseFloat(f, 64)
			busy += n / 100
		}
	}
	if serverPID == 0 {
		return busy, 0
	}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if file != fmt.Sprintf("/proc/%d/stat", serverPID) && f[1] != strconv.Itoa(serverPID) {
			continue
		}
		for _, x := range f[11:15] { // own and reaped children's user and system time
			n, _ := strconv.ParseFloat(x, 64)
			server += n / 100
		}
	}
	return busy, server
}

var profileFile string

// profiled writes a CPU profile until the returned function is called, if one is asked for.
func profiled() (stop func()) {
	if profileFile == "" {
		return func() {}
	}
	f, err := os.Create(profileFile)
	must(err)
	must(pprof.StartCPUProfile(f))
	return func() { pprof.StopCPUProfile(); must(f.Close()) }
}

func (r *result) lat(ds []time.Duration) {
	if len(ds) == 0 {
		return
	}
	sort.Slice(ds, func(i, j int) bool { return ds[i] < ds[j] })
	q := func(p float64) float64 { return float64(ds[int(p*float64(len(ds)-1))].Microseconds()) / 1000 }
	r.P50, r.P95, r.P99, r.Max = q(.50), q(.95), q(.99), q(1)
}

// clients runs f n times over c goroutines and returns each call's duration.
func clients(n, c int, f func(i int) error) ([]time.Duration, error) {
	ds := make([]time.Duration, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	var first atomic.Pointer[error]
	for range c {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || first.Load() != nil {
					return
				}
				t := time.Now()
				if err := f(i); err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				ds[i] = time.Since(t)
			}
		})
	}
	wg.Wait()
	if e := first.Load(); e != nil {
		return nil, *e
	}
	return ds, nil
}

func main() {
	log.SetFlags(0)
	verb := "run"
	args := os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "run":
		runMain(args)
	case "check":
		os.Exit(checkMain(args))
	case "full":
		os.Exit(fullMain(args))
	case "tables":
		tables(os.Stdout, readResults(args))
	case "chart":
		chart(os.Stdout, readResults(args))
	default:
		log.Fatalf("unknown verb %q: run, check, full, tables or chart", verb)
	}
}

// params are what a workload takes. Zero means the workload's own.
type params struct {
	Op     string        `json:"op"`
	N      int           `json:"n"`
	Aged   int           `json:"aged"`
	Rate   int           `json:"rate"`
	Limit  time.Duration `json:"limit"`
	Idle   time.Duration `json:"idle"`
	Steady time.Duration `json:"steady"`
	GapMin time.Duration `json:"gap_min"`
	GapMax time.Duration `json:"gap_max"`
}

func (p params) withDefaults() params {
	p.Aged = cmp.Or(p.Aged, 2_000_000)
	p.Rate = cmp.Or(p.Rate, 1000)
	p.Limit = cmp.Or(p.Limit, 120*time.Second)
	p.Idle = cmp.Or(p.Idle, 30*time.Second)
	p.Steady = cmp.Or(p.Steady, 20*time.Second)
	p.GapMin = cmp.Or(p.GapMin, 120*time.Millisecond)
	p.GapMax = max(p.GapMin, cmp.Or(p.GapMax, 250*time.Millisecond))
	return p
}

func runMain(args []string) {
	var q params
	flags := flag.NewFlagSet("bench run", flag.ExitOnError)
	peer := flags.String("peer", "", "library")
	db := flags.String("db", "", "postgres, mysql, mariadb or sqlite")
	dsn := flags.String("dsn", "", "data source; of sqlite, a folder")
	config := flags.String("config", "default", "default or best")
	serve := flags.Bool("serve", false, "read workloads from standard input, one JSON object a line")
	attach := flags.Int("attach", 0, "only work, that many jobs at once, on the database that dsn leads to; print each latency")
	profile := flags.String("cpuprofile", "", "write a CPU profile of the timed part to this file")
	flags.IntVar(&serverPID, "server", 0, "process id of the database server, whose CPU time is to be counted")
	flags.StringVar(&q.Op, "op", "", "workload")
	flags.IntVar(&q.N, "n", 0, "jobs")
	flags.IntVar(&q.Aged, "aged", 0, "completed rows for drain_aged")
	flags.IntVar(&q.Rate, "rate", 0, "jobs a second for steady")
	flags.DurationVar(&q.Limit, "limit", 0, "give up after this long")
	flags.DurationVar(&q.Idle, "idle", 0, "how long idle lasts")
	flags.DurationVar(&q.Steady, "steady", 0, "how long steady lasts")
	flags.DurationVar(&q.GapMin, "gapmin", 0, "least pause between latency samples")
	flags.DurationVar(&q.GapMax, "gapmax", 0, "greatest pause between latency samples")
	must(flags.Parse(args))
	make, ok := peers[*peer]
	if !ok {
		log.Fatalf("unknown peer %q; have %s", *peer, strings.Join(slices.Sorted(maps.Keys(peers)), " "))
	}
	p, err := make(*db, *dsn, *config)
	must(err)
	if *attach > 0 {
		attachMain(p, *dsn, *attach)
		return
	}
	ctx := context.Background()
	profileFile = *profile
	setup := p.Setup(ctx)
	if setup != nil {
		setup = fmt.Errorf("setup: %w", setup)
	}
	one := func(q params) (ok bool) {
		q = q.withDefaults()
		r := result{Peer: *peer, DB: *db, Op: q.Op, Config: *config}
		ctx, cancel := context.WithTimeout(ctx, q.Limit+5*time.Minute)
		defer cancel()
		runtime.GC()
		err := setup
		if err == nil {
			err = run(ctx, p, &r, q)
		}
		switch {
		case errors.Is(err, ErrSkip):
			r.Skipped = true
		case err != nil:
			r.Note = strings.TrimSpace(r.Note + " ERROR " + err.Error())
		}
		if r.Seconds > 0 && r.PerSec == 0 {
			r.PerSec = float64(r.N) / r.Seconds
		}
		b, err2 := json.Marshal(r)
		must(err2)
		fmt.Println(string(b))
		return err == nil || r.Skipped
	}
	good := true
	if *serve {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			var q params
			must(json.Unmarshal(lines.Bytes(), &q))
			one(q)
			if c, ok := p.(interface{ Clear(context.Context) error }); ok && setup == nil && !isAged {
				must(c.Clear(ctx))
			}
		}
	} else {
		good = one(q)
	}
	bounded(p.Close) // some libraries do not stop promptly
	if !good {
		os.Exit(1)
	}
}

// attachMain is the worker of latency2: a process of its own that prints how long each job took to start.
func attachMain(p Peer, dsn string, conc int) {
	must(p.(attacher).Attach(dsn))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	out := make(chan time.Duration, 1000)
	stop, err := p.Start(ctx, conc, func(t int64) { out <- time.Duration(time.Now().UnixNano() - t) })
	must(err)
	for {
		select {
		case d := <-out:
			fmt.Println(int64(d))
		case <-ctx.Done():
			stop()
			return
		}
	}
}

// attacher is a peer whose worker can be another process.
type attacher interface {
	DSN() string
	Attach(dsn string) error
}

// timed adds what f takes, and sets what others used meanwhile.
func (r *result) timed(f func() error) error {
	defer profiled()()
	busy, servers := machine()
	c, t := cpu(), time.Now()
	err := f()
	took := time.Since(t).Seconds()
	mine := cpu() - c
	busy2, servers2 := machine()
	r.Seconds += took
	r.CPU += mine
	r.DBCPU += servers2 - servers
	r.Foreign = max(0, (busy2-busy-mine-(servers2-servers))/took)
	return err
}

// drain adds the time from a worker's start, c jobs at once, until m ready jobs are durably completed.
func drain(ctx context.Context, p Peer, r *result, c, m int, limit time.Duration) error {
	if err := p.Preload(ctx, m); err != nil {
		return fmt.Errorf("preload: %w", err)
	}
	var got atomic.Int64
	var stop func()
	var began, ended time.Time
	before := r.Seconds
	err := r.timed(func() (err error) {
		began = time.Now()
		stop, err = p.Start(ctx, c, func(int64) { got.Add(1) })
		if err != nil {
			return err
		}
		dead := time.Now().Add(limit)
		for got.Load() < int64(m) && time.Now().Before(dead) {
			time.Sleep(time.Millisecond)
		}
		var counting time.Duration
		for {
			ended = time.Now() // what Left counts is as of its start
			left, err := p.Left(ctx)
			if err != nil {
				return err
			}
			r.Left = left
			if left == 0 || time.Now().After(dead) {
				return nil
			}
			// Counting costs the server too: some tenth of the time. The end is known as
			// exactly as that allows: to one count, of a run of a second.
			counting += time.Since(ended)
			time.Sleep(max(2*time.Millisecond, 10*counting-time.Since(began)))
		}
	})
	r.Handled += got.Load()
	r.N += int64(m) - r.Left
	if err == nil {
		r.Seconds = before + ended.Sub(began).Seconds()
	}
	if r.Left > 0 {
		r.Note = fmt.Sprintf("gave up after %s", limit)
	}
	if stop != nil {
		bounded(stop)
	}
	return err
}

func run(ctx context.Context, p Peer, r *result, q params) error {
	op, n, aged, rate, limit, idle, steady, gapMin, gapMax := q.Op, q.N, q.Aged, q.Rate, q.Limit, q.Idle, q.Steady, q.GapMin, q.GapMax
	or := func(d int) int {
		if n > 0 {
			return n
		}
		return d
	}
	timed := r.timed
	switch op {
	case "insert1", "insert8": // (a) one job a transaction
		c, m := 1, or(5000)
		if op == "insert8" {
			c, m = 8, or(20000)
		}
		if err := p.Insert(ctx, newArgs(0)); err != nil {
			return err
		}
		var ds []time.Duration
		err := timed(func() (err error) {
			ds, err = clients(m, c, func(int) error { return p.Insert(ctx, newArgs(0)) })
			return err
		})
		r.N = int64(m)
		r.lat(ds)
		return err
	case "bulk1000": // (b) 1000 jobs a call
		m := or(100_000)
		mk := func() []Args {
			as := make([]Args, 1000)
			for i := range as {
				as[i] = newArgs(0)
			}
			return as
		}
		if err := p.Bulk(ctx, mk()); err != nil {
			return err
		}
		var ds []time.Duration
		err := timed(func() (err error) {
			ds, err = clients(m/1000, 1, func(int) error { return p.Bulk(ctx, mk()) })
			return err
		})
		r.N = int64(m)
		r.lat(ds)
		return err
	case "biz8": // (c) an order and a job in one transaction
		m := or(20000)
		if err := p.Biz(ctx, seq.Add(1), newArgs(0)); err != nil {
			return err
		}
		var ds []time.Duration
		err := timed(func() (err error) {
			ds, err = clients(m, 8, func(int) error { return p.Biz(ctx, seq.Add(1), newArgs(0)) })
			return err
		})
		r.N = int64(m)
		r.lat(ds)
		return err
	case "drain100", "drain10", "drain1000", "drain_aged": // (d), (g)
		c, m := 100, or(50_000)
		if op == "drain10" {
			c = 10
		}
		if op == "drain1000" {
			c = 1000
		}
		if op == "drain_aged" && !isAged && os.Getenv("BENCH_AGED") != "0" { // once: to put the rows there takes much longer
			if err := p.Age(ctx, aged); err != nil {
				return err
			}
			isAged = true
		}
		return drain(ctx, p, r, c, m, limit)
	case "latency": // (e) one job at a time on an idle queue; from the insert call's start to the handler's start
		m := or(200)
		got := make(chan time.Duration, 1000)
		stop, err := p.Start(ctx, 10, func(t int64) { got <- time.Duration(time.Now().UnixNano() - t) })
		if err != nil {
			return err
		}
		defer bounded(stop)
		time.Sleep(1500 * time.Millisecond)
		var ds []time.Duration
		t0 := time.Now()
		for i := range m + 3 {
			if err := p.Insert(ctx, newArgs(time.Now().UnixNano())); err != nil {
				return err
			}
			select {
			case d := <-got:
				if i >= 3 {
					ds = append(ds, d)
				}
			case <-time.After(limit):
				r.N = int64(len(ds))
				r.lat(ds)
				return errors.New("a job never started")
			}
			if time.Since(t0) > limit {
				break
			}
			time.Sleep(gapMin + time.Duration(rand.Int63n(int64(gapMax-gapMin)+1)))
		}
		r.N, r.Seconds = int64(len(ds)), time.Since(t0).Seconds()
		r.lat(ds)
		return nil
	case "latency2": // the same with the worker in another process
		return latency2(ctx, p, r, q)
	case "snapshot": // (i) many jobs while an old snapshot is open: the rate of the first and of the last ninth
		return snapshot(ctx, p, r, q)
	case "steady": // (f) open loop: jobs fall due at a fixed rate; latency from when a job was due to its handler's start
		m := int(float64(rate) * steady.Seconds())
		ds := make([]time.Duration, 0, m)
		var mu sync.Mutex
		warm := 0 // jobs that open the connections of both sides
		stop, err := p.Start(ctx, 100, func(t int64) {
			d := time.Duration(time.Now().UnixNano() - t)
			mu.Lock()
			defer mu.Unlock()
			if t == 0 {
				warm++
				return
			}
			ds = append(ds, d)
		})
		if err != nil {
			return err
		}
		defer bounded(stop)
		time.Sleep(time.Second)
		const warmUp = 320
		if _, err := clients(warmUp, 16, func(int) error { return p.Insert(ctx, newArgs(0)) }); err != nil {
			return err
		}
		for dead := time.Now().Add(limit / 2); time.Now().Before(dead); time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			done := warm == warmUp
			mu.Unlock()
			if done {
				break
			}
		}
		time.Sleep(500 * time.Millisecond)
		var inserted float64
		err = timed(func() error {
			t0 := time.Now()
			_, err := clients(m, 16, func(i int) error {
				due := t0.Add(time.Duration(i) * time.Second / time.Duration(rate))
				time.Sleep(time.Until(due))
				return p.Insert(ctx, newArgs(due.UnixNano()))
			})
			inserted = float64(m) / time.Since(t0).Seconds()
			for dead := time.Now().Add(limit / 2); err == nil && time.Now().Before(dead); time.Sleep(5 * time.Millisecond) {
				mu.Lock()
				k := len(ds)
				mu.Unlock()
				if k >= m {
					break
				}
			}
			return err
		})
		mu.Lock()
		defer mu.Unlock()
		r.N = int64(len(ds))
		r.Handled = r.N
		r.lat(ds)
		r.Note = fmt.Sprintf("inserted at %.0f/s of %d/s", inserted, rate)
		return err
	case "rest": // start the worker of idle, while other workloads run
		return rest(ctx, p)
	case "idle": // (h) what an idle worker costs the server
		if err := rest(ctx, p); err != nil {
			return err
		}
		defer func() { bounded(resting); resting = nil }()
		time.Sleep(time.Until(restedAt))
		s0, c0, err := p.Statements(ctx)
		if err != nil && !errors.Is(err, ErrSkip) {
			return err
		}
		err2 := timed(func() error { time.Sleep(idle); return nil })
		s1, c1, err3 := p.Statements(ctx)
		if errors.Is(err3, ErrSkip) {
			r.Note = "no server counters; client CPU only"
			return err2
		}
		// the measuring itself is 1 statement here
		r.StmtsSec, r.TxSec = float64(s1-s0-1)/r.Seconds, float64(c1-c0-1)/r.Seconds
		return err3
	}
	return fmt.Errorf("unknown op %q", op)
}

var isAged bool // the rows of drain_aged are there

var (
	resting  func()    // stops the worker that rests
	restedAt time.Time // when it has done so for ten seconds
)

// rest starts a worker with nothing to do, if none is there.
func rest(ctx context.Context, p Peer) (err error) {
	if resting != nil {
		return nil
	}
	resting, err = p.Start(context.WithoutCancel(ctx), 10, func(int64) {})
	restedAt = time.Now().Add(10 * time.Second)
	return err
}

func bounded(stop func()) {
	done := make(chan struct{})
	go func() { stop(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
	}
}
