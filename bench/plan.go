package main

import (
	"cmp"
	"time"
)

// plan is what check and full do on a database, and what is asked of gormjobs there.
func plan(kind string, rounds int, full bool) (steps []step, targets []target) {
	// n is the number of jobs: of the short form, and of the full one.
	n := func(short, long int) int {
		if full {
			return long
		}
		return short
	}
	add := func(q params, times int, entries ...entry) {
		if full {
			times = cmp.Or(times, rounds)
		} else {
			times = min(cmp.Or(times, rounds), rounds)
		}
		q.GapMin, q.GapMax = 40*time.Millisecond, 80*time.Millisecond
		if full {
			q.GapMin, q.GapMax = 120*time.Millisecond, 250*time.Millisecond
		}
		q.Idle, q.Steady = 5*time.Second, time.Duration(n(2, 10))*time.Second
		q.Limit = time.Minute
		if full {
			q.Limit = 5 * time.Minute
		}
		steps = append(steps, step{q, times, entries})
	}
	least := func(bound float64, op, text string, than *entry) {
		targets = append(targets, target{text: op + ": " + text, op: op, value: rate, than: than, bound: bound})
	}
	most := func(bound float64, op, text string, value func(result) float64, than *entry) {
		targets = append(targets, target{text: op + ": " + text, op: op, value: value, than: than, bound: bound, most: true})
	}
	growth := func(f entry) {
		if !full {
			return
		}
		// The floor beside it tells what of the difference is the server's.
		add(params{Op: "drain_aged", N: 50_000}, 0, ours)
		targets = append(targets, target{text: "drain_aged: rate / drain100's", op: "drain_aged", op2: "drain100", value: rate, than: &ours, bound: 0.9})
	}
	idle := func() {
		add(params{Op: "idle"}, 1, ours)
		most(2, "idle", "statements a second", func(r result) float64 { return r.StmtsSec }, nil)
	}
	switch kind {
	case "postgres":
		drain := []entry{floor, ours, oursBest, riverBest, riverSQL}
		insert := []entry{floor, ours, riverDefault}
		add(params{Op: "drain100", N: n(15_000, 50_000)}, 0, drain...)
		add(params{Op: "drain10", N: n(4_000, 20_000)}, 0, ours, riverBest)
		if full {
			add(params{Op: "drain100", N: 10_000}, 0, riverDefault, gueBest)
			add(params{Op: "drain100", N: 50_000}, 0, watermillDefault)
			insert = append(insert, gueBest)
		}
		add(params{Op: "insert1", N: n(800, 3_000)}, 0, insert...)
		add(params{Op: "insert8", N: n(3_000, 12_000)}, 0, insert...)
		add(params{Op: "biz8", N: n(2_500, 10_000)}, 0, insert...)
		add(params{Op: "bulk1000", N: n(20_000, 50_000)}, 0, floor, ours, riverBest)
		if full {
			add(params{Op: "biz8", N: 10_000}, 0, floorNoJob)
		}
		add(params{Op: "latency", N: n(30, 200)}, 1, floorWake, ours)
		add(params{Op: "latency2", N: n(30, 200)}, 1, ours)
		if full {
			add(params{Op: "latency", N: 100}, 1, riverDefault)
		}
		add(params{Op: "steady"}, 1, ours)
		if full {
			add(params{Op: "steady"}, 1, floorWake, riverBest, riverDefault)
		}
		idle()
		if full {
			add(params{Op: "idle"}, 1, riverDefault)
			add(params{Op: "snapshot", N: 180_000}, 1, ours, riverBest)
		}
		growth(floor)
		least(2.5, "drain100", "rate / River best (pgx)", &riverBest)
		least(4, "drain100", "rate / River best (database/sql)", &riverSQL)
		least(0.65, "drain100", "rate / the floor", &floor)
		most(1.8, "drain100", "CPU a job / the floor's", cpuJob, &floor)
		least(0.9, "drain100", "rate / our best configuration", &oursBest)
		least(5, "drain10", "rate / River best (pgx)", &riverBest)
		least(2, "insert1", "rate / River", &riverDefault)
		least(0.75, "insert1", "rate / the floor", &floor)
		least(2, "insert8", "rate / River", &riverDefault)
		least(0.75, "insert8", "rate / the floor", &floor)
		least(0.85, "biz8", "rate / the floor", &floor)
		least(1, "bulk1000", "rate / River's COPY", &riverBest)
		most(1.5, "latency", "p50 / the floor's with NOTIFY", p50, &floorWake)
		most(25, "latency", "p99, ms", p99, nil)
		targets = append(targets, target{text: "latency2: p50 / the floor's with NOTIFY", op: "latency2", op2: "latency", value: p50, than: &floorWake, bound: 1.5, most: true})
		most(25, "latency2", "p99, ms", p99, nil)
		most(3, "steady", "p50, ms", p50, nil)
		most(30, "steady", "p99, ms", p99, nil)
		if full {
			targets = append(targets, target{text: "snapshot: last ninth / first ninth", op: "snapshot", value: func(r result) float64 { return r.Last / r.First }, bound: 0.6})
		}
	case "mysql", "mariadb":
		all := []entry{floorMy, ours, watermillDefault}
		add(params{Op: "drain100", N: n(15_000, 50_000)}, 0, all...)
		add(params{Op: "insert1", N: n(600, 3_000)}, 0, all...)
		add(params{Op: "biz8", N: n(2_500, 10_000)}, 0, all...)
		if full {
			add(params{Op: "insert8", N: 12_000}, 0, all...)
			add(params{Op: "bulk1000", N: 50_000}, 0, all...)
			add(params{Op: "biz8", N: 10_000}, 0, floorNoJob)
			add(params{Op: "drain10", N: 20_000}, 0, ours)
		}
		add(params{Op: "latency", N: n(40, 200)}, 1, floorMy, ours)
		add(params{Op: "latency2", N: n(30, 200)}, 1, ours)
		if full {
			add(params{Op: "latency", N: 50}, 1, watermillDefault)
		}
		add(params{Op: "steady"}, 1, ours)
		idle()
		growth(floorMy)
		least(0.65, "drain100", "rate / the floor", &floorMy)
		least(1.5, "drain100", "rate / Watermill", &watermillDefault)
		least(0.75, "insert1", "rate / the floor", &floorMy)
		least(0.8, "biz8", "rate / the floor", &floorMy)
		most(1.5, "latency", "p50 / the floor's", p50, &floorMy)
		most(25, "latency", "p99, ms", p99, nil)
		most(150, "latency2", "p50, ms", p50, nil)
		most(3, "steady", "p50, ms", p50, nil)
		most(30, "steady", "p99, ms", p99, nil)
	case "sqlite":
		all := []entry{ours, riverLite, backliteBest}
		add(params{Op: "drain100", N: n(4_000, 20_000)}, 0, all...)
		add(params{Op: "insert1", N: n(800, 3_000)}, 0, all...)
		add(params{Op: "biz8", N: n(800, 5_000)}, 0, all...)
		add(params{Op: "bulk1000", N: n(5_000, 50_000)}, 0, all...)
		add(params{Op: "latency", N: n(40, 200)}, 1, ours)
		if full {
			add(params{Op: "latency", N: 50}, 1, riverLite, backliteBest)
		}
		add(params{Op: "steady"}, 1, ours)
		growth(ours)
		least(5, "drain100", "rate / River best", &riverLite)
		least(2.5, "insert1", "rate / River best", &riverLite)
		most(10, "latency", "p50, ms", p50, nil)
		most(25, "latency", "p99, ms", p99, nil)
		most(3, "steady", "p50, ms", p50, nil)
		most(30, "steady", "p99, ms", p99, nil)
	}
	return steps, targets
}
