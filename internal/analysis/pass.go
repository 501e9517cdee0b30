package analysis

import (
	"math"
	"slices"
	"time"
)

// proof is the pass proof of one step: products for the two lines that the
// candidate may be bounded by, and the counts that the minima are asked of. Only
// windows past the warm-up enter.
type proof struct {
	Delta passLogs `json:"delta"` // null p1 >= p0 + margin
	Ratio passLogs `json:"ratio"` // null p1 >= ratio*p0
	// Paired is over windows in which both sides served, All over every one.
	Paired pair `json:"paired"`
	All    pair `json:"all"`
	// Scrapes counts different ends of windows, Last is the newest of them.
	Scrapes int   `json:"scrapes,omitempty"`
	Last    stamp `json:"last,omitzero"`
}

// fold multiplies a window in, tempered by eta = 1/D.
func (p proof) fold(w pair, end time.Time, eta float64, m margins, delta float64) proof {
	for i, kappa := range passGrid {
		if m.hasDelta() {
			p.Delta[i] += eta * logFactor(kappa, w, line{ratio: 1, delta: delta})
		}
		if m.hasRatio() {
			p.Ratio[i] += eta * logFactor(kappa, w, line{ratio: m.ratio})
		}
	}
	p.All = p.All.add(w)
	if w.paired() {
		p.Paired = p.Paired.add(w)
	}
	if end.After(p.Last.Time) {
		p.Scrapes++
		p.Last = stamp{end}
	}
	return p
}

// log is the logarithm of M_pass: the mean over both lines when the candidate
// need only be bounded by either, since a fail needs both margins exceeded; the
// smaller of the two in mode either, where a fail needs only one. A margin that is not set leaves the other
// alone. While there is no baseline at all, only the first line can say
// anything; no pass is possible then, since minBaselineRequests is not met.
func (p proof) log(m margins) float64 {
	var lines []float64
	if m.hasDelta() {
		lines = append(lines, logMean(p.Delta[:]))
	}
	if m.hasRatio() && (p.Paired.Baseline.Requests > 0 || !m.hasDelta()) {
		lines = append(lines, logMean(p.Ratio[:]))
	}
	switch {
	case len(lines) == 0:
		return math.Inf(-1)
	case m.mode == ModeEither:
		return slices.Min(lines)
	default:
		return logMean(lines)
	}
}
