package jobs // what is claimed ahead is decided by nothing exported

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

func TestOnlyShortJobsAreClaimedAhead(t *testing.T) {
	for _, c := range []struct {
		slots   int
		run     time.Duration
		payload int
		want    int
	}{
		{100, 0, 100, 0}, // not known yet
		{100, 6 * time.Millisecond, 100, 0},
		{10, time.Millisecond, 100, 100},
		{1, 100 * time.Microsecond, 100, 100},
		{1000, time.Microsecond, 100, maxAhead},
		{1000, 1, 0, maxAhead},
		{1000, time.Microsecond, 1 << 20, 8},
		{1000, time.Microsecond, 100 << 20, 0},
	} {
		s := newSlots(c.slots, func() bool { return false })
		if c.run > 0 {
			s.runTime.add(c.run)
		}
		s.add(claim{found: 2, bytes: 2 * c.payload})
		if got := s.look().ahead; got != c.want {
			t.Errorf("%d slots, jobs of %s with %d bytes: %d ahead; want %d", c.slots, c.run, c.payload, got, c.want)
		}
	}
}

func TestAverageFollowsTheRunsAndNotAnInterruptedOne(t *testing.T) {
	var a average
	for range 100 {
		a.add(10 * time.Microsecond)
	}
	a.add(30 * time.Millisecond)
	if v := a.value(); v < 10*time.Microsecond || v > 12*time.Microsecond {
		t.Errorf("after one long run the average is %s; want some 10µs", v)
	}
	for range 200 {
		a.add(6 * time.Millisecond)
	}
	if v := a.value(); v < 5*time.Millisecond || v > 6*time.Millisecond {
		t.Errorf("after 200 long runs the average is %s; want some 6ms", v)
	}
	a = average{}
	a.add(0) // a coarse clock's
	for range 200 {
		a.add(20 * time.Microsecond)
	}
	if v := a.value(); v < 15*time.Microsecond || v > 20*time.Microsecond {
		t.Errorf("after a run of no time and then 20µs the average is %s", v)
	}
}

// A slot whose handler ends its goroutine runs the next job, and one at a time.
func TestSlotGoesOnAfterGoexit(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		var at, most atomic.Int64
		ran := make(chan struct{}, hundred)
		reg := handlers.NewRegistry()
		handlers.Register(reg, func(_ context.Context, p benchmarked) error {
			defer func() { ran <- struct{}{} }()
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			if p.N%2 == 0 {
				runtime.Goexit()
			}
			return nil
		}, handlers.Backoff(func(int) time.Duration { return time.Hour }))
		fill(t, db)
		w, err := NewWorker(db, reg, Config{Queues: Queues{"default": 1}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		for end, n := time.After(30*time.Second), 0; n < hundred; n++ {
			select {
			case <-ran:
			case <-end:
				t.Errorf("%d of %d jobs have run", n, hundred)
				n = hundred
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if s := w.Stats(); s.Completed != hundred/2 || s.Retried != hundred/2 || most.Load() != 1 {
			t.Errorf("%+v, at most %d at once; want 50 completed and 50 retried, 1 at once", s, most.Load())
		}
	})
}

// The loop is told again that the buffer runs low when it could do nothing about it
// the first time, since fewer jobs were to be claimed ahead by then.
func TestLoopIsToldAgainThatTheBufferRunsLow(t *testing.T) {
	s := newSlots(1, func() bool { return false })
	s.runTime = average{100 * time.Microsecond} // 100 ahead
	s.running = 1
	for range hundred {
		s.buffer = append(s.buffer, &hold{job: new(models.Job)})
	}
	told := func() bool {
		select {
		case <-s.nudge:
			return true
		default:
			return false
		}
	}
	for !told() {
		if s.next(100*time.Microsecond, nil) == nil {
			t.Fatal("the buffer is empty, and the loop was never told")
		}
	}
	s.runTime = average{time.Millisecond} // 10 ahead
	if st := s.start(nil); st.buffered <= st.ahead/2 {
		t.Fatalf("%d are buffered of %d: the loop would claim", st.buffered, st.ahead)
	}
	for !told() {
		if s.next(time.Millisecond, nil) == nil || len(s.buffer) == 0 {
			t.Fatal("the buffer is empty, and the loop was not told again")
		}
	}
}
