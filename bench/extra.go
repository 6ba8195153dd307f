package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// latency2 is latency with the worker in another process: this one only enqueues.
func latency2(ctx context.Context, p Peer, r *result, q params) error {
	a, ok := p.(attacher)
	if !ok {
		return ErrSkip
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, self, "run", "-peer", r.Peer, "-db", r.DB, "-config", r.Config, "-dsn", a.DSN(), "-attach", "10")
	child.Stderr = os.Stderr
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	defer func() {
		_ = child.Process.Signal(os.Interrupt)
		_ = child.Wait()
	}()
	got := make(chan time.Duration, 1000)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, _ := strconv.ParseInt(lines.Text(), 10, 64)
			got <- time.Duration(n)
		}
	}()
	time.Sleep(2 * time.Second)
	m := q.N
	if m == 0 {
		m = 200
	}
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
		case <-time.After(q.Limit):
			return errors.New("a job never started")
		}
		if time.Since(t0) > q.Limit {
			break
		}
		time.Sleep(q.GapMin + time.Duration(rand.Int63n(int64(q.GapMax-q.GapMin)+1)))
	}
	r.N, r.Seconds = int64(len(ds)), time.Since(t0).Seconds()
	r.lat(ds)
	return nil
}

// snapshot drains jobs while another transaction keeps every version of every row alive, as a long report or a dump
// does, and compares the rate of the last ninth with that of the first.
func snapshot(ctx context.Context, p Peer, r *result, q params) error {
	a, ok := p.(interface{ DSN() string })
	if !ok || r.DB != "postgres" {
		return ErrSkip
	}
	n := q.N
	if n == 0 {
		n = 180_000
	}
	n -= n % 9
	if err := p.Preload(ctx, n); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, a.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var seen int
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return err
	}
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&seen); err != nil {
		return err
	}
	var got atomic.Int64
	var first, last, end atomic.Int64
	t0 := time.Now()
	stop, err := p.Start(ctx, 100, func(int64) {
		switch got.Add(1) {
		case int64(n / 9):
			first.Store(int64(time.Since(t0)))
		case int64(n - n/9):
			last.Store(int64(time.Since(t0)))
		case int64(n):
			end.Store(int64(time.Since(t0)))
		}
	})
	if err != nil {
		return err
	}
	for end.Load() == 0 && time.Since(t0) < q.Limit {
		time.Sleep(5 * time.Millisecond)
	}
	r.N, r.Seconds = got.Load(), time.Since(t0).Seconds()
	bounded(stop)
	if end.Load() == 0 {
		return fmt.Errorf("gave up after %s", q.Limit)
	}
	ninth := float64(n / 9)
	r.First = ninth / time.Duration(first.Load()).Seconds()
	r.Last = ninth / time.Duration(end.Load()-last.Load()).Seconds()
	return nil
}

func (p *riverPeer[TTx]) DSN() string { return p.dsn }
func (p *limitPG) DSN() string        { return p.dsn }
