package analysis

import (
	"math"
	"slices"
	"strings"
	"time"
)

// metricWeights are the weights of the e-values of the gating metrics in the
// merged one. They are normed over the metrics at work, so the
// errors alone have all of it; latency comes as another entry.
var metricWeights = map[string]float64{MetricErrors: 0.50}

// evidence is everything that the gate keeps about one metric.
type evidence struct {
	Metric string     `json:"metric"`
	Copies []failCopy `json:"copies,omitempty"`
	Proof  proof      `json:"proof"`
	Spread spread     `json:"spread"`
	Strata []stratum  `json:"strata,omitempty"` // by name
}

// clone returns a copy that shares nothing.
func (e evidence) clone() evidence {
	e.Copies = slices.Clone(e.Copies)
	e.Strata = slices.Clone(e.Strata)
	return e
}

// startCopy starts a copy of the fail product, if one of the planned number is
// left. Otherwise the last one goes on as the newcomer: its product is kept, as
// the guarantee needs, and its totals, which only materiality is read from,
// start again.
func (e evidence) startCopy(at stamp, planned int) evidence {
	if len(e.Copies) >= planned {
		last := &e.Copies[len(e.Copies)-1]
		last.At, last.Totals = at, pair{}
		return e
	}
	e.Copies = append(e.Copies, failCopy{At: at})
	return e
}

// find returns the place of a stratum and whether it is there.
func (e evidence) find(name string) (int, bool) {
	return slices.BinarySearchFunc(e.Strata, name, func(s stratum, n string) int { return strings.Compare(s.Name, n) })
}

// until is the end of the newest window of a stratum.
func (e evidence) until(name string) time.Time {
	if i, ok := e.find(name); ok {
		return e.Strata[i].Until.Time
	}
	return time.Time{}
}

// fold lets one window enter: the copies that had started when it ended, the
// proof when it lies wholly in its time, and last the dispersion, which must
// not know the window that it tempers.
func (e evidence) fold(w Window, s Settings, margin float64, inProof bool) evidence {
	i, ok := e.find(w.Stratum)
	if !ok {
		e.Strata = slices.Insert(e.Strata, i, stratum{Name: w.Stratum})
	}
	counts, eta := pair{w.Candidate, w.Baseline}, 1/e.Spread.d()
	for j, c := range e.Copies {
		if w.To.After(c.At.Time) {
			e.Copies[j] = c.fold(counts, eta, s)
		}
	}
	if inProof {
		e.Proof = e.Proof.fold(counts, w.To, eta, s, margin)
	}
	e.Spread, e.Strata[i] = e.Spread.feed(e.Strata[i], counts)
	e.Strata[i].Until = stampOf(w.To)
	return e
}

// merged is the weighted mean of the metrics' fail statistics, which is valid
// under any dependence between them, and the metric that weighs
// most in it.
func (st state) merged(s Settings) (failing, string) {
	sum := 0.0
	for _, e := range st.Metrics {
		sum += metricWeights[e.Metric]
	}
	var logs, raws []float64
	out, dominating, most := failing{most: math.Inf(-1)}, MetricErrors, math.Inf(-1)
	for _, e := range st.Metrics {
		f, w := e.failing(s, st.Planned), math.Log(metricWeights[e.Metric]/sum)
		logs, raws = append(logs, w+f.log), append(raws, w+f.raw)
		out.material = out.material || f.material
		if w+f.most > out.most {
			out.leading, out.most = f.leading, w+f.most
		}
		if w+f.raw > most {
			dominating, most = e.Metric, w+f.raw
		}
	}
	out.log, out.raw = logSum(logs), logSum(raws)
	return out, dominating
}
