package release

import "math"

// Need returns how many replicas carry a share of the managed traffic:
// min(full, ceil(full * share/100 * headroom)), at least minReplicas (or full,
// if that is less) while the share is above 0.
func Need(full int, share float64, s Size) int {
	if share <= 0 {
		return 0
	}
	n := int(math.Ceil(float64(full)*share/100*s.Headroom - 1e-9))
	return min(full, max(n, s.MinReplicas))
}

// Capacity returns the greatest share, in percent, that a number of ready
// replicas may be given: 100 when all of full are ready, else
// 100 * ready / (full * headroom), rounded down.
func Capacity(full, ready int, s Size) float64 {
	switch {
	case ready >= full:
		return 100
	case ready <= 0:
		return 0
	}
	return math.Floor(100 * float64(ready) / (float64(full) * s.Headroom))
}
