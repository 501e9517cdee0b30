package analysis

import (
	"math"
	"slices"
	"strings"
	"time"
)

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

// startCopies starts a copy of the fail product for the errors and for every
// bound that the step watches, if one of the planned number is left. Otherwise
// the last ones go on as the newcomers: their products are kept, as the
// guarantee needs, and their totals, which only materiality is read from, start
// again.
func (st state) startCopies(at stamp) state {
	no := len(st.errors().Copies)
	for i := range st.Metrics {
		e := &st.Metrics[i]
		if no >= st.Planned {
			for j := range e.Copies {
				if c := &e.Copies[j]; c.No == st.Planned-1 {
					c.At, c.Totals, c.Closed = at, pair{}, false
				}
			}
			continue
		}
		switch watched := slices.Contains(st.Step.Watch.Bounds, boundOf(e.Metric)); {
		case e.Metric == MetricErrors:
			e.Copies = append(e.Copies, failCopy{At: at, No: no})
		case watched && st.weighed(MetricLatency):
			e.Copies = append(e.Copies, failCopy{At: at, No: no, Part: 1 / float64(len(st.Step.Watch.Bounds))})
		}
	}
	return st
}

// boundOf is the bound of a latency metric, else 0.
func boundOf(metric string) float64 {
	m, _ := MetricOf(metric)
	return m.Bound
}

// withMetrics adds evidence for the bounds that the step watches, and seeds the
// dispersion of metrics that have none yet.
func (st state) withMetrics(seeds []Seed) state {
	for _, b := range st.Step.Watch.Bounds {
		name := Latency(b).String()
		if i, ok := st.metric(name); !ok {
			st.Metrics = slices.Insert(st.Metrics, i, evidence{Metric: name})
		}
	}
	for _, seed := range seeds {
		if i, ok := st.metric(seed.Metric); ok && st.Metrics[i].Spread == (spread{}) {
			st.Metrics[i].Spread = seed.spread()
		}
	}
	return st
}

// metric returns the place of a metric and whether it is there.
func (st state) metric(name string) (int, bool) {
	return slices.BinarySearchFunc(st.Metrics, name, func(e evidence, n string) int { return strings.Compare(e.Metric, n) })
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

// newest is the end of the newest window of any stratum.
func (e evidence) newest() time.Time {
	var newest time.Time
	for _, s := range e.Strata {
		if s.Until.After(newest) {
			newest = s.Until.Time
		}
	}
	return newest
}

// fold lets one window enter: the copies that had started when it ended, the
// proof when it lies wholly in its time, and last the dispersion, which must
// not know the window that it tempers.
func (e evidence) fold(w Window, m margins, delta float64, inProof bool) evidence {
	i, ok := e.find(w.Stratum)
	if !ok {
		e.Strata = slices.Insert(e.Strata, i, stratum{Name: w.Stratum})
	}
	counts, eta := pair{w.Candidate, w.Baseline}, 1/e.Spread.d()
	factors := failFactors(counts, m.null())
	for j, c := range e.Copies {
		if !c.Closed && w.To.After(c.At.Time) {
			e.Copies[j] = c.fold(factors, counts, eta)
		}
	}
	if inProof {
		e.Proof = e.Proof.fold(counts, w.To, eta, m, delta)
	}
	e.Spread, e.Strata[i] = e.Spread.feed(e.Strata[i], counts)
	e.Strata[i].Until = stampOf(w.To)
	return e
}

// weighed says whether a kind has a weight in the release's merged e-value.
// That is set when the release begins: a metric that comes later must be proven
// for a pass, and has no say in a fail.
func (st state) weighed(kind string) bool {
	return kind == MetricErrors || slices.Contains(st.Weighed, kind)
}

// kinds are the kinds at work in a fail, with their weights, which add to 1.
func (st state) kinds(s Settings) (kinds []string, weights []float64) {
	sum := 0.0
	for _, k := range []string{MetricErrors, MetricLatency, saturation} {
		asked := s.judges(k)
		if k == saturation {
			asked = s.judges(MetricCPU) || s.judges(MetricMemory)
		}
		if asked && st.weighed(k) {
			kinds, weights = append(kinds, k), append(weights, metricWeights[k])
			sum += metricWeights[k]
		}
	}
	for i := range weights {
		weights[i] /= sum
	}
	return kinds, weights
}

// merged is the weighted mean of the metrics' fail statistics, which is valid
// under any dependence between them and the only rule that cannot be bettered
// (Wang, arXiv 2409.19888), and the metric that weighs most in it.
func (st state) merged(s Settings) (failing, string) {
	var logs, raws []float64
	out, dominating, most := failing{most: math.Inf(-1)}, MetricErrors, math.Inf(-1)
	kinds, weights := st.kinds(s)
	for i, k := range kinds {
		f, w := st.saturating(s), math.Log(weights[i])
		if k != saturation {
			f = st.failing(s, k)
		}
		logs, raws = append(logs, w+f.log), append(raws, w+f.raw)
		out.material = out.material || f.material
		if f.material && w+f.most > out.most {
			out.leading, out.of, out.most = f.leading, f.of, w+f.most
		}
		if f.loudest != "" && w+f.raw > most {
			dominating, most = f.loudest, w+f.raw
		}
	}
	if out.material {
		dominating = out.of
	}
	out.log, out.raw = logSum(logs), logSum(raws)
	return out, dominating
}
