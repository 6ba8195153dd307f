package dispatcher_test

import (
	"fmt"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
)

type benchmarked struct {
	N   int    `json:"n"`
	Pad string `json:"pad"`
}

func (benchmarked) JobType() string { return "benchmarked" }

// BenchmarkEnqueue is one job in the caller's transaction, which is open already.
func BenchmarkEnqueue(b *testing.B) {
	testdb.Bench(b, func(b *testing.B, db *gorm.DB) {
		tx := db.Begin()
		defer tx.Rollback()
		p := benchmarked{1, fmt.Sprintf("%150d", 1)}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := dispatcher.Enqueue(b.Context(), tx, p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEnqueueMany is 1000 jobs in one call.
func BenchmarkEnqueueMany(b *testing.B) {
	testdb.Bench(b, func(b *testing.B, db *gorm.DB) {
		ps := make([]benchmarked, 1000)
		for i := range ps {
			ps[i] = benchmarked{i, fmt.Sprintf("%150d", i)}
		}
		tx := db.Begin()
		defer tx.Rollback()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := dispatcher.EnqueueMany(b.Context(), tx, ps); err != nil {
				b.Fatal(err)
			}
		}
	})
}
