package dispatcher_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

func TestPayloadComesBackByteForByte(t *testing.T) {
	bodies := map[string]any{
		"emoji":           "👩‍👩‍👧 𝔘𝔫𝔦 \U0010FFFF",
		"NUL":             "a\x00b",
		"HTML":            `<a href="?&x">'it''s' \ "`,
		"separators":      "\u2028\u2029\u00a0\ufeff\ufffd",
		"large integers":  json.RawMessage(`[9007199254740993,18446744073709551615,-9223372036854775808,123456789012345678901234567890]`),
		"numbers":         json.RawMessage(`[1.10,1e2,1E+2,0.1000,-0,-0.0]`),
		"keys as written": json.RawMessage(`{"b":1,"a":2,"b":3,"é":null}`),
		"escapes":         json.RawMessage(`"\u00e9\/\ud83d\ude00\b"`),
		"5 MB":            strings.Repeat("日本語🎉\n\"", 250_000),
		"null":            nil,
	}
	simple := setting{"simple protocol", []testdb.Option{
		testdb.Parameter(testdb.Postgres, "default_query_exec_mode", "simple_protocol"), testdb.Only(testdb.Postgres),
	}}
	for _, s := range append(slices.Clone(settings), simple) {
		t.Run(s.name, func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				for name, body := range bodies {
					t.Run(name, func(t *testing.T) { comesBack(t, db, document{body}) })
				}
			}, s.opts...)
		})
	}
}

// comesBack looks at the row, and at what a handler gets.
func comesBack(t *testing.T, db *gorm.DB, d document) {
	t.Helper()
	clearJobs(t, db)
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSuffix(b.String(), "\n")
	metadata := map[string]string{"k": "👩‍👩‍👧 \x00 <>&'\"\\?"}
	if _, err := dispatcher.EnqueueNow(t.Context(), db, d, dispatcher.Metadata(metadata)); err != nil {
		t.Fatal(err)
	}
	j := theJob(t, db)
	if string(j.Payload) != want {
		t.Errorf("payload = %.100s (%d bytes); want %.100s (%d bytes)", j.Payload, len(j.Payload), want, len(want))
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(j.Metadata), &back); err != nil || back["k"] != metadata["k"] {
		t.Errorf("metadata = %s, %v; want %q", j.Metadata, err, metadata["k"])
	}
	registry := handlers.NewRegistry()
	var seen models.JSON
	handlers.Register(registry, func(ctx context.Context, d document) error {
		if j, ok := handlers.JobFrom(ctx); ok {
			seen = j.Payload
		}
		return nil
	})
	w, err := jobs.NewWorker(db, registry, jobs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.Drain(t.Context()); n != 1 || err != nil {
		t.Fatalf("Drain = %d, %v; want 1", n, err)
	}
	if string(seen) != want {
		t.Errorf("the handler's payload = %.100s; want %.100s", seen, want)
	}
}
