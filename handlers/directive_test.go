package handlers_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gormjobs/gormjobs/handlers"
)

var errBoom = errors.New("boom")

func TestJudgeFindsWhatAHandlerAsksFor(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want handlers.Verdict // without Err
		text string           // of Err; "": none
	}{
		"nil":                {nil, handlers.Verdict{}, ""},
		"error":              {errBoom, handlers.Verdict{}, "boom"},
		"discard":            {handlers.Discard(errBoom), handlers.Verdict{Discard: true}, "discard: boom"},
		"discard nil":        {handlers.Discard(nil), handlers.Verdict{Discard: true}, "discard: discarded by its handler"},
		"discard wrapped":    {fmt.Errorf("a: %w", handlers.Discard(errBoom)), handlers.Verdict{Discard: true}, "a: discard: boom"},
		"discard of retry":   {handlers.Discard(handlers.RetryAfter(time.Hour, errBoom)), handlers.Verdict{Discard: true}, "discard: boom"},
		"snooze":             {handlers.Snooze(time.Hour), handlers.Verdict{Snooze: true, HasAfter: true, After: time.Hour}, ""},
		"snooze negative":    {handlers.Snooze(-time.Hour), handlers.Verdict{Snooze: true, HasAfter: true}, ""},
		"snooze wrapped":     {fmt.Errorf("a: %w", handlers.Snooze(time.Hour)), handlers.Verdict{Snooze: true, HasAfter: true, After: time.Hour}, ""},
		"retry":              {handlers.RetryAfter(time.Hour, errBoom), handlers.Verdict{HasAfter: true, After: time.Hour}, "boom"},
		"retry negative":     {handlers.RetryAfter(-1, errBoom), handlers.Verdict{HasAfter: true}, "boom"},
		"retry nil":          {handlers.RetryAfter(time.Hour, nil), handlers.Verdict{HasAfter: true, After: time.Hour}, "asked to retry after 1h0m0s"},
		"retry wrapped":      {fmt.Errorf("a: %w", handlers.RetryAfter(time.Hour, errBoom)), handlers.Verdict{HasAfter: true, After: time.Hour}, "a: boom"},
		"joined, discard in": {errors.Join(errBoom, handlers.Discard(errBoom)), handlers.Verdict{Discard: true}, "boom\ndiscard: boom"},
	} {
		got := handlers.Judge(c.err)
		if (got.Err != nil) != (c.text != "") || got.Err != nil && got.Err.Error() != c.text {
			t.Errorf("%s: the verdict's error is %v; want %q", name, got.Err, c.text)
		}
		if got.Err = nil; got != c.want {
			t.Errorf("%s: %+v; want %+v", name, got, c.want)
		}
	}
}

func TestDirectivesKeepTheirCause(t *testing.T) {
	for name, err := range map[string]error{
		"Discard": handlers.Discard(errBoom), "RetryAfter": handlers.RetryAfter(time.Hour, errBoom),
	} {
		if !errors.Is(err, errBoom) {
			t.Errorf("%s hides its cause from errors.Is", name)
		}
	}
}
