package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// maxCount bounds what one side can have served in one window; dust is what
// counts as nothing.
const (
	maxCount = 1e12
	dust     = 1e-9
)

// Why a window was left out or changed.
const (
	notNumbers = "counts that are not numbers, negative or beyond reason were left out"
	badTimes   = "windows that end before they begin were left out"
	overlap    = "windows that repeat counted time were left out"
	notJudged  = "windows of a metric that this gate does not judge were left out"
	tooMany    = "more bad requests than requests were counted: the candidate's were all taken as bad, a baseline's were left out"
)

// remark is a reason and the newest end of a window that it was met with, so
// that reading a window again changes nothing.
type remark struct {
	Why   string `json:"why"`
	Until stamp  `json:"until"`
}

func (r remark) text() string {
	if r.Until.IsZero() {
		return r.Why
	}
	return fmt.Sprintf("%s (the last one ended at %s)", r.Why, r.Until.Format(time.TimeOnly))
}

func withRemark(rs []remark, why string, end time.Time) []remark {
	for i := range rs {
		if rs[i].Why == why {
			if end.After(rs[i].Until.Time) {
				rs[i].Until = stampOf(end)
			}
			return rs
		}
	}
	return append(rs, remark{why, stampOf(end)})
}

// inOrder returns a copy of the windows by their ends, in a fixed order. Places
// are sorted rather than windows, which are large.
func inOrder(ws []Window) []Window {
	at := make([]int, len(ws))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(i, j int) int {
		a, b := &ws[i], &ws[j]
		return cmp.Or(a.To.Compare(b.To), a.From.Compare(b.From), cmp.Compare(a.Metric, b.Metric), cmp.Compare(a.Stratum, b.Stratum))
	})
	out := make([]Window, len(ws))
	for k, i := range at {
		out[k] = ws[i]
	}
	return out
}

// clean makes a window's counts usable, or says why they are not. A candidate
// with more bad requests than requests has them all bad, since leaving them out
// would hide an outage; such a baseline is left out, since a bad baseline would
// make the candidate look good.
func clean(w Window) (Window, string) {
	for _, v := range []float64{w.Candidate.Requests, w.Candidate.Bad, w.Baseline.Requests, w.Baseline.Bad} {
		if !(v >= 0 && v <= maxCount) { // false for not a number
			return w, notNumbers
		}
	}
	why := ""
	if tooManyBad(w.Candidate) {
		w.Candidate.Requests, why = w.Candidate.Bad, tooMany
	}
	if tooManyBad(w.Baseline) {
		w.Baseline, why = Counts{}, tooMany
	}
	w.Candidate, w.Baseline = w.Candidate.tidy(), w.Baseline.tidy()
	return w, why
}

// tooManyBad allows for the rounding of extrapolated counts.
func tooManyBad(c Counts) bool { return c.Bad > c.Requests*(1+1e-6) }

func (c Counts) tidy() Counts {
	if c.Requests < dust {
		return Counts{}
	}
	return Counts{c.Requests, min(c.Bad, c.Requests)}
}

// timely says whether a window's times are in order and can be written down.
func timely(w Window) bool {
	return w.To.After(w.From) && writable(w.From) && writable(w.To)
}

// repeats says whether a window lies in time that was already counted up to
// until: multiplying it in would count events twice. A quarter is allowed, for
// samples that are not taken on the dot.
func repeats(w Window, until time.Time) bool {
	return !until.IsZero() && until.Sub(w.From) > w.To.Sub(w.From)/4
}
