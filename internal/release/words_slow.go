package release

import (
	"fmt"
	"math"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// slowText says a fail on latency in people's numbers; empty when the verdict
// is about something else. The numbers are those of the copy that weighs most:
// what was counted since the step in which the answers became slow.
func slowText(v analysis.Verdict, r Release) string {
	m, _ := analysis.MetricOf(v.Metric)
	if m.Kind != analysis.MetricLatency {
		return ""
	}
	c, ok := heaviest(v)
	slow, known := c.Candidate.Rate()
	usual, both := c.Baseline.Rate()
	if !ok || !known || !both {
		return fmt.Sprintf("the answers of the %s are slow (slower than %s)", r.Incoming(), boundText(m.Bound))
	}
	text := fmt.Sprintf("slower than %s: %s of the %s's answers, %s of the %s's",
		boundText(m.Bound), shareText(slow), r.Incoming(), shareText(usual), r.Outgoing())
	if v.SeenCandidate.Bad == 0 {
		text += "; no request failed"
	}
	return text
}

// heaviest is the copy of the verdict's metric that decided.
func heaviest(v analysis.Verdict) (best analysis.CopyPart, ok bool) {
	most := math.Inf(-1)
	for _, p := range v.Parts {
		if p.Metric != v.Metric {
			continue
		}
		for _, c := range p.Copies {
			if w := math.Log(c.Weight) + c.Log; c.Material && w > most {
				best, ok, most = c, true, w
			}
		}
	}
	return best, ok
}

// lacking names the bounds of latency that are not proven yet, where the errors
// are.
func lacking(v analysis.Verdict) string {
	var slow []float64
	for _, p := range v.Parts {
		if !p.Proves || p.LogPass >= v.LogPassAt {
			continue
		}
		m, _ := analysis.MetricOf(p.Metric)
		if m.Kind != analysis.MetricLatency {
			return ""
		}
		slow = append(slow, m.Bound)
	}
	switch len(slow) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(" (of answers slower than %s)", boundText(slow[0]))
	}
	return fmt.Sprintf(" (of slow answers, at %d bounds)", len(slow))
}

// boundText writes a bound of latency: 250 ms, 2.5 s.
func boundText(seconds float64) string {
	if seconds < 1 {
		return fmt.Sprintf("%.4g ms", 1000*seconds)
	}
	return fmt.Sprintf("%.4g s", seconds)
}

// shareText writes a share of answers: 8.1 %, 0.42 %.
func shareText(share float64) string {
	if share > 0 && share < 0.01 {
		return fmt.Sprintf("%.2g %%", 100*share)
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}
