package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
)

// readResults reads the files that full has written.
func readResults(files []string) (rs []result) {
	for _, name := range files {
		f, err := os.Open(name)
		must(err)
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var r result
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				log.Fatalf("%s: %v", name, err)
			}
			rs = append(rs, r)
		}
		must(lines.Err())
		f.Close()
	}
	return rs
}

// who names a row: the same library, settings and database.
type who struct{ db, peer, config, variant string }

func (r result) who() who { return who{r.DB, r.Peer, r.Config, r.Variant} }

func (w who) String() string {
	s := label(w.peer)
	if w.config != "default" {
		s += " " + w.config
	}
	if w.variant != "" {
		s += " " + w.variant
	}
	return s
}

// label is how a peer is called in tables and charts.
func label(peer string) string {
	switch peer {
	case "limit":
		return "hand-written SQL"
	case "river":
		return "River (pgx)"
	case "river-sql":
		return "River (database/sql)"
	case "river-sqlite":
		return "River (SQLite)"
	}
	return peer
}

func good(rs []result) []result {
	return slices.DeleteFunc(slices.Clone(rs), func(r result) bool { return r.Skipped || strings.Contains(r.Note, "ERROR") })
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	xs = slices.Sorted(slices.Values(xs))
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

func each(rs []result, f func(result) float64) []float64 {
	xs := make([]float64, len(rs))
	for i, r := range rs {
		xs[i] = f(r)
	}
	return xs
}

func rate(r result) float64 { return r.PerSec }
func p50(r result) float64  { return r.P50 }
func p99(r result) float64  { return r.P99 }
func cpuJob(r result) float64 {
	return (r.CPU + r.DBCPU) / float64(max(r.N, 1)) * 1e6
}

// ratios are those of the rounds that both have, which were run in turns.
func ratios(mine, other []result, value func(result) float64) (xs []float64) {
	for i := range min(len(mine), len(other)) {
		if a, b := good(mine[i:i+1]), good(other[i:i+1]); len(a) == 1 && len(b) == 1 && value(b[0]) > 0 {
			xs = append(xs, value(a[0])/value(b[0]))
		}
	}
	return xs
}

// tables prints a Markdown table for each workload: medians over the runs of a row.
func tables(w io.Writer, rs []result) {
	groups := map[string]map[who][]result{}
	var ops []string
	for _, r := range rs {
		if groups[r.Op] == nil {
			groups[r.Op] = map[who][]result{}
			ops = append(ops, r.Op)
		}
		groups[r.Op][r.who()] = append(groups[r.Op][r.who()], r)
	}
	slices.SortFunc(ops, func(a, b string) int { return slices.Index(sequence, a) - slices.Index(sequence, b) })
	for _, op := range ops {
		fmt.Fprintf(w, "\n### %s\n\n%s\n\n", op, workloads[op])
		fmt.Fprintln(w, "| database | library | runs | per second (least to most) | gormjobs by it | p50 ms | p99 ms | CPU µs a job: client | server | remarks |")
		fmt.Fprintln(w, "|---|---|--:|--:|--:|--:|--:|--:|--:|---|")
		rows := make([]who, 0, len(groups[op]))
		for k := range groups[op] {
			rows = append(rows, k)
		}
		slices.SortFunc(rows, func(a, b who) int {
			if a.db != b.db {
				return strings.Compare(a.db, b.db)
			}
			return int(median(each(groups[op][b], rate)) - median(each(groups[op][a], rate)))
		})
		for _, k := range rows {
			all := groups[op][k]
			ok := good(all)
			name := k.String()
			if k.peer == "gormjobs" {
				name = "**" + name + "**"
			}
			if len(ok) == 0 {
				note := "no way to do it"
				if !all[0].Skipped {
					note = all[0].Note
				}
				fmt.Fprintf(w, "| %s | %s | 0 | | | | | | | %s |\n", k.db, name, note)
				continue
			}
			speed, ratio, lat50, lat99, client, server := "", "", "", "", "", ""
			xs := each(ok, rate)
			if !strings.HasPrefix(op, "latency") && op != "idle" && op != "steady" {
				speed = fmt.Sprintf("**%.0f** (%.0f to %.0f)", median(xs), slices.Min(xs), slices.Max(xs))
				ours := groups[op][who{k.db, "gormjobs", "default", ""}]
				if x := ratios(ours, all, rate); k.peer != "gormjobs" && k.variant == "" && len(ours) == len(all) && len(x) > 0 {
					ratio = fmt.Sprintf("%.2f", median(x))
				}
			}
			if ok[0].P50 > 0 {
				lat50, lat99 = fmt.Sprintf("%.2f", median(each(ok, p50))), fmt.Sprintf("%.1f", median(each(ok, p99)))
			}
			if ok[0].N > 0 && ok[0].CPU > 0 {
				client = fmt.Sprintf("%.0f", median(each(ok, func(r result) float64 { return r.CPU / float64(r.N) * 1e6 })))
				server = fmt.Sprintf("%.0f", median(each(ok, func(r result) float64 { return r.DBCPU / float64(r.N) * 1e6 })))
			}
			var notes []string
			note := func(s string) {
				if s != "" && !slices.Contains(notes, s) && len(notes) < 3 {
					notes = append(notes, s)
				}
			}
			if op == "idle" {
				note(fmt.Sprintf("%.1f statements a second", median(each(ok, func(r result) float64 { return r.StmtsSec }))))
			}
			if ok[0].First > 0 {
				note(fmt.Sprintf("first ninth %.0f/s, last %.0f/s", median(each(ok, func(r result) float64 { return r.First })), median(each(ok, func(r result) float64 { return r.Last }))))
			}
			for _, r := range ok {
				note(r.Note)
				if r.Handled > r.N && strings.HasPrefix(op, "drain") {
					note(fmt.Sprintf("handlers ran %d times for %d jobs", r.Handled, r.N))
				}
			}
			fmt.Fprintf(w, "| %s | %s | %d | %s | %s | %s | %s | %s | %s | %s |\n", k.db, name, len(ok), speed, ratio, lat50, lat99, client, server, strings.Join(notes, "; "))
		}
	}
}

// sequence is the order of the tables.
var sequence = []string{"drain100", "drain10", "drain1000", "insert1", "insert8", "biz8", "bulk1000", "latency", "latency2", "steady", "idle", "drain_aged", "snapshot"}

// workloads are what the tables say above themselves.
var workloads = map[string]string{
	"insert1":    "One job a transaction, one client.",
	"insert8":    "One job a transaction, 8 clients.",
	"bulk1000":   "1000 jobs a call.",
	"biz8":       "An order row and a job in one transaction, 8 clients.",
	"drain100":   "Ready jobs, all durably completed, 100 at once.",
	"drain10":    "The same, 10 at once.",
	"drain1000":  "The same, 1000 at once.",
	"drain_aged": "The same as drain100 with 2 million finished rows there (gormjobs: and 500,000 scheduled ones).",
	"snapshot":   "180,000 ready jobs, 100 at once, while another transaction keeps an old snapshot open.",
	"latency":    "One job at a time on an idle queue: from the start of the insert to the start of the handler.",
	"latency2":   "The same with the worker in another process.",
	"steady":     "1000 jobs a second: from when a job fell due to the start of its handler.",
	"idle":       "A worker with nothing to do, ten seconds after it started.",
}
