package analysis

import (
	"fmt"
	"math"
)

// mismatch says whether the candidate's share of the requests is not the share
// it was given: materially, |share-w| > 0.2w + 0.01, and with an e-value above
// 10,000,
//
//	e = B(100w+n1, 100(1-w)+n0) / B(100w, 100(1-w)) / (w^n1 (1-w)^n0)
//
// the beta-binomial mixture against the weight. It catches lost telemetry: a
// side whose errors never reach the counters looks healthy. At 100 any request
// to the baseline speaks against the weight, so only the size decides.
func mismatch(p pair, w float64) bool {
	n1, n0 := p.Candidate.Requests, p.Baseline.Requests
	if n1+n0 <= 0 || w <= 0 || math.Abs(n1/(n1+n0)-w) <= 0.2*w+0.01 {
		return false
	}
	return w >= 1 || logSplit(n1, n0, w) > math.Log(1e4)
}

// logSplit is ln e of the split; the prior weighs as much as 100 requests.
func logSplit(n1, n0, w float64) float64 {
	const prior = 100
	a, b := prior*w, prior*(1-w)
	return logBeta(a+n1, b+n0) - logBeta(a, b) - n1*math.Log(w) - n0*math.Log1p(-w)
}

func logBeta(a, b float64) float64 {
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	return la + lb - lab
}

func mismatchNote(p pair, share float64) string {
	n1, n0 := p.Candidate.Requests, p.Baseline.Requests
	return fmt.Sprintf("the candidate got %s of %s requests, %s, and its share is %s %%: counts of one side may be missing",
		number(n1), number(n1+n0), percent(n1/(n1+n0)), number(share))
}
