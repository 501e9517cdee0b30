package analysis

import (
	"math"
	"time"
)

// Expectation is the expected course of one step when the candidate equals the
// baseline: what a plan says before anything moves.
type Expectation struct {
	// Requests is how many requests of the candidate the proof and the minima
	// take; 0 when no number of them is enough.
	Requests float64 `json:"requests"`
	// Time is how long the step takes at the present traffic, the soak
	// included, the time for the first scrapes left out. It is cut at 30 days.
	Time time.Duration `json:"time"`
	// Certifiable says that Time fits into maxWindow.
	Certifiable bool `json:"certifiable"`
	// Margin is the smallest maxErrorRateDelta with which the step could be
	// certified within maxWindow, all else as it is: 0 when the ratio alone
	// certifies it, 1 when no margin helps.
	Margin float64 `json:"margin"`
}

// longest is where an expected time is cut.
const longest = 30 * 24 * time.Hour

// Expect foretells a step at the given share (percent) under rps requests per
// second of managed traffic, of which badRate are bad on both sides, by the
// rule
//
//	n = ln(20 * 5 grid points * 2 lines) / best expected log-growth per request
//
// where 20 is 1/alphaPass. It is a rule of thumb: half of all harmless steps
// are quicker.
func Expect(s Settings, share, rps, badRate float64) Expectation {
	w := share / 100
	if !(w > 0) || !(rps > 0) || !within(badRate, 0, 1) {
		return Expectation{Time: longest, Margin: 1}
	}
	n := s.expectedRequests(w, badRate)
	e := Expectation{Requests: n, Time: s.expectedTime(n, w, rps)}
	if math.IsInf(n, 1) {
		e.Requests = 0
	}
	e.Certifiable = e.Time <= s.MaxWindow
	e.Margin = s.smallestMargin(w, rps, badRate)
	return e
}

// ExpectSlow foretells the same of latency: slow is the share of requests that
// are slower than a bound which a pass must prove.
func ExpectSlow(s Settings, share, rps, slow float64) Expectation {
	s.MaxErrorRateDelta, s.MaxErrorRateRatio, s.MaxErrorRate = s.MaxSlowShareDelta, s.MaxSlowShareRatio, widestSlow
	return Expect(s, share, rps, slow)
}

// expectedRequests is n of the candidate, the minima included.
func (s Settings) expectedRequests(w, badRate float64) float64 {
	if w >= 1 {
		return s.MinRequests
	}
	h := w / (1 - w)
	n := math.Max(s.MinRequests, s.MinBaselineRequests*h)
	var growths []float64
	if s.hasDelta() {
		growths = append(growths, bestGrowth(h, badRate, line{ratio: 1, delta: s.Margin(w)}))
	}
	if s.hasRatio() {
		growths = append(growths, bestGrowth(h, badRate, line{ratio: s.MaxErrorRateRatio}))
	}
	growth, lines := 0.0, float64(len(growths))
	for i, g := range growths {
		switch {
		case i == 0:
			growth = g
		case s.Mode == ModeEither:
			growth, lines = math.Min(growth, g), 1 // both must be proven
		default:
			growth = math.Max(growth, g)
		}
	}
	if growth <= 1e-12 {
		return math.Inf(1)
	}
	return math.Max(n, math.Log(float64(len(passGrid))*lines/s.AlphaPass)/growth)
}

// bestGrowth is the largest expected logarithm of the window factor per request
// of the candidate, over all kappa below 1, when both sides have the same rate.
// The grid of the proof comes close to it.
func bestGrowth(h, rate float64, null line) float64 {
	const steps = 200
	best := 0.0
	for i := range steps {
		w := pair{Counts{1, rate}, Counts{1 / h, rate / h}}
		best = math.Max(best, logFactor(float64(i)/steps, w, null))
	}
	return best
}

func (s Settings) expectedTime(n, w, rps float64) time.Duration {
	seconds := n / (rps * w)
	if !(seconds < longest.Seconds()) {
		return longest
	}
	return max(time.Duration(seconds*float64(time.Second)), s.Soak)
}

// smallestMargin halves the way between a margin that is too small and one that
// is enough.
func (s Settings) smallestMargin(w, rps, badRate float64) float64 {
	enough := func(delta float64) bool {
		s := s
		s.MaxErrorRateDelta = delta
		return s.expectedTime(s.expectedRequests(w, badRate), w, rps) <= s.MaxWindow
	}
	low, high := 0.0, 1.0
	switch {
	case s.hasRatio() && s.Mode != ModeEither && enough(1e-12):
		return 0
	case !enough(high):
		return 1
	}
	for range 40 {
		if mid := (low + high) / 2; enough(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
