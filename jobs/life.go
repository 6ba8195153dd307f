package jobs

import (
	"context"
	"sync"
)

// life is the context that a run's own is derived from, and how to end it with a
// cause. Hardly one is ever ended, so it is used for one run after the other: to make
// it, its channel and its list of children anew for each was a good part of what a
// worker does for a job that does little.
type life struct {
	context.Context
	end context.CancelCauseFunc
}

var lives = sync.Pool{New: func() any {
	ctx, end := context.WithCancelCause(context.Background())
	return &life{ctx, end}
}}

func newLife() *life { return lives.Get().(*life) }

// giveBack is called when nobody can end this run any more.
func (l *life) giveBack() {
	if l.Err() == nil {
		lives.Put(l)
	}
}
