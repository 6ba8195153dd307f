package jobs // the pauses of a lookout have no exported name

import (
	"context"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// chatter hears of a queue that nobody here works for.
type chatter struct{ heard chan struct{} }

func (c chatter) Listen(ctx context.Context, _ *gorm.DB, wake func(queue string)) error {
	wake("")
	for range 2 * noticeEnough {
		wake("another worker's")
	}
	close(c.heard)
	<-ctx.Done()
	return ctx.Err()
}

func TestNotificationsOfOtherQueuesAreNoReasonToStopAsking(t *testing.T) {
	db := testdb.Open(t, testdb.Postgres)
	c := chatter{make(chan struct{})}
	w, err := NewWorker(db, handlers.NewRegistry(), Config{Listener: c})
	if err != nil {
		t.Fatal(err)
	}
	l := newLookout(w)
	l.lastWork.Store(0) // idle for long
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.listen(l)(ctx) }()
	defer func() { cancel(); <-ended }()
	<-c.heard
	l.lastWork.Store(0)
	if err := l.askForNotice(t.Context()); err != nil {
		t.Fatal(err)
	}
	var asks int64
	if err := db.Model(&models.Schedule{}).Where("name = ? AND next_tick > ?", models.ListeningEntry, models.At(time.Now())).Count(&asks).Error; err != nil {
		t.Fatal(err)
	}
	if asks != 1 {
		t.Error("the idle worker does not ask for notifications")
	}
}

func TestListeningWorkerLooksBeforeItsRequestLapses(t *testing.T) {
	db := testdb.Open(t, testdb.Postgres)
	w, err := NewWorker(db, handlers.NewRegistry(), Config{PollInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	l := newLookout(w)
	long := time.Now().Add(100 * time.Hour)
	if d := l.pause(long); d < 50*time.Minute {
		t.Errorf("without a listener the pause is %s; want an hour", d)
	}
	l.listening.Store(true)
	for _, waiting := range []bool{false, true} {
		w.loops[0].waiting.Store(waiting)
		if d := l.pause(long); d > noticeEvery {
			t.Errorf("the pause is %s; want at most %s", d, noticeEvery)
		}
	}
}
