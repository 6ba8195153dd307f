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
	once := n(1, 0) // in the short form
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
		q.Idle, q.Steady = time.Duration(n(3, 5))*time.Second, time.Duration(n(2, 10))*time.Second
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
	growth := func() {
		if !full {
			return
		}
		add(params{Op: "drain_aged", N: 50_000}, 0, ours, oursNotAged)
		least(0.9, "drain_aged", "rate / the rate without them", &oursNotAged)
	}
	who := oursIdle // rests beside other workloads
	if full {
		who = ours
	}
	rest := func() {
		if !full {
			add(params{Op: "rest"}, 1, who)
		}
	}
	idle := func() {
		add(params{Op: "idle"}, 1, who)
		targets = append(targets, target{text: "idle: statements a second", op: "idle", value: func(r result) float64 { return r.StmtsSec }, us: who, bound: 2, most: true})
	}
	switch kind {
	case "postgres":
		// Enqueuing first: a worker that was idle is notified for half a minute.
		insert := []entry{floor, ours, riverDefault}
		asked := []entry{floor, ours, riverDefault}
		if full {
			insert = append(insert, gueBest)
			asked = append(insert, oursAsked)
		}
		add(params{Op: "insert1", N: n(1_500, 3_000)}, 0, insert...)
		add(params{Op: "insert8", N: n(3_000, 8_000)}, 0, asked...)
		add(params{Op: "biz8", N: n(2_500, 6_000)}, 0, asked...)
		if full {
			add(params{Op: "biz8", N: 6_000}, 0, floorNoJob, oursNoJob)
		}
		add(params{Op: "bulk1000", N: n(20_000, 50_000)}, 0, floor, ours, riverBest)
		drain := []entry{floor, ours, oursBest, riverBest}
		if full {
			drain = append(drain, riverSQL)
		}
		add(params{Op: "drain100", N: n(12_000, 50_000)}, 0, drain...)
		if !full {
			add(params{Op: "drain100", N: 12_000}, 1, riverSQL)
		}
		add(params{Op: "drain10", N: n(4_000, 20_000)}, 0, ours, riverBest)
		if full {
			add(params{Op: "drain100", N: 10_000}, 1, riverDefault, gueBest)
			add(params{Op: "drain100", N: 50_000}, 1, watermillDefault)
		}
		rest()
		add(params{Op: "latency", N: n(20, 100)}, once, floorWake, ours)
		add(params{Op: "latency2", N: n(20, 100)}, once, ours)
		if full {
			add(params{Op: "latency", N: 50}, 1, riverDefault)
		}
		steady := []entry{ours}
		if full {
			steady = append(steady, floorWake, riverBest, riverDefault)
		}
		add(params{Op: "steady"}, once, steady...)
		idle()
		if full {
			add(params{Op: "idle"}, 1, riverDefault)
			add(params{Op: "snapshot", N: 180_000}, 1, ours, riverBest)
		}
		growth()
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
		// Watermill gets slower with the number of jobs.
		add(params{Op: "drain100", N: n(25_000, 50_000)}, n(2, 3), all...)
		add(params{Op: "insert1", N: n(600, 3_000)}, 0, all...)
		add(params{Op: "biz8", N: n(2_000, 6_000)}, 0, all...)
		if full {
			add(params{Op: "insert8", N: 6_000}, 0, all...)
			add(params{Op: "bulk1000", N: 30_000}, 0, all...)
			add(params{Op: "biz8", N: 6_000}, 0, floorNoJob, oursNoJob)
			add(params{Op: "drain10", N: 20_000}, 0, ours)
		}
		rest()
		add(params{Op: "latency", N: n(20, 100)}, once, floorMy, ours)
		add(params{Op: "latency2", N: n(20, 100)}, once, ours)
		if full {
			add(params{Op: "latency", N: 25}, 1, watermillDefault)
		}
		add(params{Op: "steady"}, once, floorMy, ours)
		idle()
		growth()
		least(0.65, "drain100", "rate / the floor", &floorMy)
		least(1.5, "drain100", "rate / Watermill", &watermillDefault)
		least(0.75, "insert1", "rate / the floor", &floorMy)
		least(0.8, "biz8", "rate / the floor", &floorMy)
		most(1.5, "latency", "p50 / the floor's", p50, &floorMy)
		most(25, "latency", "p99, ms", p99, nil)
		most(150, "latency2", "p50, ms", p50, nil)
		// Not in milliseconds: a thousand inserts a second are as many flushes as the servers get done on a small machine.
		most(1.5, "steady", "p50 / the floor's", p50, &floorMy)
		most(1.5, "steady", "p99 / the floor's", p99, &floorMy)
	case "sqlite":
		all := []entry{ours, oursBest, riverLite}
		if full {
			all = append(all, backliteBest)
		}
		add(params{Op: "drain100", N: n(4_000, 20_000)}, 0, all...)
		add(params{Op: "insert1", N: n(800, 3_000)}, 0, all...)
		add(params{Op: "biz8", N: n(800, 5_000)}, 0, all...)
		add(params{Op: "bulk1000", N: n(5_000, 50_000)}, 0, all...)
		add(params{Op: "latency", N: n(20, 100)}, once, ours)
		if full {
			add(params{Op: "latency", N: 30}, 1, riverLite, backliteBest)
		}
		add(params{Op: "steady"}, once, ours)
		growth()
		least(5, "drain100", "rate / River best", &riverLite)
		least(2.5, "insert1", "rate / River best", &riverLite)
		most(10, "latency", "p50, ms", p50, nil)
		most(25, "latency", "p99, ms", p99, nil)
		most(3, "steady", "p50, ms", p50, nil)
		most(30, "steady", "p99, ms", p99, nil)
	}
	return steps, targets
}
