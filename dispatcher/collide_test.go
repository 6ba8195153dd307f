package dispatcher_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// keyed is a job whose key comes with its payload.
type keyed struct {
	Key string `json:"key"`
	N   int    `json:"n"`
}

func (keyed) JobType() string { return "keyed" }

func (k keyed) JobOptions() []dispatcher.Option {
	if k.Key == "" {
		return nil
	}
	return []dispatcher.Option{dispatcher.Unique(k.Key)}
}

type setting struct {
	name string
	opts []testdb.Option
}

// settings of the servers under which ids and affected rows are told otherwise.
var settings = []setting{
	{"default", nil},
	{"increment 3", []testdb.Option{
		testdb.Parameter(testdb.MySQL, "auto_increment_increment", "3"),
		testdb.Parameter(testdb.MariaDB, "auto_increment_increment", "3"),
		testdb.Only(testdb.MySQL, testdb.MariaDB),
	}},
	{"clientFoundRows", []testdb.Option{
		testdb.Parameter(testdb.MySQL, "clientFoundRows", "true"),
		testdb.Parameter(testdb.MariaDB, "clientFoundRows", "true"),
		testdb.Only(testdb.MySQL, testdb.MariaDB),
	}},
	{"interpolateParams", []testdb.Option{
		testdb.Parameter(testdb.MySQL, "interpolateParams", "true"),
		testdb.Parameter(testdb.MariaDB, "interpolateParams", "true"),
		testdb.Only(testdb.MySQL, testdb.MariaDB),
	}},
}

// A caller's transaction at MySQL's default isolation may be a deadlock's victim
// when it collides, and is then run again, as the documentation of Unique says.
func TestFiftyAtOnceLeaveOneJobPerKey(t *testing.T) {
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) { fiftyAtOnce(t, db, session.Retry) }, s.opts...)
		})
	}
}

func TestCollisionsNeverDeadlockAtReadCommitted(t *testing.T) {
	once := func(_ context.Context, fn func() error) error { return fn() }
	testdb.Each(t, func(t *testing.T, db *gorm.DB) { fiftyAtOnce(t, db, once) },
		testdb.Servers, testdb.Isolation(sql.LevelReadCommitted))
}

func fiftyAtOnce(t *testing.T, db *gorm.DB, try func(context.Context, func() error) error) {
	t.Helper()
	const n = 50
	receipts := make([][]dispatcher.Receipt, n)
	together(n, func(i int) {
		payloads := []keyed{{"a", i}, {"b", i}, {"a", i}, {"", i}}
		var err error
		if i%2 == 0 {
			var r dispatcher.Receipt
			r, err = dispatcher.EnqueueNow(context.Background(), db, payloads[0])
			receipts[i] = []dispatcher.Receipt{r}
		} else {
			err = try(t.Context(), func() error {
				return db.Transaction(func(tx *gorm.DB) (err error) {
					receipts[i], err = dispatcher.EnqueueMany(context.Background(), tx, payloads)
					return err
				})
			})
		}
		if err != nil {
			t.Errorf("enqueue %d = %v; want nil", i, err)
		}
	})
	if t.Failed() {
		return
	}
	holder := map[string]uint64{}
	plain := map[uint64]models.Job{}
	for _, j := range allJobs(t, db) {
		if j.UniqueKey == nil {
			plain[j.ID] = j
			continue
		}
		var k keyed
		if err := json.Unmarshal([]byte(j.Payload), &k); err != nil {
			t.Fatal(err)
		}
		key := k.Key
		if holder[key] != 0 {
			t.Errorf("key %s has the jobs %d and %d; want one", key, holder[key], j.ID)
		}
		holder[key] = j.ID
	}
	if len(holder) != 2 || len(plain) != n/2 {
		t.Errorf("jobs = %d with a key and %d without; want 2 and %d", len(holder), len(plain), n/2)
	}
	fresh := map[uint64]int{}
	for i, rs := range receipts {
		for k, key := range []string{"a", "b", "a", ""}[:len(rs)] {
			r := rs[k]
			if !r.Duplicate {
				fresh[r.ID]++
			}
			if key != "" && r.ID != holder[key] {
				t.Errorf("receipt %d of %d = %+v; want the id %d, which has key %s", k, i, r, holder[key], key)
			}
			if key == "" && string(plain[r.ID].Payload) != fmt.Sprintf(`{"key":"","n":%d}`, i) {
				t.Errorf("receipt %d of %d = %+v; want the id of its own job, not of %q", k, i, r, plain[r.ID].Payload)
			}
		}
	}
	for id, times := range fresh {
		if times != 1 {
			t.Errorf("job %d is new in %d receipts; want 1", id, times)
		}
	}
	if len(fresh) != 2+n/2 {
		t.Errorf("new jobs in receipts = %d; want %d", len(fresh), 2+n/2)
	}
}

// together calls fn(0) … fn(n-1) at once and waits for all.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}
