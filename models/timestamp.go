package models

import (
	"database/sql/driver"
	"fmt"
	"strconv"
	"time"
)

// Timestamp is a moment in microseconds since 1970-01-01 UTC. Zero means "not
// set" and is NULL in the database.
//
// Times are integers because the four databases disagree about every other
// type: DATETIME columns follow the connection's loc, SQLite compares times as
// text, and defaults round to milliseconds. An integer has no time zone to get
// wrong.
type Timestamp int64

// At returns t as a Timestamp, cut to the microsecond. A zero t is not set.
func At(t time.Time) Timestamp {
	if t.IsZero() {
		return 0
	}
	return Timestamp(t.UnixMicro())
}

// Time returns the moment in UTC, and the zero time if it is not set.
func (t Timestamp) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(t)).UTC()
}

// IsZero tells whether the moment is not set.
func (t Timestamp) IsZero() bool { return t == 0 }

// String returns the moment in RFC 3339 with microseconds, and "" if it is not
// set.
func (t Timestamp) String() string {
	if t == 0 {
		return ""
	}
	return t.Time().Format("2006-01-02T15:04:05.000000Z07:00")
}

// MarshalJSON returns the moment as an RFC 3339 string, and null if it is not
// set.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	if t == 0 {
		return []byte("null"), nil
	}
	return strconv.AppendQuote(nil, t.String()), nil
}

// UnmarshalJSON reads what MarshalJSON writes, in any time zone.
func (t *Timestamp) UnmarshalJSON(b []byte) error {
	if string(b) == "null" || string(b) == `""` {
		*t = 0
		return nil
	}
	var v time.Time
	if err := v.UnmarshalJSON(b); err != nil {
		return fmt.Errorf("timestamp: %w", err)
	}
	*t = At(v)
	return nil
}

// Value implements [driver.Valuer].
func (t Timestamp) Value() (driver.Value, error) {
	if t == 0 {
		return nil, nil
	}
	return int64(t), nil
}

// Scan implements sql.Scanner.
func (t *Timestamp) Scan(v any) error {
	n, err := scanInt(v)
	*t = Timestamp(n)
	return err
}

// scanInt reads an integer column. MySQL's text protocol gives bytes.
func scanInt(v any) (int64, error) {
	switch v := v.(type) {
	case nil:
		return 0, nil
	case int64:
		return v, nil
	case uint64:
		return int64(v), nil
	case float64:
		return int64(v), nil
	case []byte:
		return strconv.ParseInt(string(v), 10, 64)
	case string:
		return strconv.ParseInt(v, 10, 64)
	}
	return 0, fmt.Errorf("timestamp: a %T is no integer", v)
}
