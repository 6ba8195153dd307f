package dispatcher_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// document carries whatever JSON a test gives it.
type document struct {
	Body any `json:"body"`
}

func (document) JobType() string { return "document" }

// named has the type's name as its value.
type named string

func (n named) JobType() string { return string(n) }

func set(change func(*dispatcher.Request)) dispatcher.Option { return change }

func raw(s string) document { return document{json.RawMessage(s)} }

func nested(levels int) any {
	var v any
	for range levels {
		v = []any{v}
	}
	return v
}

// refused are enqueues that no database can take, or should.
var refused = []struct {
	name    string
	want    error
	payload models.Payload
	opts    []dispatcher.Option
}{
	{"payload too large", dispatcher.ErrPayload, document{strings.Repeat("x", models.MaxPayload)}, nil},
	{"payload nil", dispatcher.ErrPayload, nil, nil},
	{"payload nil pointer", dispatcher.ErrPayload, (*welcome)(nil), nil},
	{"payload JSON cannot encode", dispatcher.ErrPayload, document{make(chan int)}, nil},
	{"payload not a number", dispatcher.ErrPayload, document{math.NaN()}, nil},
	{"raw invalid UTF-8", dispatcher.ErrPayload, raw("\"a\xff\xfeb\""), nil},
	{"raw surrogate bytes", dispatcher.ErrPayload, raw("\"\xed\xa0\x80\""), nil},
	{"raw NUL", dispatcher.ErrPayload, raw("\"a\x00b\""), nil},
	{"raw half an object", dispatcher.ErrPayload, raw(`{"a":`), nil},
	{"raw two values", dispatcher.ErrPayload, raw(`1 2`), nil},
	{"nested too deep for PostgreSQL", dispatcher.ErrPayload, document{nested(20_000)}, nil},
	{"raw nested too deep", dispatcher.ErrPayload, raw(strings.Repeat(`{"[":`, 1000) + "1" + strings.Repeat("}", 1000)), nil},
	{"type empty", dispatcher.ErrPayload, named(""), nil},
	{"type too long", dispatcher.ErrPayload, named(strings.Repeat("t", 101)), nil},
	{"type not ASCII", dispatcher.ErrPayload, named("wélcome"), nil},
	{"queue empty", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.Queue("")}},
	{"queue too long", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.Queue(strings.Repeat("q", 101))}},
	{"queue with a space", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.Queue("mail ")}},
	{"queue with a quote", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.Queue("it's")}},
	{"priority too high", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.Priority(math.MaxInt16 + 1)}},
	{"priority too low", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.Priority(math.MinInt16 - 1)}},
	{"no attempts", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.MaxAttempts(0)}},
	{"too many attempts", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.MaxAttempts(math.MaxInt16 + 1)}},
	{"key empty", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.Unique("")}},
	{"no period", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.UniqueFor("k", 0)}},
	{"period negative", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.UniqueFor("k", -time.Hour)}},
	{"period too short", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.UniqueFor("k", time.Microsecond)}},
	{"year 10000", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))}},
	{"metadata too large", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{dispatcher.Metadata(map[string]string{"k": strings.Repeat("v", models.MaxMetadata)})}},
	{"own option, bad queue", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{set(func(r *dispatcher.Request) { r.Queue = "a b" })}},
	{"own option, bad priority", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{set(func(r *dispatcher.Request) { r.Priority = 1 << 20 })}},
	{"own option, no attempts", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{set(func(r *dispatcher.Request) { r.MaxAttempts = -1 })}},
	{"own option, short period", dispatcher.ErrOption, welcome{7}, []dispatcher.Option{set(func(r *dispatcher.Request) { r.UniqueKey, r.UniqueFor = "k", 1 })}},
}

func TestRefusedEnqueueLeavesTheTransactionUsable(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		migrateOrders(t, db)
		for _, c := range refused {
			t.Run(c.name, func(t *testing.T) {
				clearTables(t, db)
				err := db.Transaction(func(tx *gorm.DB) error {
					if err := tx.Create(&order{}).Error; err != nil {
						return err
					}
					sent := watch(t, tx)
					if _, err := dispatcher.Enqueue(t.Context(), tx, c.payload, c.opts...); !errors.Is(err, c.want) {
						t.Errorf("Enqueue = %v; want %v", err, c.want)
					}
					good := welcome{1}
					if _, err := dispatcher.EnqueueMany(t.Context(), tx, []models.Payload{good, c.payload, good}, c.opts...); !errors.Is(err, c.want) {
						t.Errorf("EnqueueMany = %v; want %v", err, c.want)
					}
					if s := sent(); len(s) != 0 {
						t.Errorf("statements sent = %.200q; want none", s)
					}
					return nil
				})
				if err != nil {
					t.Errorf("the caller's own commit = %v; want nil", err)
				}
				wantCount(t, db, &order{}, 1)
				wantCount(t, db, &models.Job{}, 0)
			})
		}
	})
}

// What JSON allows and a database might not like is taken, by all four.
func TestValidJSONIsNeverRefusedByTheDatabase(t *testing.T) {
	texts := map[string]string{
		"lone surrogate":   `"\ud800"`,
		"escaped NUL":      `"\u0000"`,
		"huge exponent":    `1e999999`,
		"many digits":      strings.Repeat("9", 5000),
		"duplicate keys":   `{"a":1,"a":2}`,
		"deep":             strings.Repeat("[", 999) + strings.Repeat("]", 999),
		"brackets in text": `"` + strings.Repeat(`[{\"`, 3000) + `"`,
		"question marks":   `"? ?? $1 @name :x"`,
	}
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		for name, text := range texts {
			t.Run(name, func(t *testing.T) {
				clearJobs(t, db)
				if _, err := dispatcher.EnqueueNow(t.Context(), db, raw(text)); err != nil {
					t.Fatalf("EnqueueNow = %v; want nil", err)
				}
				if got, want := string(theJob(t, db).Payload), `{"body":`+text+`}`; got != want {
					t.Errorf("payload = %.80s; want %.80s", got, want)
				}
			})
		}
	})
}
