package jobs // a batch of outcomes is written by nothing exported

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// A batch is of few claims when jobs are short, and of as many as it has outcomes
// when they are long. Each outcome counts under its own claim's token alone.
func TestBatchIsRecordedWhateverTheNumberOfItsClaims(t *testing.T) {
	for _, size := range []int{hundred, 34, 7, 1} { // jobs a claim
		t.Run(fmt.Sprintf("%d a claim", size), func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) { recordABatch(t, db, size) }, testdb.Parallel)
		})
	}
}

func recordABatch(t *testing.T, db *gorm.DB, size int) {
	fill(t, db)
	c := newBenchClaimer(t, db)
	var batch []*outcome
	for len(batch) < hundred {
		claimed, err := c.Claim(t.Context(), size)
		if err != nil || len(claimed) == 0 {
			t.Fatalf("Claim = %d jobs, %v", len(claimed), err)
		}
		for i := range claimed {
			o := outcomeOf(&claimed[i], complete)
			switch len(batch) % 10 {
			case 3:
				o.verb, o.after = release, time.Hour
			case 6:
				o.token += "-of-nobody"
			}
			batch = append(batch, &o)
		}
	}
	// The token of another's outcome in the same batch is no better than any.
	batch[9].token = batch[0].token
	slices.Reverse(batch)
	w, err := record(t.Context(), db, batch)
	if err != nil {
		t.Fatal(err)
	}
	lost := hundred / 10
	if size <= 9 { // else they are of one claim
		lost++
	}
	if len(w.recorded) != hundred-lost || len(w.lost) != lost || len(w.busy) != 0 {
		t.Errorf("%d recorded, %d lost, %d busy; want %d, %d and none", len(w.recorded), len(w.lost), len(w.busy), hundred-lost, lost)
	}
	states := map[uint64]models.State{}
	var rows []models.Job
	if err := db.Find(&rows).Error; err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		states[r.ID] = r.State
	}
	for _, o := range w.recorded {
		want := models.Completed
		if o.verb == release {
			want = models.Scheduled
		}
		if states[o.id] != want {
			t.Errorf("job %d is %s; want %s", o.id, states[o.id], want)
		}
	}
	for _, o := range w.lost {
		if states[o.id] != models.Processing {
			t.Errorf("job %d, whose outcome was lost, is %s", o.id, states[o.id])
		}
	}
}
