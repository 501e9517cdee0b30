package analysis

import "math"

// spread estimates the over-dispersion of a metric: errors that
// come in clusters (retries, one sick pod, one user) are fewer independent
// events than they look, so evidence is raised to the power 1/D.
//
// D is the running mean of Pearson terms of the split of bad events between the
// sides, with the running ratio of the two rates taken out. Pearson and Terms
// hold what came on top of the seed of ten terms of 1. Only windows that were
// already folded have entered when D is asked, so E^(1/D) keeps an expectation
// of at most 1 (Jensen).
//
// Weak spot: D is capped at 25, and until the look-back over the primary's own
// pods exists it has to see clusters before it can discount them.
type spread struct {
	Pearson float64 `json:"q,omitempty"`
	Terms   float64 `json:"k,omitempty"`
}

const (
	spreadSeed = 10 // terms of 1
	spreadMax  = 25
)

// d returns the dispersion D, between 1 and 25.
func (s spread) d() float64 {
	return math.Min(spreadMax, math.Max(1, (spreadSeed+s.Pearson)/(spreadSeed+s.Terms)))
}

// stratum is where one stratum of a metric has come to: the end of its newest
// window, everything it counted, and what waits to become a Pearson term.
type stratum struct {
	Name  string `json:"name,omitempty"`
	Until stamp  `json:"until"`
	Sum   pair   `json:"sum"`
	Wait  pair   `json:"wait"`
}

// feed lets a window enter the dispersion. Windows are pooled until the split
// has a variance of at least 1. Each stratum is compared with its own running
// ratio, since strata may differ in their split. Windows of one side only, as at
// 100, tell nothing about the split and would be pooled with another time.
func (s spread) feed(st stratum, w pair) (spread, stratum) {
	if !w.paired() {
		return s, st
	}
	st.Sum, st.Wait = st.Sum.add(w), st.Wait.add(w)
	n1, n0 := st.Wait.Candidate.Requests, st.Wait.Baseline.Requests
	rho := smoothRate(st.Sum.Candidate) / smoothRate(st.Sum.Baseline)
	th := n1 * rho / (n1*rho + n0)
	x1, bad := st.Wait.Candidate.Bad, st.Wait.Candidate.Bad+st.Wait.Baseline.Bad
	variance := bad * th * (1 - th)
	if !(variance >= 1) {
		return s, st
	}
	s.Pearson += (x1 - bad*th) * (x1 - bad*th) / variance
	s.Terms++
	st.Wait = pair{}
	return s, st
}

func smoothRate(c Counts) float64 { return (c.Bad + 0.5) / (c.Requests + 1) }
