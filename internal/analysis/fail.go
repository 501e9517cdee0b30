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
}

// fold multiplies a window in, tempered by eta = 1/D.
func (c failCopy) fold(w pair, eta float64, s Settings) failCopy {
	null := line{ratio: 1, delta: s.ToleranceGuarantee * s.MaxErrorRateDelta}
	for i, kappa := range failGrid {
		c.Logs[i] += eta * logFactor(kappa, w, null)
	}
	if w.paired() {
		c.Totals = c.Totals.add(w)
	}
	return c
}

// copyWeight is the weight of the i-th of n copies: 0.4 for the first, the
// other 0.6 shared by the later ones; a single copy has all. They are set when
// the stage begins, as a mean of e-values needs.
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
func material(p pair, s Settings) bool {
	if !p.paired() || !(s.hasDelta() || s.hasRatio()) {
		return false
	}
	n1, x1 := p.Candidate.Requests, p.Candidate.Bad
	n0, x0 := p.Baseline.Requests, p.Baseline.Bad
	beyondDelta := x1/n1-x0/n0 > s.MaxErrorRateDelta+slack
	beyondRatio := x1*n0 > s.MaxErrorRateRatio*x0*n1*(1+slack)
	switch {
	case !s.hasRatio():
		return beyondDelta
	case !s.hasDelta():
		return beyondRatio
	case s.Mode == ModeEither:
		return beyondDelta || beyondRatio
	default:
		return beyondDelta && beyondRatio
	}
}

// failing is what the copies of one metric come to: the logarithms of
// M = sum of w_j * material_j * mean_kappa(product) + weights of copies that
// have not started, and of the same with the margins ignored.
type failing struct {
	log, raw float64
	material bool     // whether any copy is
	leading  failCopy // the material copy that weighs most
	most     float64  // the logarithm of its part
}

// failing evaluates the copies. Leaving out immaterial copies only lowers M, so
// its guarantee stands: P(M ever >= 1/alpha) <= alpha if the candidate is no
// worse (Ville).
func (e evidence) failing(s Settings, planned int) failing {
	f := failing{most: math.Inf(-1)}
	var counted, all []float64
	for i, c := range e.Copies {
		v := math.Log(copyWeight(i, planned)) + logMean(c.Logs[:])
		all = append(all, v)
		if !material(c.Totals, s) {
			continue
		}
		counted, f.material = append(counted, v), true
		if v > f.most {
			f.leading, f.most = c, v
		}
	}
	for i := len(e.Copies); i < planned; i++ {
		w := math.Log(copyWeight(i, planned))
		counted, all = append(counted, w), append(all, w)
	}
	f.log, f.raw = logSum(counted), logSum(all)
	return f
}

// regressionNote says in people's numbers what the evidence is about.
func regressionNote(c failCopy) string {
	p := c.Totals
	r1, _ := p.Candidate.Rate()
	r0, _ := p.Baseline.Rate()
	return fmt.Sprintf("since %s the candidate failed %s of %s requests (%s), the baseline %s of %s (%s)", c.At.Format(time.TimeOnly),
		number(p.Candidate.Bad), number(p.Candidate.Requests), percent(r1),
		number(p.Baseline.Bad), number(p.Baseline.Requests), percent(r0))
}
