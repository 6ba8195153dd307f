package models_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

func TestPreloadGivesAJobsFailures(t *testing.T) {
	eachStrategy(t, func(t *testing.T, db *gorm.DB) {
		if err := models.Migrate(db); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			job := models.Job{State: models.Failed, Queue: "default", Type: "ping", Payload: `{}`, AvailableAt: 1, CreatedAt: 1}
			if err := db.Create(&job).Error; err != nil {
				t.Fatal(err)
			}
			for attempt := range 3 {
				f := models.Failure{JobID: job.ID, Attempt: attempt + 1, Error: "no", FailedAt: models.At(time.Now())}
				if err := db.Create(&f).Error; err != nil {
					t.Fatal(err)
				}
			}
		}
		var found []models.Job
		if err := db.Preload("Failures").Where("state = ?", models.Failed).Order("id").Find(&found).Error; err != nil {
			t.Fatal(err)
		}
		for _, j := range found {
			if len(j.Failures) != 3 || j.Failures[0].JobID != j.ID {
				t.Errorf("failures of %d = %+v; want its 3", j.ID, j.Failures)
			}
		}
		if len(found) != 2 {
			t.Errorf("jobs = %d; want 2", len(found))
		}
	})
}

func TestTimestampsSurviveTheDatabase(t *testing.T) {
	times := []models.Timestamp{0, 1, models.At(time.Date(2026, 10, 25, 2, 30, 0, 123456789, time.FixedZone("", 7200))), 1<<53 + 1, -1, math.MaxInt64}
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, want := range times {
			job := models.Job{State: models.Cancelled, Queue: "q", Type: "t", Payload: `{}`, AvailableAt: 1, CreatedAt: 1, FinishedAt: want}
			if err := db.Create(&job).Error; err != nil {
				t.Fatal(err)
			}
			var got models.Job
			if err := db.Take(&got, job.ID).Error; err != nil || got.FinishedAt != want {
				t.Errorf("finished_at = %d, %v; want %d", got.FinishedAt, err, want)
			}
			var null bool
			if err := db.Model(&job).Select("finished_at IS NULL").Scan(&null).Error; err != nil || null != (want == 0) {
				t.Errorf("finished_at of %d is NULL: %v, %v; want it only if not set", want, null, err)
			}
		}
	})
}

func TestTimestampIsRFC3339InJSON(t *testing.T) {
	for _, c := range []struct {
		time models.Timestamp
		want string
	}{
		{0, "null"},
		{1, `"1970-01-01T00:00:00.000001Z"`},
		{models.At(time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.FixedZone("", 3600))), `"2026-01-02T02:04:05.123456Z"`},
	} {
		b, err := json.Marshal(c.time)
		if string(b) != c.want || err != nil {
			t.Errorf("Marshal(%d) = %s, %v; want %s", c.time, b, err, c.want)
		}
		back := models.Timestamp(5)
		if err := json.Unmarshal(b, &back); err != nil || back != c.time {
			t.Errorf("Unmarshal(%s) = %d, %v; want %d", b, back, err, c.time)
		}
	}
	var zoned models.Timestamp
	if err := json.Unmarshal([]byte(`"2026-01-02T03:04:05.5+01:00"`), &zoned); err != nil || zoned.String() != "2026-01-02T02:04:05.500000Z" {
		t.Errorf("Unmarshal of another zone = %s, %v; want 2026-01-02T02:04:05.500000Z", zoned, err)
	}
	if err := json.Unmarshal([]byte(`"tomorrow"`), &zoned); err == nil {
		t.Error("Unmarshal(tomorrow) = nil; want an error")
	}
}

func TestDamagedPayloadDoesNotSpoilAList(t *testing.T) {
	list := []models.Job{{ID: 1, Payload: `{"a":1.10}`}, {ID: 2, Payload: `{"a":`}, {ID: 3}}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	var back []models.Job
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	for i, want := range []models.JSON{`{"a":1.10}`, `"{\"a\":"`, "null"} {
		if back[i].Payload != want {
			t.Errorf("payload %d = %s; want %s", i+1, back[i].Payload, want)
		}
	}
}

func TestJSONScansWhatDriversGive(t *testing.T) {
	for _, c := range []struct {
		given any
		want  models.JSON
	}{{nil, ""}, {`{}`, "{}"}, {[]byte("[1]"), "[1]"}, {int64(7), "7"}} {
		got := models.JSON("old")
		if err := got.Scan(c.given); err != nil || got != c.want {
			t.Errorf("Scan(%v) = %q, %v; want %q", c.given, got, err, c.want)
		}
	}
}

func TestTimestampScansWhatDriversGive(t *testing.T) {
	for _, v := range []any{int64(42), uint64(42), 42.0, []byte("42"), "42"} {
		var got models.Timestamp
		if err := got.Scan(v); err != nil || got != 42 {
			t.Errorf("Scan(%T) = %d, %v; want 42", v, got, err)
		}
	}
	got := models.Timestamp(7)
	if err := got.Scan(nil); err != nil || !got.IsZero() || !got.Time().IsZero() || got.String() != "" {
		t.Errorf("Scan(nil) = %d, %v; want not set", got, err)
	}
	for _, v := range []any{"x", true, time.Now()} {
		if err := got.Scan(v); err == nil {
			t.Errorf("Scan(%v) = nil; want an error", v)
		}
	}
}
