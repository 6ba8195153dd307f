package dispatcher

import (
	"time"

	"github.com/gormjobs/gormjobs/models"
)

// The defaults of a [Request].
const (
	DefaultQueue       = "default"
	DefaultMaxAttempts = 25
)

// Request is one job about to be enqueued, as its options see it.
type Request struct {
	// Payload is the job's, for options that look at it.
	Payload models.Payload
	// Queue is the queue's name. Default "default".
	Queue string
	// Priority orders the due jobs of a queue, lower first, from -32768 to 32767.
	// Default 0.
	Priority int
	// MaxAttempts is how often the job is run at most. Default 25, which with the
	// default backoff lasts about 17 hours.
	MaxAttempts int
	// Delay is how long the job waits, by the database's clock. Zero or less: not.
	Delay time.Duration
	// At is when the job is due, instead of Delay. Zero, or in the past: at once.
	At time.Time
	// UniqueKey makes the job unique among those of its type. Empty: not unique.
	UniqueKey string
	// UniqueFor is the period within which there is one job of the key. Zero: the
	// key is taken until the job is finished.
	UniqueFor time.Duration
	// Metadata travels with the job, for middleware: trace context, tags. At most
	// 64 KiB as JSON.
	Metadata map[string]string

	err error // of an option
}

// Option changes the request for a job. An application writes its own as
// functions:
//
//	func perUser(r *dispatcher.Request) { r.UniqueKey = r.Payload.(Digest).UserID }
type Option func(*Request)

// Defaults may be implemented by a payload that has options of its own. The
// options given to Enqueue are applied after these, and win.
//
//	func (SendWelcome) JobOptions() []dispatcher.Option {
//		return []dispatcher.Option{dispatcher.Queue("mail"), dispatcher.MaxAttempts(3)}
//	}
type Defaults interface{ JobOptions() []Option }

// Queue puts the job in the named queue. A name has at most 100 of A-Z a-z 0-9
// _ . : / and -.
func Queue(name string) Option {
	return func(r *Request) {
		r.Queue = name
		r.refuse(models.CheckName(name), "Queue")
	}
}

// Delay makes the job due after d, counted from the insert by the database's
// clock. Zero or less means now.
func Delay(d time.Duration) Option {
	return func(r *Request) { r.Delay, r.At = d, time.Time{} }
}

// At makes the job due at t. A t in the past means now. Unlike [Delay] it is as
// right as the clock that t was read from.
func At(t time.Time) Option {
	return func(r *Request) { r.Delay, r.At = 0, t }
}

// Priority orders the due jobs of a queue, lower first; the default is 0. A job
// of a better priority is taken first however long others have waited. What a
// worker has claimed already it runs before, or puts back after a second.
func Priority(p int) Option { return func(r *Request) { r.Priority = p } }

// MaxAttempts gives the job up after n runs that failed; n is at least 1.
func MaxAttempts(n int) Option {
	return func(r *Request) {
		r.MaxAttempts = n
		r.refuse(checkMaxAttempts(n), "MaxAttempts")
	}
}

// Unique makes sure that there is at most one job of this type and key that is
// not finished. A second one is not an error: its receipt says Duplicate and has
// the id of the first.
//
// On MySQL and MariaDB, transactions whose unique keys collide can deadlock one
// another: three or more that go on to insert after a duplicate, or that wait for
// a key whose transaction then rolls back. The database rolls one of them back
// (error 1213), and the caller runs it again. The first kind needs the default
// isolation: at READ COMMITTED a duplicate leaves no lock on the gaps behind.
func Unique(key string) Option { return unique(key, 0) }

// UniqueFor is like [Unique], but the key is taken for a period, whether the job
// is finished or not. Periods are aligned to the clock: with 24 hours there is
// one job a UTC day. A key is free again once its job is pruned, so a period
// longer than finished jobs are kept (7 days by default) is cut to that. It is at
// least 1ms.
func UniqueFor(key string, period time.Duration) Option {
	return func(r *Request) {
		unique(key, period)(r)
		if period < time.Millisecond {
			r.refuse(errShortPeriod, "UniqueFor")
		}
	}
}

func unique(key string, period time.Duration) Option {
	return func(r *Request) {
		r.UniqueKey, r.UniqueFor = key, period
		if key == "" {
			r.refuse(errNoKey, "Unique")
		}
	}
}

// Metadata adds entries to the job's metadata.
func Metadata(entries map[string]string) Option {
	return func(r *Request) {
		merged := make(map[string]string, len(r.Metadata)+len(entries))
		for k, v := range r.Metadata {
			merged[k] = v
		}
		for k, v := range entries {
			merged[k] = v
		}
		r.Metadata = merged
	}
}
