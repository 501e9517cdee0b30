package engine

import (
	"math/rand/v2"
	"time"
)

// The bounds of the wait after a failure.
const (
	minBackoff = 250 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// backoff is how long to wait after so many failures in a row (1 or more):
// longer each time, and never the same for many at once.
func backoff(failures int) time.Duration {
	d := 2 * minBackoff
	for range failures - 1 {
		if d *= 2; d >= maxBackoff {
			d = maxBackoff
			break
		}
	}
	return d/2 + rand.N(d/2)
}
