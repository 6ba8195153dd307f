package scheduler

import (
	"log/slog"
	"time"

	"github.com/gormjobs/gormjobs/handlers"
)

// trouble paces what fails: a pause that doubles from 100 ms to most, and one line
// in the log for each.
type trouble struct {
	log  *slog.Logger
	what string
	most time.Duration
	step int
}

const firstPause = 100 * time.Millisecond

// pause logs err and returns how long to wait before the next try.
func (t *trouble) pause(err error) time.Duration {
	d := handlers.Jitter(min(firstPause<<min(t.step, 16), t.most))
	t.step++
	t.log.Warn("gormjobs: "+t.what+": trying again", "error", err, "in", d.Round(time.Millisecond), "try", t.step)
	return d
}

// over says that all is well again.
func (t *trouble) over() {
	if t.step > 0 {
		t.log.Info("gormjobs: "+t.what+": works again", "tries", t.step)
		t.step = 0
	}
}
