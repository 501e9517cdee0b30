package analysis

import (
	"math"
)

// parts writes out what the merged numbers are made of.
func (st state) parts(s Settings) []Part {
	kinds, weights := st.kinds(s)
	weight := map[string]float64{}
	for i, k := range kinds {
		weight[k] = weights[i]
	}
	proves := map[string]bool{}
	if st.Step.control() {
		for _, e := range st.proving(s) {
			proves[e.Metric] = true
		}
	}
	var out []Part
	rested := map[string]bool{}
	for _, e := range st.Metrics {
		kind := kindOf(e.Metric)
		if !s.judges(kind) {
			continue
		}
		p := st.part(e, s)
		p.Weight, p.Proves = weight[kind], proves[e.Metric]
		if p.Weight > 0 && !rested[kind] {
			p.Rest, rested[kind] = st.rest(kind), true
		}
		out = append(out, p)
	}
	first := len(out)
	for _, k := range st.Usage {
		if s.judges(k.Metric) {
			out = append(out, st.usagePart(k, s))
		}
	}
	for i := first; i < len(out); i++ {
		out[i].Weight = weight[saturation] / float64(len(out)-first)
	}
	return out
}

// part is one metric of counts.
func (st state) part(e evidence, s Settings) Part {
	kind := kindOf(e.Metric)
	m := s.margins(kind)
	p := Part{
		Metric: e.Metric, Dispersion: e.Spread.d(), LogPass: clampLog(e.Proof.log(m)),
		Candidate: e.Proof.Paired.Candidate, Baseline: e.Proof.Paired.Baseline,
	}
	if st.Step.control() {
		p.Margin = m.stepMargin(st.Step.Share/100, s.EqualHarm)
	}
	var logs []float64
	for _, c := range e.Copies {
		part := CopyPart{
			Weight: c.weight(st.Planned), Log: clampLog(logMean(c.Logs[:])), Material: material(c.Totals, m),
			Candidate: c.Totals.Candidate, Baseline: c.Totals.Baseline,
		}
		if part.Material {
			logs = append(logs, math.Log(part.Weight)+part.Log)
		}
		p.Copies = append(p.Copies, part)
	}
	p.LogFail = clampLog(logSum(logs))
	return p
}

// rest is the weight of the copies of a kind that have not started.
func (st state) rest(kind string) float64 {
	started := make([]bool, st.Planned)
	for _, e := range st.Metrics {
		for _, c := range e.Copies {
			if kindOf(e.Metric) == kind {
				started[c.No] = true
			}
		}
	}
	sum := 0.0
	for i, is := range started {
		if !is {
			sum += copyWeight(i, st.Planned)
		}
	}
	return sum
}

// usagePart is one gauge.
func (st state) usagePart(k usage, s Settings) Part {
	limit := s.maxRatio(k.Metric)
	u := &UsagePart{
		Batches: k.All.N, Ratio: math.Exp(k.All.Mean), InStep: k.Step.N, Step: math.Exp(k.Step.Mean),
		Limit: limit, Advisory: st.Step.Watch.Advisory,
	}
	if k.All.N >= 2 {
		u.Spread = k.All.sd()
	}
	if high := math.Exp(k.Step.Mean + k.Step.radius(s.AlphaPass)); within(high, 0, usageMax) {
		u.High = high
	}
	v := math.Inf(-1)
	if k.All.N >= batchesMin {
		v = k.All.logEvidence(math.Log(limit))
	}
	return Part{Metric: k.Metric, LogFail: clampLog(v), Proves: st.Step.control() && !u.Advisory, Dispersion: 1, Usage: u}
}
