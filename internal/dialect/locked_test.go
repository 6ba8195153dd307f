package dialect_test

import (
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// A row that somebody changes after the statement began and before it comes to it: it
// may be left out, and then the next statement finds it.
func TestRowChangedMeanwhileIsLockedNextTime(t *testing.T) {
	for name, many := range map[string]bool{"few": false, "many": true} {
		t.Run(name, func(t *testing.T) {
			db := testdb.Open(t, testdb.Postgres) // no other has a statement that locks and writes
			rows := make([]models.Job, 3)
			for i := range rows {
				rows[i] = models.Job{State: models.Pending, Queue: "default", Type: "t", Payload: "{}", AvailableAt: 1, CreatedAt: 1}
			}
			must(t, db.Create(&rows))
			// The first row waits for whoever has the lock of that number.
			must(t, db.Exec("CREATE FUNCTION pass(bigint) RETURNS boolean AS $$BEGIN "+
				"IF $1 = 1 THEN PERFORM pg_advisory_xact_lock(7); END IF; RETURN true; END$$ LANGUAGE plpgsql"))
			holder := db.Begin()
			must(t, holder.Exec("SELECT pg_advisory_xact_lock(7)"))

			columns, where := dialect.Locked(db, many)
			claim := func() (ids []uint64, err error) {
				err = db.Raw("WITH locked AS MATERIALIZED (SELECT " + columns + " FROM queue_jobs WHERE state = 'pending' AND pass(id) " +
					"ORDER BY id FOR UPDATE SKIP LOCKED) UPDATE queue_jobs SET state = 'processing' WHERE " + where + " RETURNING id").Scan(&ids).Error
				return ids, err
			}
			var claimed []uint64
			ended := make(chan error)
			go func() {
				var err error
				claimed, err = claim()
				ended <- err
			}()
			for waiting := 0; waiting == 0; {
				select {
				case err := <-ended:
					t.Fatalf("the claim did not wait: %v, %v", claimed, err)
				default:
				}
				must(t, db.Raw("SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database "+
					"WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted").Scan(&waiting))
			}
			must(t, db.Exec("UPDATE queue_jobs SET priority = 5 WHERE id = 2"))
			must(t, holder.Commit())
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if len(claimed) < 2 {
				t.Errorf("the first claim got %v", claimed)
			}
			rest, err := claim()
			if err != nil {
				t.Fatal(err)
			}
			claimed = append(claimed, rest...)
			slices.Sort(claimed)
			if !slices.Equal(claimed, []uint64{1, 2, 3}) {
				t.Errorf("two claims together got %v", claimed)
			}
		})
	}
}

// Rows of two tables can have one place. Those of a table that inherits from the jobs'
// are read and written with them.
func TestPlaceIsOneInATable(t *testing.T) {
	for name, many := range map[string]bool{"few": false, "many": true} {
		t.Run(name, func(t *testing.T) {
			db := testdb.Open(t, testdb.Postgres)
			job := models.Job{State: models.Completed, Queue: "default", Type: "t", Payload: "{}", AvailableAt: 1, CreatedAt: 1}
			must(t, db.Create(&job))
			must(t, db.Exec("CREATE TABLE older () INHERITS (queue_jobs)"))
			must(t, db.Exec("INSERT INTO older SELECT * FROM queue_jobs"))
			must(t, db.Exec("UPDATE older SET id = 2, state = 'pending'"))
			must(t, db.Exec("UPDATE ONLY queue_jobs SET id = 1")) // the second place, as in the other
			columns, where := dialect.Locked(db, many)
			var ids []uint64
			must(t, db.Raw("WITH locked AS MATERIALIZED (SELECT "+columns+" FROM queue_jobs WHERE state = 'pending' "+
				"FOR UPDATE SKIP LOCKED) UPDATE queue_jobs SET state = 'processing' WHERE "+where+" RETURNING id").Scan(&ids))
			if !slices.Equal(ids, []uint64{2}) {
				t.Errorf("wrote jobs %v; want the one that was locked, 2", ids)
			}
		})
	}
}

func must(t *testing.T, db *gorm.DB) {
	t.Helper()
	if db.Error != nil {
		t.Fatal(db.Error)
	}
}
