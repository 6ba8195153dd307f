package jobs // a batch of outcomes is written by nothing exported

import (
	"fmt"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

type benchmarked struct {
	N   int    `json:"n"`
	Pad string `json:"pad"`
}

func (benchmarked) JobType() string { return "benchmarked" }

const hundred = 100

func fill(b testing.TB, db *gorm.DB) {
	b.Helper()
	ps := make([]benchmarked, hundred)
	for i := range ps {
		ps[i] = benchmarked{i, fmt.Sprintf("%150d", i)}
	}
	if err := db.Transaction(func(tx *gorm.DB) error {
		_, err := dispatcher.EnqueueMany(b.Context(), tx, ps)
		return err
	}); err != nil {
		b.Fatal(err)
	}
}

func claimHundred(b testing.TB, c *Claimer) []models.Job {
	b.Helper()
	got, err := c.Claim(b.Context(), hundred)
	if err != nil || len(got) != hundred {
		b.Fatalf("Claim = %d jobs, %v; want %d", len(got), err, hundred)
	}
	return got
}

func newBenchClaimer(b testing.TB, db *gorm.DB) *Claimer {
	b.Helper()
	c, err := NewClaimer(db, ClaimerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkClaim is a claim of 100 jobs.
func BenchmarkClaim(b *testing.B) {
	testdb.Bench(b, func(b *testing.B, db *gorm.DB) {
		c := newBenchClaimer(b, db)
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			fill(b, db)
			b.StartTimer()
			claimHundred(b, c)
		}
	})
}

// BenchmarkRecord is a batch of 100 completions.
func BenchmarkRecord(b *testing.B) {
	testdb.Bench(b, func(b *testing.B, db *gorm.DB) {
		c := newBenchClaimer(b, db)
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			fill(b, db)
			batch := make([]*outcome, 0, hundred)
			for _, j := range claimHundred(b, c) {
				o := outcomeOf(&j, complete)
				batch = append(batch, &o)
			}
			b.StartTimer()
			w, err := record(b.Context(), db, batch)
			if err != nil || len(w.recorded) != hundred {
				b.Fatalf("record = %d recorded, %v; want %d", len(w.recorded), err, hundred)
			}
		}
	})
}
