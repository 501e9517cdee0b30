package analysis

import (
	"math"
	"slices"
	"time"
)

// Gate is the judge's running state over one release: the fail process, which
// covers it all, and the pass proof and guard of the present step. It is a
// value: its methods return another Gate and never change the one they are
// called on, and no two share anything. It is small and survives JSON exactly,
// so it can be saved with the release after every look.
//
// In short: for each window and each kappa of a grid there is a factor with an expectation of at most 1 on the null
// line ([Window] counts in, see logFactor), products of such factors are
// supermartingales, and Ville's inequality bounds the chance that one ever
// reaches 1/alpha. So it may be looked at as often as one likes.
//
// Windows find their step by their times, not by when they come: a window that
// ends before a step began counts for the copies of the fail product that ran
// then, and not for the step's proof. Hence folding as data come and folding
// all at the end ([Judge]) come to the same state, as long as a stratum's
// windows come in the order of time. A weak spot: the guard at 100 does not hear
// of windows that come after its step was left, which happens only once it has
// rung or the stage is over.
type Gate struct{ st state }

// state is what a Gate keeps.
type state struct {
	Step    Step       `json:"step"`
	Planned int        `json:"planned"`           // copies, as said at the first step; zero before it
	Weighed []string   `json:"weighed,omitempty"` // kinds beside the errors with a weight in a fail
	Began   stamp      `json:"began"`             // the stage
	Since   stamp      `json:"since"`             // the proof of the present step
	Newest  stamp      `json:"newest,omitzero"`
	Seen    pair       `json:"seen"` // this step, warm-up included
	Gated   gated      `json:"gated"`
	Guard   guard      `json:"guard"`
	Alarms  int        `json:"alarms,omitempty"` // of the guard, over the stage
	Gaps    []gap      `json:"gaps,omitempty"`
	Harm    harm       `json:"harm"`
	Metrics []evidence `json:"metrics,omitempty"` // by name
	Usage   []usage    `json:"usage,omitempty"`   // by name
	Between bool       `json:"between,omitempty"` // a stage is over and the next has not begun
	Remarks []remark   `json:"remarks,omitempty"`
}

// gated is the baseline of the last step that had a control.
type gated struct {
	At       stamp  `json:"at,omitzero"`
	Baseline Counts `json:"baseline"`
}

func (st state) clone() state {
	st.Gaps = slices.Clone(st.Gaps)
	st.Remarks = slices.Clone(st.Remarks)
	st.Weighed = slices.Clone(st.Weighed)
	st.Usage = slices.Clone(st.Usage)
	st.Metrics = slices.Clone(st.Metrics)
	for i := range st.Metrics {
		st.Metrics[i] = st.Metrics[i].clone()
	}
	return st
}

// errors returns the evidence about errors, which the safety limit, the guard,
// the check of the split and the harm also go by.
func (st state) errors() evidence {
	for _, e := range st.Metrics {
		if e.Metric == MetricErrors {
			return e
		}
	}
	return evidence{}
}

// Started reports whether a step has been started.
func (g Gate) Started() bool { return g.st.Planned > 0 }

// Step returns the present step; it is zero before the first.
func (g Gate) Step() Step { return g.st.Step }

// Until returns the end of the newest window folded.
func (g Gate) Until() time.Time { return g.st.Newest.Time }

// Alarms returns how often the guard at 100 has rung in this stage.
func (g Gate) Alarms() int { return g.st.Alarms }

// StartStep begins the judgement of a step: its pass proof is fresh, and below
// 100 another copy of the fail product starts, as long as one of the planned
// number is left (later the last one goes on, measured anew). At 100 the guard
// starts, with the rate of the baseline in the last step below 100.
func (g Gate) StartStep(st Step) Gate {
	next := g.st.clone()
	seeds := st.Seeds
	st = tidyStep(st)
	at := stampOf(st.At)
	if next.Planned == 0 {
		next.Planned = max(st.Copies, 1)
		next.Weighed = st.Watch.kinds()
		next.Metrics = []evidence{{Metric: MetricErrors}}
	}
	if next.Began.IsZero() || next.Between {
		next.Began, next.Between = at, false
	}
	next.Step, next.Seen, next.Guard = st, pair{}, guard{}
	next = next.withMetrics(seeds).withUsage()
	if st.control() {
		next.Gated = gated{At: at}
		next = next.startCopies(at)
	}
	return Gate{next.restartProof(at)}
}

// NextStage ends a stage: another candidate will be judged, and alpha is spent
// once over the release. What the copies of the fail product came to stays in the
// merged e-value as it is, and the copies that are left are for the steps to
// come. What was measured of the two sides is forgotten, but not the dispersion.
func (g Gate) NextStage() Gate {
	next := g.st.clone()
	if next.Planned == 0 {
		return Gate{next}
	}
	next.Between, next.Alarms = true, 0
	next.Gated, next.Guard, next.Harm, next.Seen = gated{}, guard{}, harm{}, pair{}
	for i := range next.Metrics {
		e := &next.Metrics[i]
		for j := range e.Copies {
			e.Copies[j].Closed = true
		}
		for j := range e.Strata {
			e.Strata[j].Sum, e.Strata[j].Wait = pair{}, pair{}
		}
	}
	for i := range next.Usage {
		next.Usage[i].Wait = batch{}
	}
	return Gate{next.restartProof(next.Since)}
}

// RestartProof begins the pass proof of the present step again at the given
// time, with its soak and its minima, as after a restart of the process. The
// fail process goes on, and so do the guard's evidence and the safety limit's
// counts.
func (g Gate) RestartProof(at time.Time) Gate {
	next := g.st.clone()
	if next.Planned == 0 {
		return Gate{next}
	}
	if at.Before(next.Step.At) {
		at = next.Step.At
	}
	return Gate{next.restartProof(stampOf(at))}
}

func (st state) restartProof(at stamp) state {
	st.Since, st.Gaps = at, nil
	for i := range st.Metrics {
		st.Metrics[i].Proof = proof{}
	}
	for i := range st.Usage {
		st.Usage[i].Step, st.Usage[i].Wait = moments{}, batch{}
	}
	return st
}

// tidyStep makes a step fit to be kept and written.
func tidyStep(st Step) Step {
	st.Copies = min(max(st.Copies, 0), maxCopies)
	for _, v := range []*float64{&st.Share, &st.Prev} {
		if !within(*v, 0, fullShare) {
			*v = math.Min(math.Max(*v, 0), fullShare)
		}
		if math.IsNaN(*v) {
			*v = 0
		}
	}
	if !writable(st.At) {
		st.At = time.Time{}
	}
	st.At = stampOf(st.At).Time
	st.Watch, st.Seeds = st.Watch.tidy(), nil
	return st
}

// maxCopies bounds the copies of the fail product that one stage may plan.
const maxCopies = 100

// Add folds windows in, in the order of their ends. A window that ends at or
// before the last one of its metric and stratum was folded already and changes
// nothing, so windows may be read again. Windows that cannot be used (counts
// that are not numbers, times out of order, another metric) are left out and
// remarked in the verdict's notes.
//
// Of one stratum, windows must follow each other: one that covers time
// already counted is left out too, since its events would count twice.
func (g Gate) Add(s Settings, ws []Window) Gate {
	next := g.st.clone()
	if next.Planned == 0 {
		return Gate{next}
	}
	for _, w := range inOrder(ws) {
		next = next.fold(w, s)
	}
	return Gate{next}
}

// fold lets one window enter, or remarks why it cannot.
func (st state) fold(w Window, s Settings) state {
	if !timely(w) {
		st.Remarks = withRemark(st.Remarks, badTimes, time.Time{})
		return st
	}
	i, watched := st.metric(w.Metric)
	switch {
	case !w.To.After(st.Began.Time) || st.Between:
		return st
	case !watched:
		if kindOf(w.Metric) != MetricLatency { // a bound that no step watches is no news
			st.Remarks = withRemark(st.Remarks, notJudged, w.To)
		}
		return st
	case !w.To.After(st.Metrics[i].until(w.Stratum)):
		return st
	case repeats(w, st.Metrics[i].until(w.Stratum)):
		st.Remarks = withRemark(st.Remarks, overlap, w.To)
		return st
	}
	w, why := clean(w)
	if why != "" {
		st.Remarks = withRemark(st.Remarks, why, w.To)
	}
	if why == notNumbers {
		return st
	}
	late := !w.To.After(st.Step.At) // it belongs to an earlier step
	inProof := !late && !w.WarmUp && !w.From.Before(st.Since.Time)
	m := s.margins(kindOf(w.Metric))
	st.Metrics[i] = st.Metrics[i].fold(w, m, m.stepMargin(st.Step.Share/100, s.EqualHarm), inProof)
	if w.Metric == MetricErrors {
		st = st.follow(w, s, late)
	}
	return st
}

// follow keeps what is read from the errors besides the evidence itself.
func (st state) follow(w Window, s Settings, late bool) state {
	counts, control := pair{w.Candidate, w.Baseline}, st.Step.control()
	st.Harm = st.Harm.fold(counts)
	if w.To.After(st.Gated.At.Time) && (control || late && !st.Guard.Fixed) && !st.Gated.At.IsZero() {
		st.Gated.Baseline = st.Gated.Baseline.Add(w.Baseline)
	}
	if !late {
		st.Seen = st.Seen.add(counts)
	}
	if !late && !control {
		st = st.watch(w, s)
	}
	if w.To.After(st.Newest.Time) {
		st.Newest = stampOf(w.To)
	}
	return st
}

// watch is the guard's and the soak's part at 100.
func (st state) watch(w Window, s Settings) state {
	if !st.Guard.Fixed {
		st.Guard.Rate, st.Guard.Fixed = rateAgainst(st.Gated.Baseline, s), true
	}
	silent := st.Guard.Rang.IsZero()
	st.Guard = st.Guard.fold(w.Candidate, w.To)
	if silent && !st.Guard.Rang.IsZero() {
		st.Alarms++
	}
	last := st.Newest.Time
	if last.Before(st.Since.Time) {
		last = st.Since.Time
	}
	if long := w.To.Sub(last); long > s.TelemetryGrace {
		st.Gaps = withGap(st.Gaps, gap{End: stampOf(w.To), Long: long, Before: st.errors().Proof.All.Candidate})
	}
	return st
}
