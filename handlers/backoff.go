package handlers

import (
	"math"
	"math/rand/v2"
	"time"
)

// The default backoff: 10 s after the first failed attempt, doubling up to an
// hour. 25 attempts last some 17 hours, an overnight outage.
const (
	backoffBase = 5 * time.Second
	backoffMax  = time.Hour
)

// DefaultBackoff is how long a job waits after its attempt-th run has failed:
// min(1 h, 5 s · 2^attempt), give or take a tenth, so that jobs which failed
// together do not come back together. attempt counts from 1; less is taken for 1.
func DefaultBackoff(attempt int) time.Duration { return Jitter(backoff(attempt)) }

func backoff(attempt int) time.Duration {
	// 5 s · 2^10 is above the hour already, and a larger shift would overflow.
	attempt = min(max(attempt, 1), 10)
	return min(backoffMax, backoffBase<<attempt)
}

// Jitter returns d give or take a tenth, and never less than 0.
func Jitter(d time.Duration) time.Duration {
	if d < 10 {
		return max(d, 0)
	}
	low, tenth := d-d/10, d/10
	return low + min(rand.N(2*tenth+1), math.MaxInt64-low)
}
