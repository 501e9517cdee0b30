package sandbox

import "github.com/shifter-dev/shifter/internal/release"

// Begin is how a world is when it starts.
type Begin int

// The two beginnings.
const (
	// BothNew: both tracks are on v2, and the canary has the traffic. The primary's
	// history holds v1. All that is left to do is to shift.
	BothNew Begin = iota
	// CanaryNew: the primary is on v1 and has the traffic; the canary is on v2 and
	// has no pods. All stages are to do.
	CanaryNew
)

// split is the weights of the route at the start.
func (b Begin) split() release.Pair {
	if b == CanaryNew {
		return release.Pair{Primary: 100, Canary: 0}
	}
	return release.Pair{Primary: 0, Canary: 100}
}

// replicas is the size of a track at the start, out of the configured one.
func (b Begin) replicas(t release.Track, n int) int {
	if b == CanaryNew && t == release.Canary {
		return 0
	}
	return n
}

// pods is how many pods there are at the start.
func (c Config) pods() int {
	return c.Begin.replicas(release.Primary, c.Replicas) + c.Begin.replicas(release.Canary, c.Replicas)
}

// deployment has its templates, but no pods.
func (b Begin) deployment(t release.Track) *deployment {
	d := &deployment{track: t, name: Deployment(t), uid: newUID(), template: newTemplate(t, "v1")}
	if t == release.Primary {
		d.live()
		if b == CanaryNew {
			return d
		}
	}
	d.template = newTemplate(t, "v2")
	d.live()
	return d
}
