package handlers

import (
	"errors"
	"time"
)

// What a handler asks for with its error. They are found with errors.As, so they
// may be wrapped.
type (
	discard struct{ err error }
	snooze  struct{ after time.Duration }
	retry   struct {
		after time.Duration
		err   error
	}
)

func (d *discard) Error() string { return "discard: " + d.err.Error() }
func (d *discard) Unwrap() error { return d.err }
func (s *snooze) Error() string  { return "snooze for " + s.after.String() }
func (r *retry) Error() string   { return r.err.Error() }
func (r *retry) Unwrap() error   { return r.err }

// Discard fails the job now, whatever attempts it has left, with err as the
// reason. A nil err is given a text.
func Discard(err error) error {
	if err == nil {
		err = errors.New("discarded by its handler")
	}
	return &discard{err}
}

// Snooze runs the job again after d and does not count this run as an attempt. It
// is no failure: nothing is recorded. Zero or less means at once.
func Snooze(d time.Duration) error { return &snooze{max(0, d)} }

// RetryAfter is a failed attempt like any other error, but the next comes after d
// instead of the backoff: what a Retry-After header asks for. Zero or less means
// at once. A nil err is given a text.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		err = errors.New("asked to retry after " + d.String())
	}
	return &retry{max(0, d), err}
}

// Verdict is what a handler's error says about its job. The worker reads it;
// middleware may.
type Verdict struct {
	// Err is the error of a failed attempt, nil if the handler was content or
	// snoozed.
	Err error
	// Discard: fail the job whatever attempts it has left.
	Discard bool
	// Snooze: run it again after After, uncounted.
	Snooze bool
	// HasAfter: After replaces the backoff.
	HasAfter bool
	After    time.Duration
}

// Judge returns the verdict in a handler's error.
func Judge(err error) Verdict {
	var d *discard
	var s *snooze
	var r *retry
	switch {
	case err == nil:
		return Verdict{}
	case errors.As(err, &d):
		return Verdict{Err: err, Discard: true}
	case errors.As(err, &s):
		return Verdict{Snooze: true, HasAfter: true, After: s.after}
	case errors.As(err, &r):
		return Verdict{Err: err, HasAfter: true, After: r.after}
	}
	return Verdict{Err: err}
}
