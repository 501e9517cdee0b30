package analysis

import (
	"math"
	"slices"
)

// Fixed are the numbers that a judgement of recorded windows takes as given: the
// margin of the step, which a plan derives from its share, and the dispersion,
// which a gate estimates.
type Fixed struct {
	StepMargin float64 // 0 leaves the line out
	Dispersion float64
}

// JudgeRecorded judges recorded windows of errors as they are: one copy of the
// fail product, no clock, no warm-up, no least number of scrapes and no safety
// limit. Of the windows only the counts matter; of the settings both alphas, the
// margins, the mode, the minima and the guarantee.
func JudgeRecorded(s Settings, f Fixed, ws []Window) Verdict {
	m := s.margins(MetricErrors)
	side := m
	side.delta = f.StepMargin
	eta := 1 / math.Min(spreadMax, math.Max(1, f.Dispersion))
	var c failCopy
	var p proof
	var all pair
	for _, w := range ws {
		w, why := clean(w)
		if why == notNumbers {
			continue
		}
		counts := pair{w.Candidate, w.Baseline}
		c = c.fold(failFactors(counts, m.null()), counts, eta)
		p = p.fold(counts, w.To, eta, side, f.StepMargin)
		all = all.add(counts)
	}
	v := Verdict{
		Metric: MetricErrors, Candidate: p.Paired.Candidate, Baseline: p.Paired.Baseline,
		SeenCandidate: all.Candidate, SeenBaseline: all.Baseline,
		Margin: f.StepMargin, Dispersion: 1 / eta, Material: material(c.Totals, m), Scrapes: len(ws),
		LogFailRaw: clampLog(logMean(c.Logs[:])), LogFailAt: clampLog(-math.Log(s.Alpha)),
		LogPass: clampLog(p.log(side)), LogPassAt: clampLog(-math.Log(s.AlphaPass)),
	}
	if v.LogFail = -logLimit; v.Material {
		v.LogFail = v.LogFailRaw
	}
	if p.Paired.paired() {
		d := newcombe(p.Paired)
		v.Delta = &d
	}
	s.MaxErrorRate = 1
	v.Outcome, v.Reason = v.byNumbers(s)
	return v
}

// Again comes to a verdict's outcome and reason once more, from its numbers
// alone. Where the reason rests on more than they say (the age of the data, the
// soak, a second alarm), it is believed as far as the numbers allow it: they must
// still carry a pass, and nothing that they say is a fail is anything else.
func (v Verdict) Again(s Settings) (Outcome, Reason) {
	if len(v.Parts) > 0 {
		v.LogFail = v.mergedAgain()
	}
	outcome, reason := v.byNumbers(s)
	told := []Reason{
		GuardAlarm, WarmingUp, Soaking, WindowExhausted, TelemetryGap, TelemetryUnavailable,
	}
	switch {
	case outcome == Fail:
		return outcome, reason
	case v.Reason == GuardAlarmAgain && v.GuardRate > 0:
		return Fail, GuardAlarmAgain
	case slices.Contains(told, v.Reason), v.LogPassAt <= 0 && v.Reason == InsufficientRequests: // of the soak alone
		return Inconclusive, v.Reason
	case mismatch(pair{v.Candidate, v.Baseline}, v.Share/100):
		return Inconclusive, TrafficMismatch
	}
	return outcome, reason
}

// byNumbers decides by the limits, the evidence and the minima.
func (v Verdict) byNumbers(s Settings) (Outcome, Reason) {
	control := v.LogPassAt > 0
	switch {
	case overLimit(v.SeenCandidate, s):
		return Fail, SafetyLimit
	case v.Material && v.LogFailAt > 0 && v.LogFail >= v.LogFailAt:
		return Fail, Regression
	case !control && v.GuardRate <= 0:
		return Inconclusive, InsufficientBaseline
	case v.Candidate.Requests < s.MinRequests:
		return Inconclusive, InsufficientRequests
	case !control:
		return Pass, SoakClean
	case v.Baseline.Requests < s.MinBaselineRequests:
		return Inconclusive, InsufficientBaseline
	case !(v.LogPass >= v.LogPassAt):
		return Inconclusive, NotCertified
	}
	return Pass, Certified
}

// mergedAgain is the merged e-value of a fail from its parts.
func (v Verdict) mergedAgain() float64 {
	var logs []float64
	for _, p := range v.Parts {
		if p.Weight <= 0 {
			continue
		}
		w := math.Log(p.Weight)
		if p.Usage != nil {
			logs = append(logs, w+p.LogFail)
		}
		for _, c := range p.Copies {
			if c.Material {
				logs = append(logs, w+math.Log(c.Weight)+c.Log)
			}
		}
		if p.Rest > 0 {
			logs = append(logs, w+math.Log(p.Rest))
		}
	}
	return clampLog(logSum(logs))
}
