package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// Enqueuing transactions of other processes notify while a row says that an idle
// worker listens. A busy worker looks every few milliseconds anyway, and takes the
// request back: notifications make commits wait for one another.
const (
	noticeFor    = 30 * time.Second // how long a request holds
	noticeEvery  = 10 * time.Second // how often it is renewed
	noticeIdle   = 100 * time.Millisecond
	noticeEnough = 200 // notifications within noticeEvery that say "busy"
)

// heardNotice is what the Listener calls.
func (l *lookout) heardNotice(queue string) {
	l.listening.Store(true)
	if queue != "" && !l.has(queue) {
		return // they are for another worker, whose busy queue is no reason to stop asking
	}
	l.notified.Add(1)
	l.heard(queue)
}

// askForNotice asks other processes to notify if the worker is idle, and takes
// that back when they do so all the time.
func (l *lookout) askForNotice(ctx context.Context) error {
	if !l.listening.Load() {
		return nil
	}
	now := time.Now()
	busy := l.notified.Load() > noticeEnough
	switch {
	case busy:
		l.notified.Store(0)
		l.marked = now
		return l.mark(ctx, 0)
	case now.Sub(l.marked) < noticeEvery || now.Sub(time.Unix(0, l.lastWork.Load())) < noticeIdle:
		return nil
	}
	l.notified.Store(0)
	l.marked = now
	return l.mark(ctx, noticeFor)
}

func (l *lookout) mark(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	s, err := session.In(ctx, l.w.db)
	if err != nil {
		return err
	}
	until := map[string]any{"next_tick": now(s, d), "updated_at": now(s, 0)}
	write := s.Model(&models.Schedule{}).Where("name = ?", models.ListeningEntry).Updates(until)
	if write.Error != nil || write.RowsAffected > 0 {
		return write.Error
	}
	row := fmt.Sprintf("INSERT INTO %s (name, spec, next_tick, updated_at) VALUES (?, '', %s + ?, %s) ON CONFLICT DO NOTHING",
		s.Statement.Quote(models.SchedulesTable(s)), dialect.Now(s), dialect.Now(s))
	return s.Exec(row, models.ListeningEntry, d.Microseconds()).Error
}
