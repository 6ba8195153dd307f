package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/models"
)

const (
	refresh   = 30 * time.Second // the longest time between two looks at the rows
	crowded   = 100 * time.Millisecond
	claims    = 4               // how many claims run at once
	abandoned = 5 * time.Minute // a tick of another version that old has nobody
)

// loop sleeps until the next tick, looks at the rows, and acts on those that are
// due, each in a goroutine of its own. One goroutine owns its state.
type loop struct {
	s       *Scheduler
	all     []*tracked
	names   []string
	reading reading
	again   time.Time // of the next look, if no tick is earlier
	paused  time.Time // no look before, after trouble
	trouble trouble
	ended   chan end
	slots   chan struct{}
	acting  sync.WaitGroup
}

// tracked is an entry, and what the loop knows of its row.
type tracked struct {
	*entry
	next    models.Timestamp // 0: the row is another version's
	settled bool             // the row was seen with this version's spec
	busy    bool             // something is acting on it
	owed    models.Timestamp // the tick whose enqueue has failed
	paused  time.Time        // no claim before, after trouble
	trouble trouble
}

type end struct {
	t *tracked
	p plan
	acted
}

func newLoop(s *Scheduler, entries []*entry) *loop {
	log := s.config.Logger
	l := &loop{
		s: s, ended: make(chan end, len(entries)), slots: make(chan struct{}, claims),
		trouble: trouble{log: log, what: "look at the schedules", most: 5 * time.Second},
	}
	for _, e := range entries {
		l.all = append(l.all, &tracked{entry: e, trouble: trouble{log: log, what: "act on a tick", most: time.Minute}})
		l.names = append(l.names, e.Name)
	}
	return l
}

func (l *loop) run(ctx context.Context) {
	defer l.acting.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-l.ended:
			l.take(ctx, e)
		case <-timer.C:
		}
		if l.wait() <= 0 {
			l.look(ctx)
		}
		timer.Reset(max(l.wait(), time.Millisecond))
	}
}

// wait is how long it is until there is something to do.
func (l *loop) wait() time.Duration {
	wait := time.Until(l.again)
	for _, t := range l.all {
		if !t.busy && t.next != 0 {
			wait = min(wait, max(l.reading.until(t.next), time.Until(t.paused)))
		}
	}
	return max(wait, time.Until(l.paused))
}

// look reads all rows and starts what is due.
func (l *loop) look(ctx context.Context) {
	err := l.act(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		l.paused = time.Now().Add(l.trouble.pause(err))
		return
	}
	l.trouble.over()
}

func (l *loop) act(ctx context.Context) (err error) {
	if len(l.all) == 0 {
		l.again = time.Now().Add(refresh)
		return nil
	}
	if l.reading, err = l.s.read(ctx, l.names); err != nil {
		return err
	}
	l.again = time.Now().Add(handlers.Jitter(refresh))
	for _, t := range l.all {
		if t.busy {
			continue
		}
		row, there := l.reading.rows[t.Name]
		if !there || row.Spec != t.stored {
			if err := l.settle(ctx, t, row, there); err != nil {
				return err
			}
			continue
		}
		t.next, t.settled = row.NextTick, true
		if t.next <= l.reading.now && time.Until(t.paused) <= 0 {
			l.start(ctx, t)
		}
	}
	return nil
}

// settle makes the row of an entry, or gives it this version's spec: only when
// Run begins, or when nobody has acted on the row for a while. Were it done
// whenever the specs differ, two versions would take the row from each other for
// ever.
func (l *loop) settle(ctx context.Context, t *tracked, row models.Schedule, there bool) (err error) {
	next, won := t.following(l.reading.now.Time()), false
	log := l.s.config.Logger.With("entry", t.Name, "spec", t.stored)
	switch {
	case !there:
		won, err = l.s.create(ctx, t.entry, next)
	case !t.settled, l.reading.now-row.NextTick > models.Timestamp(abandoned.Microseconds()):
		if won, err = l.s.adopt(ctx, t.entry, row, next); won {
			log.Info("gormjobs: the spec was changed: the entry counts anew from now", "before", row.Spec, "next", next)
		}
	default:
		if t.next != 0 {
			t.next = 0
			log.Warn("gormjobs: another version of the application was started, and has the entry with a spec of its own", "theirs", row.Spec)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if !won { // another scheduler did the same just now, or acted on a tick
		l.again = time.Now().Add(handlers.Jitter(crowded))
		return nil
	}
	t.next, t.settled = next, true
	return nil
}

func (l *loop) start(ctx context.Context, t *tracked) {
	t.busy = true
	p := t.plan(t.next, l.reading.now, t.owed == t.next)
	l.acting.Go(func() { l.ended <- end{t, p, l.s.act(ctx, t.entry, p, l.slots)} })
}

// take notes what came of a plan.
func (l *loop) take(ctx context.Context, e end) {
	t := e.t
	t.busy = false
	if ctx.Err() != nil {
		return
	}
	if e.err != nil {
		t.next, t.owed = e.at, e.at
		t.paused = time.Now().Add(t.trouble.pause(e.err))
		return
	}
	// Won or lost, the row has moved on to the same tick.
	t.next, t.owed = e.p.next, 0
	t.trouble.over()
	log := l.s.config.Logger.With("entry", t.Name)
	if e.work != nil {
		log.Warn("gormjobs: upkeep failed, and will be done at its next tick", "error", e.work)
	}
	if e.won && t.do == nil && missed(e.p.first.Time(), e.p.made.Time()) {
		log.Warn("gormjobs: ticks were missed while no scheduler ran", "since", e.p.first, "policy", t.Missed.String(), "run", len(e.p.ticks))
	}
}
