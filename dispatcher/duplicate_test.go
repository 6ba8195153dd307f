package dispatcher_test

import (
	"database/sql"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

func TestDuplicateDoesNotHarmTheCallersTransaction(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		migrateOrders(t, db)
		first, err := dispatcher.EnqueueNow(t.Context(), db, welcome{7}, dispatcher.Unique("k"))
		if err != nil || first.Duplicate {
			t.Fatalf("EnqueueNow = %+v, %v; want a new job", first, err)
		}
		err = db.Transaction(func(tx *gorm.DB) error {
			if err := tx.Create(&order{Note: "before"}).Error; err != nil {
				return err
			}
			r, err := dispatcher.Enqueue(t.Context(), tx, welcome{8}, dispatcher.Unique("k"))
			if want := (dispatcher.Receipt{ID: first.ID, Duplicate: true}); r != want || err != nil {
				t.Errorf("Enqueue = %+v, %v; want %+v", r, err, want)
			}
			return tx.Create(&order{Note: "after"}).Error
		})
		if err != nil {
			t.Fatal(err)
		}
		wantCount(t, db, &order{}, 2)
		if j := theJob(t, db); j.Payload != `{"user_id":7}` {
			t.Errorf("payload = %s; want the first's", j.Payload)
		}
	})
}

// A transaction at the server's default isolation has its snapshot before the
// job that holds the key is committed: the receipt names that job all the same.
func TestDuplicateOfAJobNewerThanTheCallersSnapshot(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		migrateOrders(t, db)
		other := testdb.Again(t, db)
		err := db.Transaction(func(tx *gorm.DB) error {
			if err := tx.Find(&[]models.Job{}).Error; err != nil { // takes the snapshot
				return err
			}
			first, err := dispatcher.EnqueueNow(t.Context(), other, welcome{7}, dispatcher.Unique("k"))
			if err != nil {
				return err
			}
			r, err := dispatcher.Enqueue(t.Context(), tx, welcome{8}, dispatcher.Unique("k"))
			if want := (dispatcher.Receipt{ID: first.ID, Duplicate: true}); r != want || err != nil {
				t.Errorf("Enqueue = %+v, %v; want %+v", r, err, want)
			}
			return tx.Create(&order{}).Error
		})
		if err != nil {
			t.Fatal(err)
		}
		wantCount(t, db, &order{}, 1)
	}, testdb.Servers)
}

// The library's own transactions ask for READ COMMITTED, whatever the default.
func TestEnqueueNowFindsDuplicatesAtEveryIsolation(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				first, err := dispatcher.EnqueueNow(t.Context(), db, welcome{7}, dispatcher.Unique("k"))
				if err != nil {
					t.Fatal(err)
				}
				r, err := dispatcher.EnqueueNow(t.Context(), db, welcome{7}, dispatcher.Unique("k"))
				if want := (dispatcher.Receipt{ID: first.ID, Duplicate: true}); r != want || err != nil {
					t.Errorf("EnqueueNow = %+v, %v; want %+v", r, err, want)
				}
			}, testdb.Servers, testdb.Isolation(level))
		})
	}
}

func TestKeysAreComparedByteForByte(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, key := range []string{"key", "Key", "kéy", "key ", "ke\u0301y", "key\x00", "\xff"} {
			r, err := dispatcher.EnqueueNow(t.Context(), db, welcome{7}, dispatcher.Unique(key))
			if err != nil || r.Duplicate {
				t.Errorf("EnqueueNow with %q = %+v, %v; want a new job", key, r, err)
			}
		}
		// The same key of another type is another key.
		if r, err := dispatcher.EnqueueNow(t.Context(), db, named("other"), dispatcher.Unique("key")); err != nil || r.Duplicate {
			t.Errorf("EnqueueNow of another type = %+v, %v; want a new job", r, err)
		}
	})
}
