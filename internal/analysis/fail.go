package analysis

import (
	"fmt"
	"math"
	"time"
)

// failCopy is one copy of the fail product. One starts with every step, so that
// a regression which appears only at 50 % is not drowned by the good data of
// 10 %. Its totals are over its own paired windows.
type failCopy struct {
	At     stamp    `json:"at"`
	Logs   failLogs `json:"logs"`
	Totals pair     `json:"totals"`
	// No is the copy's number in the release. Of latency every bound that the
	// step watches has one of the same number, and Part is what it weighs among
	// them; zero is all.
	No   int     `json:"no,omitempty"`
	Part float64 `json:"part,omitempty"`
	// Closed: the stage that it ran in is over. Its evidence stays as it was.
	Closed bool `json:"closed,omitempty"`
}

// fold multiplies in the logarithms of a window's factors, tempered by
// eta = 1/D.
func (c failCopy) fold(logs failLogs, w pair, eta float64) failCopy {
	for i, v := range logs {
		c.Logs[i] += eta * v
	}
	if w.paired() {
		c.Totals = c.Totals.add(w)
	}
	return c
}

// failFactors are the logarithms of a window's factors on the fail side.
func failFactors(w pair, null line) failLogs {
	var out failLogs
	for i, kappa := range failGrid {
		out[i] = logFactor(kappa, w, null)
	}
	return out
}

// weight is the copy's weight among n planned ones of its kind.
func (c failCopy) weight(n int) float64 {
	if c.Part > 0 {
		return copyWeight(c.No, n) * c.Part
	}
	return copyWeight(c.No, n)
}

// copyWeight is the weight of the i-th of n copies: 0.4 for the first, the
// other 0.6 shared by the later ones; a single copy has all. They are set when
// the release begins, as a mean of e-values needs.
func copyWeight(i, n int) float64 {
	switch {
	case n <= 1:
		return 1
	case i == 0:
		return 0.4
	default:
		return 0.6 / float64(n-1)
	}
}

// slack keeps rounding from deciding about a difference that equals a margin.
const slack = 1e-12

// material says whether the measured difference is beyond the margins. A margin
// that is not set is not asked for.
func material(p pair, m margins) bool {
	if !p.paired() || !m.set() {
		return false
	}
	n1, x1 := p.Candidate.Requests, p.Candidate.Bad
	n0, x0 := p.Baseline.Requests, p.Baseline.Bad
	beyondDelta := x1/n1-x0/n0 > m.delta+slack
	beyondRatio := x1*n0 > m.ratio*x0*n1*(1+slack)
	switch {
	case !m.hasRatio():
		return beyondDelta
	case !m.hasDelta():
		return beyondRatio
	case m.mode == ModeEither:
		return beyondDelta || beyondRatio
	default:
		return beyondDelta && beyondRatio
	}
}

// failing is what the copies of one kind of metric come to: the logarithms of
// M = sum of w_j * material_j * mean_kappa(product) + weights of copies that
// have not started, and of the same with the margins ignored.
type failing struct {
	log, raw float64
	material bool     // whether any copy is
	leading  failCopy // the material copy that weighs most
	of       string   // its metric
	most     float64  // the logarithm of its part
	loudest  string   // the metric of the copy that weighs most, material or not
}

// failing evaluates the copies of a kind. Leaving out immaterial copies only
// lowers M, so its guarantee stands: P(M ever >= 1/alpha) <= alpha if the
// candidate is no worse (Ville). Of latency M is a mean over the bounds too,
// and a mean of e-values is one under any dependence between them (Vovk and
// Wang, Annals of Statistics 49, 2021).
func (st state) failing(s Settings, kind string) failing {
	f := failing{most: math.Inf(-1)}
	m, started, loud := s.margins(kind), make([]bool, st.Planned), math.Inf(-1)
	var counted, all []float64
	for _, e := range st.Metrics {
		if kindOf(e.Metric) != kind {
			continue
		}
		for _, c := range e.Copies {
			v := math.Log(c.weight(st.Planned)) + logMean(c.Logs[:])
			all, started[c.No] = append(all, v), true
			if f.loudest == "" || v > loud {
				f.loudest, loud = e.Metric, v
			}
			if !material(c.Totals, m) {
				continue
			}
			counted, f.material = append(counted, v), true
			if v > f.most {
				f.leading, f.of, f.most = c, e.Metric, v
			}
		}
	}
	for i, is := range started {
		if w := math.Log(copyWeight(i, st.Planned)); !is {
			counted, all = append(counted, w), append(all, w)
		}
	}
	f.log, f.raw = logSum(counted), logSum(all)
	return f
}

// regressionNote says in people's numbers what the evidence is about.
func regressionNote(metric string, c failCopy) string {
	p := c.Totals
	r1, _ := p.Candidate.Rate()
	r0, _ := p.Baseline.Rate()
	since := c.At.Format(time.TimeOnly)
	if m, _ := MetricOf(metric); m.Kind == MetricLatency {
		return fmt.Sprintf("since %s %s of %s requests of the candidate (%s) took longer than %s, of the baseline %s of %s (%s)", since,
			number(p.Candidate.Bad), number(p.Candidate.Requests), percent(r1), bound(m.Bound),
			number(p.Baseline.Bad), number(p.Baseline.Requests), percent(r0))
	}
	return fmt.Sprintf("since %s the candidate failed %s of %s requests (%s), the baseline %s of %s (%s)", since,
		number(p.Candidate.Bad), number(p.Candidate.Requests), percent(r1),
		number(p.Baseline.Bad), number(p.Baseline.Requests), percent(r0))
}
