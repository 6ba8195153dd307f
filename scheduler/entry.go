package scheduler

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/models"
)

// reserved begins the names of the library's own entries.
const reserved = "gormjobs/"

const maxStored = 255 // characters of the column

// Entry is something to enqueue at the ticks of a spec.
type Entry struct {
	// Name is the entry's in the database: 1 to 100 of A-Z a-z 0-9 _ . : / and -,
	// not beginning with "gormjobs/". Two applications on one database use
	// different names; the schedulers of one application share theirs.
	Name string
	// Spec says when, see [Next].
	Spec string
	// Payload is the job's, the same at every tick. The handler learns the tick from
	// [Tick].
	Payload models.Payload
	// Options are the job's. With dispatcher.Unique a tick adds no job while that of
	// an earlier one is not finished. An option that cannot be used shows at the
	// tick, which is then tried until the entry is mended.
	Options []dispatcher.Option
	// Location is whose clock the fields of Spec are read off. Default: UTC, or the
	// zone that the spec names.
	Location *time.Location
	// Missed is what becomes of ticks while no scheduler ran. Default [Skip].
	Missed Missed
	// MissedWindow is how far back [All] goes. Default 24h, at least a minute.
	MissedWindow time.Duration
	// MissedCap is how many missed ticks [All] makes up for, the latest ones.
	// Default 100, at most 10,000.
	MissedCap int
}

// Defaults of an [Entry].
const (
	DefaultMissedWindow = 24 * time.Hour
	DefaultMissedCap    = 100
)

const maxMissedCap = 10_000

func (e Entry) withDefaults() Entry {
	if e.MissedWindow == 0 {
		e.MissedWindow = DefaultMissedWindow
	}
	if e.MissedCap == 0 {
		e.MissedCap = DefaultMissedCap
	}
	return e
}

// entry is one that was checked.
type entry struct {
	Entry
	schedule schedule
	stored   string
	do       func(context.Context) error // the library's own work, instead of a job
}

func newEntry(e Entry) (*entry, error) {
	e = e.withDefaults()
	if err := models.CheckName(e.Name); err != nil {
		return nil, fmt.Errorf("cron entry: %w", err)
	}
	s, err := parse(e.Spec, e.Location)
	if err != nil {
		return nil, fmt.Errorf("cron entry %s: %w", e.Name, err)
	}
	stored, err := store(e.Spec, e.Location)
	if err != nil {
		return nil, fmt.Errorf("cron entry %s: %w", e.Name, err)
	}
	switch {
	case e.Missed < Skip || e.Missed > All:
		return nil, fmt.Errorf("cron entry %s: Missed is %d: use Skip, Once or All", e.Name, e.Missed)
	case e.MissedWindow < 0 || e.MissedCap < 0 || e.MissedCap > maxMissedCap:
		return nil, fmt.Errorf("cron entry %s: a window of %s and a cap of %d: use 0 for the defaults, and a cap of at most %d", e.Name, e.MissedWindow, e.MissedCap, maxMissedCap)
	}
	return &entry{Entry: e, schedule: s, stored: stored}, nil
}

// checkPayload refuses what no tick could enqueue.
func checkPayload(e Entry) error {
	if strings.HasPrefix(e.Name, reserved) {
		return fmt.Errorf("cron entry %s: names that begin with %q are the library's own", e.Name, reserved)
	}
	v := reflect.ValueOf(e.Payload)
	if e.Payload == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("cron entry %s: %w: it is nil", e.Name, dispatcher.ErrPayload)
	}
	if err := models.CheckName(e.Payload.JobType()); err != nil {
		return fmt.Errorf("cron entry %s: %w: JobType of %T: %w", e.Name, dispatcher.ErrPayload, e.Payload, err)
	}
	return nil
}

// store is the spec as its row has it: everything that decides about the ticks,
// in one spelling.
func store(spec string, loc *time.Location) (string, error) {
	fields := strings.Fields(spec)
	if loc == nil || loc.String() == "UTC" || fields[0] == "@every" {
		return strings.Join(fields, " "), nil
	}
	zone := loc.String()
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	stored := "TZ=" + zone + " " + strings.Join(fields, " ")
	if zone == "" || strings.ContainsFunc(zone, unprintable) || len(stored) > maxStored {
		return "", fmt.Errorf("%w %q has a Location of the name %.50q, which cannot be stored; use time.LoadLocation", ErrSpec, spec, zone)
	}
	return stored, nil
}
