package dispatcher_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"testing"
	"time"
	"unicode/utf8"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// anything is a payload of whatever bytes, of whatever type.
type anything struct {
	jobType string
	text    []byte
}

func (r anything) JobType() string              { return r.jobType }
func (r anything) MarshalJSON() ([]byte, error) { return r.text, nil }

// The row has the payload's JSON byte for byte, or the enqueue is refused and the
// transaction goes on.
func FuzzPayload(f *testing.F) {
	for _, s := range []string{`{}`, `null`, `"é😀\u0000"`, `[1.10,1e2,-0,9007199254740993]`, `{"b":1,"a":2,"b":3}`, `{ "a" : [ ] }`,
		`"\ud83d"`, "\"\xff\"", `"\u2028<>&"`, `{`, ``, "\x00", `1 2`, "[[[[[]]]]]", `"` + "\u2028" + `"`} {
		f.Add([]byte(s))
	}
	db := testdb.Open(f, testdb.SQLite)
	f.Fuzz(func(t *testing.T, text []byte) {
		var receipt dispatcher.Receipt
		var refused error
		err := db.Transaction(func(tx *gorm.DB) error {
			receipt, refused = dispatcher.Enqueue(t.Context(), tx, anything{"raw", text})
			return nil
		})
		if err != nil {
			t.Fatalf("the caller's commit after Enqueue = %v: %v", refused, err)
		}
		if !json.Valid(text) || !utf8.Valid(text) {
			if !errors.Is(refused, dispatcher.ErrPayload) {
				t.Fatalf("Enqueue of %q = %v; want ErrPayload", text, refused)
			}
			return
		}
		if refused != nil {
			if errors.Is(refused, dispatcher.ErrPayload) && bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > 1000 {
				return // nested too deep
			}
			t.Fatalf("Enqueue of %q = %v; want it taken", text, refused)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, text); err != nil { // encoding/json does that to a Marshaler's text
			t.Fatal(err)
		}
		var j models.Job
		if err := db.Where("id = ?", receipt.ID).Limit(1).Find(&j).Error; err != nil {
			t.Fatal(err)
		}
		if string(j.Payload) != want.String() {
			t.Errorf("payload = %q; want %q", j.Payload, want.String())
		}
	})
}

// documented is what names are made of.
var documented = regexp.MustCompile(`\A[A-Za-z0-9_.:/-]{1,100}\z`)

func FuzzNames(f *testing.F) {
	for _, s := range []string{"", "default", "a b", "é", "a\x00", "A-Z.a:z/0_9", "x\n", "\xff", "'; DROP TABLE queue_jobs; --", `"`, "`", "?", "@x"} {
		f.Add(s, "ok")
		f.Add("ok", s)
	}
	db := testdb.Open(f, testdb.SQLite)
	f.Fuzz(func(t *testing.T, queue, jobType string) {
		r, err := dispatcher.EnqueueNow(t.Context(), db, anything{jobType, []byte("{}")}, dispatcher.Queue(queue))
		switch {
		case !documented.MatchString(jobType):
			if !errors.Is(err, dispatcher.ErrPayload) {
				t.Fatalf("EnqueueNow of the type %q = %v; want ErrPayload", jobType, err)
			}
		case !documented.MatchString(queue):
			if !errors.Is(err, dispatcher.ErrOption) {
				t.Fatalf("EnqueueNow into %q = %v; want ErrOption", queue, err)
			}
		case err != nil:
			t.Fatalf("EnqueueNow of %q into %q = %v; want it taken", jobType, queue, err)
		default:
			var j models.Job
			if err := db.Where("id = ?", r.ID).Limit(1).Find(&j).Error; err != nil || j.Queue != queue || j.Type != jobType {
				t.Errorf("the row is a %q in %q, %v; want a %q in %q", j.Type, j.Queue, err, jobType, queue)
			}
		}
	})
}

// Two keys are one if and only if they are the same bytes, of the same kind.
func FuzzUniqueKeys(f *testing.F) {
	for _, s := range []string{"key", "Key", "key ", "kéy", "\x00", "key\x001000", "\xff", "'"} {
		f.Add(s, "key", int64(0), int64(0))
		f.Add(s, "key", int64(time.Hour), int64(0))
		f.Add("key\x003600000000", s, int64(time.Hour), int64(time.Hour))
	}
	db := testdb.Open(f, testdb.SQLite)
	f.Fuzz(func(t *testing.T, a, b string, forA, forB int64) {
		// Periods of a century: none ends during the test.
		const century = 100 * 365 * 24 * time.Hour
		period := func(n int64) time.Duration {
			if n == 0 {
				return 0
			}
			return century + time.Duration(n&1)*time.Millisecond
		}
		key := func(k string, period time.Duration) dispatcher.Option {
			if period == 0 {
				return dispatcher.Unique(k)
			}
			return dispatcher.UniqueFor(k, period)
		}
		if a == "" || b == "" {
			return
		}
		err := db.Transaction(func(tx *gorm.DB) error {
			first, err := dispatcher.Enqueue(t.Context(), tx, welcome{}, key(a, period(forA)))
			if err != nil || first.Duplicate {
				t.Fatalf("the first enqueue = %+v, %v", first, err)
			}
			second, err := dispatcher.Enqueue(t.Context(), tx, welcome{}, key(b, period(forB)))
			if err != nil {
				t.Fatal(err)
			}
			if same := a == b && period(forA) == period(forB); second.Duplicate != same || same != (second.ID == first.ID) {
				t.Errorf("%q for %s after %q for %s: %+v, %+v", b, period(forB), a, period(forA), second, first)
			}
			return errors.New("undone")
		})
		if err == nil {
			t.Error("the transaction was committed")
		}
	})
}

// Metadata comes back as it was, but for what is no UTF-8.
func FuzzMetadata(f *testing.F) {
	f.Add("key", "value")
	f.Add("", "\x00é😀<>&")
	f.Add("\u2028", `"\`)
	db := testdb.Open(f, testdb.SQLite)
	f.Fuzz(func(t *testing.T, key, value string) {
		want := map[string]string{key: value}
		r, err := dispatcher.EnqueueNow(t.Context(), db, welcome{}, dispatcher.Metadata(want))
		if err != nil {
			if errors.Is(err, dispatcher.ErrOption) && len(key)+len(value) > models.MaxMetadata/6 {
				return
			}
			t.Fatal(err)
		}
		var j models.Job
		if err := db.Where("id = ?", r.ID).Limit(1).Find(&j).Error; err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal([]byte(j.Metadata), &got); err != nil || !utf8.ValidString(string(j.Metadata)) || len(j.Metadata) > models.MaxMetadata {
			t.Fatalf("metadata = %q, %v", j.Metadata, err)
		}
		if utf8.ValidString(key) && utf8.ValidString(value) && !maps.Equal(got, want) {
			t.Errorf("metadata = %q; want %q", got, want)
		}
	})
}
