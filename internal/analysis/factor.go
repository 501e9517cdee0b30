package analysis

import (
	"encoding/json"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

// The grids of the fail and the pass side. A kappa above 1 bets that the candidate is
// worse than the null line, one below 1 that it is better.
var (
	failGrid = [...]float64{1.25, 1.5, 2, 3, 5, 10, 30}
	passGrid = [...]float64{0, 0.25, 0.5, 0.75, 0.9}
)

// line is a null hypothesis about the rates of candidate and baseline,
// p1 = ratio*p0 + delta. Failing tests "at most", passing "at least".
type line struct{ ratio, delta float64 }

// pair is what both sides served in one window, or a sum of such.
type pair struct {
	Candidate Counts `json:"c"`
	Baseline  Counts `json:"b"`
}

func (p pair) add(o pair) pair {
	return pair{p.Candidate.Add(o.Candidate), p.Baseline.Add(o.Baseline)}
}

// paired says whether both sides served something, so that they compare.
func (p pair) paired() bool { return p.Candidate.Requests > 0 && p.Baseline.Requests > 0 }

// logFactor is the logarithm of the window factor,
//
//	E = a^x1 * b^x0 * exp(-(a-1) n1 delta)
//	h = ratio*n1/n0,  a = kappa (1+h)/(1+kappa h),  b = (1+h)/(1+kappa h)
//
// whose expectation is at most 1 on the null line, for any base rate and any
// n: E[a^x1] <= exp((a-1) n1 p1) and E[b^x0] <= exp((b-1) n0 p0) for independent
// Bernoulli events, and (b-1) n0 = -ratio (a-1) n1. Hence products over windows
// and strata are supermartingales.
//
// Without candidate requests it says nothing. Without baseline requests it says
// nothing either, save on the pass side with a delta, where the candidate alone
// can be shown to lie below it (h = 0).
func logFactor(kappa float64, w pair, null line) float64 {
	n1, n0 := w.Candidate.Requests, w.Baseline.Requests
	if n1 <= 0 {
		return 0
	}
	h := 0.0
	switch {
	case n0 > 0:
		h = null.ratio * n1 / n0
	case kappa > 1 || null.delta <= 0:
		return 0
	}
	lb := math.Log1p(h) - math.Log1p(kappa*h)
	f := -(kappa - 1) / (1 + kappa*h) * n1 * null.delta // -(a-1) n1 delta
	if x1 := w.Candidate.Bad; x1 > 0 {                  // 0^0 is 1
		f += x1 * (math.Log(kappa) + lb)
	}
	return f + w.Baseline.Bad*lb
}

// logMean is the logarithm of the mean of exp(logs).
func logMean(logs []float64) float64 {
	return logSum(logs) - math.Log(float64(len(logs)))
}

// logSum is the logarithm of the sum of exp(logs); of none it is -Inf.
func logSum(logs []float64) float64 {
	if len(logs) == 0 {
		return math.Inf(-1)
	}
	return floats.LogSumExp(logs)
}

// logLimit bounds the logarithms in a Verdict, since JSON holds no infinity.
const logLimit = 1e6

// clampLog makes a logarithm fit for JSON. Not a number becomes the lower
// limit: it is evidence of nothing.
func clampLog(v float64) float64 {
	switch {
	case math.IsNaN(v) || v < -logLimit:
		return -logLimit
	case v > logLimit:
		return logLimit
	}
	return v
}

// failLogs and passLogs are products of window factors as logarithms, one for
// each kappa of the grid. In JSON, -Inf is null and the length must fit.
type (
	failLogs [len(failGrid)]float64
	passLogs [len(passGrid)]float64
)

// MarshalJSON writes one number for each kappa.
func (l failLogs) MarshalJSON() ([]byte, error) { return marshalLogs(l[:]) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (l *failLogs) UnmarshalJSON(b []byte) error { return unmarshalLogs(b, l[:]) }

// MarshalJSON writes one number for each kappa.
func (l passLogs) MarshalJSON() ([]byte, error) { return marshalLogs(l[:]) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (l *passLogs) UnmarshalJSON(b []byte) error { return unmarshalLogs(b, l[:]) }

func marshalLogs(logs []float64) ([]byte, error) {
	out := make([]*float64, len(logs))
	for i := range logs {
		if !math.IsInf(logs[i], -1) {
			out[i] = &logs[i]
		}
	}
	return json.Marshal(out)
}

func unmarshalLogs(b []byte, logs []float64) error {
	var in []*float64
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	if len(in) != len(logs) {
		return fmt.Errorf("%d logarithms where the grid has %d", len(in), len(logs))
	}
	for i, v := range in {
		switch {
		case v == nil:
			logs[i] = math.Inf(-1)
		case math.Abs(*v) > maxLog:
			return fmt.Errorf("a logarithm of %g is out of range", *v)
		default:
			logs[i] = *v
		}
	}
	return nil
}

// maxLog is far beyond any logarithm that counts can lead to.
const maxLog = 1e60
