package scheduler_test

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
	"github.com/gormjobs/gormjobs/scheduler"
)

// An application clock that is years behind the database's: the database lives in
// 2033, which no line of the scheduler may find out from the host.
func TestOnlyTheDatabasesClockCounts(t *testing.T) {
	const there = "2000000000" // 2033-05-18T03:33:20Z
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		if testdb.KindOf(db) == testdb.Postgres {
			err := db.Exec(`CREATE FUNCTION public.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT pg_catalog.to_timestamp(` + there + `)'`).Error
			if err != nil {
				t.Fatal(err)
			}
		}
		now := time.Unix(2000000000, 0).UTC()
		if got := clock(t, db); !got.Equal(now) {
			t.Fatalf("the database's clock says %s; want %s", got, now)
		}
		insertRow(t, db, "due", "@every 1000h", now.Add(-10*time.Second))
		insertRow(t, db, "coming", "@every 1000h", now.Add(time.Second))
		run(t, newScheduler(t, testdb.Again(t, db), cronOnly(),
			entryIn("due", "due", "@every 1000h"), entryIn("coming", "coming", "@every 1000h"), entryIn("new", "new", "@every 1000h")))
		until(t, "what is due by the database's clock has run", func() bool { return len(tickedFor(t, db, "due")) > 0 })
		until(t, "a new entry has its row", func() bool { return rowOf(t, db, "new").Name != "" })
		next, err := scheduler.Next("@every 1000h", nil, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"due", "new"} {
			if got := rowOf(t, db, name).NextTick; got != models.At(next) {
				t.Errorf("next_tick of %s = %s; want %s", name, got, next)
			}
		}
		wantTicks(t, db, "due", now.Add(-10*time.Second))
		wantTicks(t, db, "coming")
		if got := rowOf(t, db, "coming").NextTick; got != models.At(now.Add(time.Second)) {
			t.Errorf("next_tick of coming = %s; want it untouched", got)
		}
	}, testdb.Servers, testdb.Parameter(testdb.Postgres, "search_path", "public,pg_catalog"),
		testdb.Parameter(testdb.MySQL, "timestamp", there), testdb.Parameter(testdb.MariaDB, "timestamp", there))
}
