package analysis

import "math"

// harm gathers what is needed to say how many bad requests the candidate caused
// beyond what the baseline would have had, over the whole stage.
//
// Each window is compared with its own baseline, so the base rate may move and
// the split may change: the expectation of one window is c*x0 with c = n1/n0.
type harm struct {
	Bad      float64 `json:"bad,omitempty"`    // sum of x1 where there was a baseline
	Expected float64 `json:"exp,omitempty"`    // sum of c*x0
	Square   float64 `json:"square,omitempty"` // sum of c^2*x0, its Poisson variance
	// Served and Served2 are sums of c*n0 and c^2*n0: how heavy one baseline
	// request weighs, for the time in which none of them was bad.
	Served  float64 `json:"served,omitempty"`
	Served2 float64 `json:"served2,omitempty"`
	// Alone is what the candidate served without a baseline beside it.
	Alone Counts `json:"alone"`
}

func (h harm) fold(w pair) harm {
	n1, n0 := w.Candidate.Requests, w.Baseline.Requests
	switch {
	case n1 <= 0:
	case n0 <= 0:
		h.Alone = h.Alone.Add(w.Candidate)
	default:
		c := n1 / n0
		h.Bad += w.Candidate.Bad
		h.Expected += c * w.Baseline.Bad
		h.Square += c * c * w.Baseline.Bad
		h.Served += n1
		h.Served2 += c * n1
	}
	return h
}

// interval estimates the excess of bad requests,
//
//	sum over windows of x1 - n1*p0,  p0 = x0/n0 of the same window
//
// with a 95 % interval for one look. Windows without a baseline are measured by
// the rate of the last step that had one; where there is none they are left out.
//
// The interval joins the limits of the two sums by the MOVER method (Zou and
// Donner, Statistics in Medicine 27, 2008): bad requests of the candidate as a
// Poisson count with score limits, and the expectation as a weighted sum of
// Poisson counts, taken as one count of steps of the size square/expected (the
// scaled Poisson of Fay and Feuer, Statistics in Medicine 16, 1997). Widths
// grow by the square root of the dispersion.
func (h harm) interval(last Counts, dispersion float64) Interval {
	bad, exp, square := h.Bad, h.Expected, h.Square
	served, served2 := h.Served, h.Served2
	if n1 := h.Alone.Requests; n1 > 0 && last.Requests > 0 {
		c := n1 / last.Requests
		bad += h.Alone.Bad
		exp += c * last.Bad
		square += c * c * last.Bad
		served += n1
		served2 += c * n1
	}
	if served <= 0 {
		return Interval{}
	}
	size := served2 / served // of one step of the expectation
	if exp > 0 {
		size = square / exp
	}
	z := z95 * math.Sqrt(dispersion)
	low1, high1 := poissonLimits(bad, z)
	low0, high0 := poissonLimits(exp/size, z)
	mid := bad - exp
	return Interval{
		Low:  mid - math.Hypot(bad-low1, size*high0-exp),
		Mid:  mid,
		High: mid + math.Hypot(high1-bad, exp-size*low0),
	}
}

// poissonLimits are the score limits of a Poisson mean of which x were counted:
// the m with (x-m)^2 = z^2 m.
func poissonLimits(x, z float64) (low, high float64) {
	mid, half := x+z*z/2, z*math.Sqrt(x+z*z/4)
	return mid - half, mid + half
}
