package dispatcher_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// enqueueMany returns what was sent too.
func enqueueMany[T models.Payload](t *testing.T, db *gorm.DB, ps []T, opts ...dispatcher.Option) ([]dispatcher.Receipt, []string) {
	t.Helper()
	var receipts []dispatcher.Receipt
	var statements []string
	err := db.Transaction(func(tx *gorm.DB) (err error) {
		sent := watch(t, tx)
		receipts, err = dispatcher.EnqueueMany(t.Context(), tx, ps, opts...)
		statements = sent()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return receipts, statements
}

func TestReceiptsOfManyAreInOrder(t *testing.T) {
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				for _, n := range []int{0, 1, 1000, 5000} {
					clearJobs(t, db)
					ps := make([]welcome, n)
					for i := range ps {
						ps[i].UserID = i
					}
					receipts, sent := enqueueMany(t, db, ps)
					if len(receipts) != n {
						t.Fatalf("receipts = %d; want %d", len(receipts), n)
					}
					if got, want := inserts(sent), (n+999)/1000; got != want {
						t.Errorf("INSERTs of %d jobs = %d; want %d", n, got, want)
					}
					all := allJobs(t, db)
					if len(all) != n {
						t.Fatalf("jobs = %d; want %d", len(all), n)
					}
					for i, j := range all {
						want := models.JSON(fmt.Sprintf(`{"user_id":%d}`, i))
						if j.ID != receipts[i].ID || receipts[i].Duplicate || j.Payload != want {
							t.Fatalf("receipt %d = %+v; want the id of %s, %d", i, receipts[i], j.Payload, j.ID)
						}
					}
				}
			}, s.opts...)
		})
	}
}

func clearJobs(t *testing.T, db *gorm.DB) {
	t.Helper()
	if err := db.Where("1 = 1").Delete(&models.Job{}).Error; err != nil {
		t.Fatal(err)
	}
}

func TestMixedBatchKeepsItsOrder(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		held, err := dispatcher.EnqueueNow(t.Context(), db, keyed{"held", 0})
		if err != nil {
			t.Fatal(err)
		}
		ps := []keyed{{"", 1}, {"held", 2}, {"z", 3}, {"", 4}, {"a", 5}, {"z", 6}, {"", 7}}
		receipts, _ := enqueueMany(t, db, ps)
		byID := map[uint64]models.JSON{}
		for _, j := range allJobs(t, db) {
			byID[j.ID] = j.Payload
		}
		for i, n := range []int{1, 0, 3, 4, 5, 3, 7} {
			want := fmt.Sprintf(`"n":%d}`, n)
			if got := string(byID[receipts[i].ID]); !strings.HasSuffix(got, want) || receipts[i].Duplicate != (n != i+1) {
				t.Errorf("receipt %d = %+v, of %s; want the job with %s", i, receipts[i], got, want)
			}
		}
		if receipts[1].ID != held.ID {
			t.Errorf("receipt 1 = %+v; want %d, which has the key", receipts[1], held.ID)
		}
	})
}

// MariaDB drops the connection over a packet of 16 MB.
func TestLargeBatchIsCutIntoStatements(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		big := make([]document, 5)
		for i := range big {
			big[i].Body = strings.Repeat(`"`, 750_000) // twice that as JSON
		}
		if _, sent := enqueueMany(t, db, big); inserts(sent) != 3 {
			t.Errorf("INSERTs of five jobs of 1.5 MB = %d; want 3", inserts(sent))
		}
		huge := []document{{strings.Repeat("x", models.MaxPayload-20)}, {strings.Repeat("y", models.MaxPayload-20)}, {"z"}}
		if _, sent := enqueueMany(t, db, huge); inserts(sent) != 3 {
			t.Errorf("INSERTs of two jobs of 8 MB and a small one = %d; want 3", inserts(sent))
		}
		clearJobs(t, db)
		metadata := dispatcher.Metadata(map[string]string{"k": strings.Repeat("v", 60_000)})
		if _, sent := enqueueMany(t, db, make([]welcome, 400), metadata); inserts(sent) != 6 {
			t.Errorf("INSERTs of 400 jobs with 60 kB of metadata = %d; want 6", inserts(sent))
		}
		wantCount(t, db, &models.Job{}, 400)
	})
}

func TestOneBadPayloadOfManyInsertsNone(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		migrateOrders(t, db)
		ps := make([]document, 2000)
		ps[1999].Body = make(chan int)
		err := db.Transaction(func(tx *gorm.DB) error {
			sent := watch(t, tx)
			if _, err := dispatcher.EnqueueMany(t.Context(), tx, ps); !errors.Is(err, dispatcher.ErrPayload) {
				t.Errorf("EnqueueMany = %v; want ErrPayload", err)
			}
			if s := sent(); len(s) != 0 {
				t.Errorf("statements sent = %.200q; want none", s)
			}
			return tx.Create(&order{}).Error
		})
		if err != nil {
			t.Fatal(err)
		}
		wantCount(t, db, &models.Job{}, 0)
		wantCount(t, db, &order{}, 1)
	})
}

// Rows that differ in more than their payloads are written in another way than those
// that do not: what is stored must be the same.
func TestManyAreStoredAsEachByItself(t *testing.T) {
	bodies := []string{"", `"`, `\`, `\"`, "?", "$1 :a @b", "{,}NULL", "[1]", "\x00\x01\n\u2028", "é 漢 🙂", "'; --", "\xff", "<&>"}
	own := func(r *dispatcher.Request) { // by the payload
		body := r.Payload.(document).Body.(string)
		switch len(body) % 4 {
		case 1:
			r.Priority, r.MaxAttempts = -32768, 32767
		case 2:
			r.Metadata = map[string]string{"k": body}
		case 3:
			r.Delay, r.Queue = time.Hour, "other"
		}
	}
	for name, opts := range map[string][]dispatcher.Option{
		"alike":     nil,
		"delayed":   {dispatcher.Delay(time.Hour), dispatcher.Priority(7), dispatcher.Metadata(map[string]string{"k": "v?"})},
		"at a time": {dispatcher.At(time.Now().Add(time.Hour)), dispatcher.MaxAttempts(3)},
		"mixed":     {own},
		"mixed at":  {own, dispatcher.At(time.Now().Add(time.Hour))},
	} {
		t.Run(name, func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				ps := make([]document, len(bodies))
				for i, body := range bodies {
					ps[i].Body = body
				}
				receipts, _ := enqueueMany(t, db, ps, opts...)
				for i, p := range ps {
					single, err := dispatcher.EnqueueNow(t.Context(), db, p, opts...)
					if err != nil {
						t.Fatal(err)
					}
					var got, want models.Job
					if err := errors.Join(db.First(&got, receipts[i].ID).Error, db.First(&want, single.ID).Error); err != nil {
						t.Fatal(err)
					}
					for _, times := range [][2]models.Timestamp{{got.CreatedAt, want.CreatedAt}, {got.AvailableAt, want.AvailableAt}, {got.DueAt, want.DueAt}} {
						if d := times[1].Time().Sub(times[0].Time()); d < 0 || d > time.Minute {
							t.Errorf("%q: a time differs by %s", p.Body, d)
						}
					}
					got.ID, got.CreatedAt, got.AvailableAt, got.DueAt = want.ID, want.CreatedAt, want.AvailableAt, want.DueAt
					if !reflect.DeepEqual(got, want) {
						t.Errorf("%q: one of many is %+v; want %+v", p.Body, got, want)
					}
				}
			})
		})
	}
}
