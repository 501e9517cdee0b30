package analysis

import (
	"fmt"
	"math"
	"time"
)

// Judge folds all windows of a stage through its steps and judges the last one:
// what a Gate says that saw them one by one. Steps come in the order of time.
func Judge(s Settings, st []Step, ws []Window, h Health, now time.Time) Verdict {
	var g Gate
	rest := inOrder(ws)
	for i, step := range st {
		g = g.StartStep(step)
		n := len(rest)
		if i+1 < len(st) {
			for n = 0; n < len(rest) && !rest[n].To.After(st[i+1].At); n++ {
			}
		}
		g, rest = g.Add(s, rest[:n]), rest[n:]
	}
	return g.Verdict(s, h, now)
}

// Verdict answers the gate's question for the present step. What decides, in
// this order: the safety limit; the fail statistic; the guard at 100; trouble
// with the telemetry; a split that is not the weight; the proofs of a pass;
// the end of the window. It may be asked in any phase and as often as one
// likes.
func (g Gate) Verdict(s Settings, h Health, now time.Time) Verdict {
	v := g.st.numbers(s, now)
	v.Outcome, v.Reason = g.st.answer(s, h, &v)
	if v.Outcome == Fail {
		v = v.onAllCounts()
	}
	return v
}

// onAllCounts shows what a fail rests on: all counts of the step.
func (v Verdict) onAllCounts() Verdict {
	v.Candidate, v.Baseline, v.Delta = v.SeenCandidate, v.SeenBaseline, nil
	if p := (pair{v.Candidate, v.Baseline}); p.paired() {
		d := newcombe(p)
		v.Delta = &d
	}
	return v
}

// numbers fills in everything that is measured.
func (st state) numbers(s Settings, now time.Time) Verdict {
	e := st.errors()
	v := Verdict{
		At: now, Data: st.Newest.Time,
		Step: st.Step.Index, Share: st.Step.Share,
		Candidate: e.Proof.Paired.Candidate, Baseline: e.Proof.Paired.Baseline,
		Margin:    s.Margin(st.Step.Share / 100),
		LogFailAt: clampLog(-math.Log(s.Alpha)),
		LogPass:   clampLog(st.logPass(s)), LogPassAt: clampLog(-math.Log(s.AlphaPass)),
		Dispersion: e.Spread.d(), Scrapes: e.Proof.Scrapes,
		Elapsed: max(now.Sub(st.Since.Time), 0),
		Harm:    st.Harm.interval(st.Gated.Baseline, e.Spread.d()), SafetyAt: s.MaxErrorRate,
		Parts: st.parts(s),
	}
	v.SeenCandidate, v.SeenBaseline = st.Seen.Candidate, st.Seen.Baseline
	v.Left = max(s.MaxWindow-v.Elapsed, 0)
	f, metric := st.merged(s)
	v.LogFail, v.LogFailRaw, v.Material, v.Metric = clampLog(f.log), clampLog(f.raw), f.material, metric
	if !st.Step.control() {
		v.Candidate, v.Baseline = e.Proof.All.Candidate, e.Proof.All.Baseline
		v.LogPass, v.LogPassAt, v.Margin = 0, 0, 0
		v.LogGuard, v.GuardRate = clampLog(logMean(st.Guard.Logs[:])), st.Guard.Rate
		if !st.Guard.Fixed {
			v.GuardRate = rateAgainst(st.Gated.Baseline, s)
		}
	}
	if p := (pair{v.Candidate, v.Baseline}); p.paired() {
		d := newcombe(p)
		v.Delta = &d
	}
	for _, r := range st.Remarks {
		v.Notes = append(v.Notes, r.text())
	}
	return v
}

// answer decides, and notes what a person should know about it.
func (st state) answer(s Settings, h Health, v *Verdict) (Outcome, Reason) {
	note := func(text string) { v.Notes = append(v.Notes, text) }
	if st.Planned == 0 {
		note("no step has been started")
		v.Elapsed, v.Left = 0, s.MaxWindow
		return Inconclusive, WarmingUp
	}
	if why := st.unsafe(s, h); why != "" {
		note(why)
		return Fail, SafetyLimit
	}
	if f, _ := st.merged(s); f.material && within(s.Alpha, minAlpha, maxAlpha) && v.LogFail >= v.LogFailAt {
		if kindOf(f.of) == MetricErrors || kindOf(f.of) == MetricLatency {
			note(regressionNote(f.of, f.leading))
		} else {
			note(st.saturationNote(f.of))
		}
		return Fail, Regression
	}
	if !st.Guard.Rang.IsZero() {
		note(guardNote(st.Guard.Rate))
		if st.Alarms > 1 {
			return Fail, GuardAlarmAgain
		}
		return Inconclusive, GuardAlarm
	}
	if reason, why := st.sight(s, h, v.At); reason != "" {
		note(why)
		if reason == TelemetryGap && v.Left <= 0 {
			return Inconclusive, WindowExhausted
		}
		return Inconclusive, reason
	}
	if p := st.errors().Proof.All; mismatch(p, st.Step.Share/100) {
		note(mismatchNote(p, st.Step.Share))
		if v.Left <= 0 {
			return Inconclusive, WindowExhausted
		}
		return Inconclusive, TrafficMismatch
	}
	reason, why := st.missing(s, h, v)
	switch {
	case reason == "" && st.Step.control():
		return Pass, Certified
	case reason == "":
		return Pass, SoakClean
	}
	note(why)
	if v.Left <= 0 {
		return Inconclusive, WindowExhausted
	}
	return Inconclusive, reason
}

// missing says what a pass still lacks; empty when nothing is.
func (st state) missing(s Settings, h Health, v *Verdict) (Reason, string) {
	if bad := s.Validate(); len(bad) > 0 {
		return NotCertified, fmt.Sprintf("nothing can pass with these settings: %v", bad[0])
	}
	if v.Scrapes < s.MinScrapes {
		return WarmingUp, fmt.Sprintf("%d of %d scrapes past the warm-up", v.Scrapes, s.MinScrapes)
	}
	if !st.Step.control() {
		return st.missingAtFull(s, h, v)
	}
	reason, why := st.missingProof(s, v.LogPassAt)
	switch {
	case reason != "":
		return reason, why
	case v.Elapsed < s.Soak:
		return Soaking, fmt.Sprintf("%s of %s soaked", v.Elapsed.Round(time.Second), s.Soak)
	}
	return "", ""
}

// missingProof asks every metric that a pass rests on for its requests and its
// proof. All of them must hold, so none needs a correction for their number.
func (st state) missingProof(s Settings, bound float64) (Reason, string) {
	proving := st.proving(s)
	for _, e := range proving {
		switch p := e.Proof.Paired; {
		case p.Candidate.Requests < s.MinRequests:
			return InsufficientRequests, fmt.Sprintf("%s of %s requests on the candidate%s", number(p.Candidate.Requests), number(s.MinRequests), of(e.Metric))
		case p.Baseline.Requests < s.MinBaselineRequests:
			return InsufficientBaseline, fmt.Sprintf("%s of %s requests on the baseline%s", number(p.Baseline.Requests), number(s.MinBaselineRequests), of(e.Metric))
		}
	}
	for _, e := range proving {
		if m := s.margins(kindOf(e.Metric)); !(clampLog(e.Proof.log(m)) >= bound) {
			return NotCertified, "it is not proven yet that the candidate is within the margins" + of(e.Metric)
		}
	}
	switch {
	case s.RequireLatency && (len(st.Step.Watch.Prove) == 0 || !s.judges(MetricLatency)):
		return NotCertified, "latency is required, and no bound of it could be watched"
	case s.RequireSaturation && len(st.Step.Watch.Usage) == 0:
		return NotCertified, "saturation is required, and neither CPU nor memory could be watched"
	}
	if why := st.unproven(s); why != "" {
		return NotCertified, why
	}
	return "", ""
}

// of says which metric a note is about, where it is not the errors.
func of(metric string) string {
	if m, _ := MetricOf(metric); m.Kind == MetricLatency {
		return fmt.Sprintf(", in requests slower than %s", bound(m.Bound))
	}
	return ""
}

// proving are the metrics whose proof a pass of the step needs, the errors
// first.
func (st state) proving(s Settings) []evidence {
	out := []evidence{st.errors()}
	if !s.judges(MetricLatency) {
		return out
	}
	for _, b := range st.Step.Watch.Prove {
		if i, ok := st.metric(Latency(b).String()); ok {
			out = append(out, st.Metrics[i])
		}
	}
	return out
}

// logPass is the weakest of the proofs that a pass needs.
func (st state) logPass(s Settings) float64 {
	weakest := math.Inf(1)
	for _, e := range st.proving(s) {
		weakest = math.Min(weakest, e.Proof.log(s.margins(kindOf(e.Metric))))
	}
	return weakest
}

// missingAtFull is missing at 100, where there is no proof: the soak must pass
// with fresh data throughout, and a longer gap starts it again.
func (st state) missingAtFull(s Settings, h Health, v *Verdict) (Reason, string) {
	since, served := st.soak(s.grace(h.Scrape))
	soaked := v.At.Sub(since)
	switch {
	case v.GuardRate <= 0:
		return InsufficientBaseline, "no step of this stage had a baseline, so the guard has no rate to hold the candidate to; only the safety limit acts, and nothing can pass"
	case soaked < s.Soak && since.After(st.Since.Time):
		return Soaking, fmt.Sprintf("%s of %s soaked; a gap in the data started the soak again", max(soaked, 0).Round(time.Second), s.Soak)
	case soaked < s.Soak:
		return Soaking, fmt.Sprintf("%s of %s soaked", max(soaked, 0).Round(time.Second), s.Soak)
	case served.Requests < s.MinRequests:
		return InsufficientRequests, fmt.Sprintf("%s of %s requests on the candidate since the soak began", number(served.Requests), number(s.MinRequests))
	}
	return "", ""
}

func guardNote(rate float64) string {
	return fmt.Sprintf("at 100 %% the candidate's errors rose beyond %s, the most that its last baseline and the margins explain", percent(rate))
}
