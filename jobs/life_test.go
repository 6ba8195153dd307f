package jobs // a life has no exported name

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gormjobs/gormjobs/models"
)

// A life goes on to another run when its run has ended, though that one's outcome is
// not recorded yet: what becomes of its job must end the other run's context no more.
func TestRunThatHasEndedEndsNoOther(t *testing.T) {
	h := &holds{}
	held := h.add([]*models.Job{{ID: 1}, {ID: 2}}, time.Now(), time.Hour)
	life := newLife()
	if !h.begin(held[0], life.end) {
		t.Fatal("the first job did not begin")
	}
	h.end(held[0])
	h.lose(held[0])
	if life.Err() != nil {
		t.Fatalf("a job lost after its run ended the life: %v", life.Err())
	}
	if !h.begin(held[1], life.end) {
		t.Fatal("the second job did not begin")
	}
	if h.lose(held[1]); !errors.Is(context.Cause(life), ErrLost) {
		t.Errorf("a job lost while it ran: the cause is %v", context.Cause(life))
	}
	life.giveBack()
	if next := newLife(); next.Err() != nil {
		t.Errorf("a life that was ended is used again: %v", next.Err())
	}
}
