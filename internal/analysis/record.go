package analysis

import (
	"encoding/json"
	"fmt"
)

// gateVersion is the layout of a Gate in JSON. It rises when the grids or the
// meaning of a field change, since evidence of another layout cannot be used.
const gateVersion = 1

// record is a Gate as it is written.
type record struct {
	Version int `json:"v"`
	state
}

// MarshalJSON writes the state. Logarithms of nothing (-Inf) are null.
func (g Gate) MarshalJSON() ([]byte, error) {
	return json.Marshal(record{gateVersion, g.st})
}

// UnmarshalJSON reads what MarshalJSON wrote and refuses what no Gate could
// have come to.
func (g *Gate) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("reading a gate: %w", err)
	}
	if r.Version != gateVersion {
		return fmt.Errorf("reading a gate: version %d where this program knows %d", r.Version, gateVersion)
	}
	if err := r.check(); err != nil {
		return fmt.Errorf("reading a gate: %w", err)
	}
	r.Step = tidyStep(r.Step)
	for i := range r.Metrics {
		if r.Metrics[i].Metric == MetricErrors { // older records do not number them
			for j := range r.Metrics[i].Copies {
				r.Metrics[i].Copies[j].No = j
			}
		}
	}
	g.st = r.state
	return nil
}

// check looks for what would make later arithmetic senseless.
func (st state) check() error {
	counts := []Counts{
		st.Seen.Candidate, st.Seen.Baseline, st.Gated.Baseline, st.Harm.Alone,
	}
	for _, g := range st.Gaps {
		counts = append(counts, g.Before)
	}
	if st.Planned < 0 || st.Planned > maxCopies || st.Alarms < 0 || len(st.Gaps) > gapsMax {
		return fmt.Errorf("a number is out of range")
	}
	h := st.Harm
	if !sane(maxSum, st.Guard.Rate, h.Bad, h.Expected, h.Square, h.Served, h.Served2) {
		return fmt.Errorf("the harm or the guard's rate is out of range")
	}
	for i, e := range st.Metrics {
		if _, known := MetricOf(e.Metric); !known || i > 0 && st.Metrics[i-1].Metric >= e.Metric {
			return fmt.Errorf("metric %q is unknown or not in order", e.Metric)
		}
		more, err := e.check(st.Planned)
		if err != nil {
			return fmt.Errorf("metric %q: %w", e.Metric, err)
		}
		counts = append(counts, more...)
	}
	if _, ok := st.metric(MetricErrors); st.Planned > 0 && !ok {
		return fmt.Errorf("a step has started and the errors are not judged")
	}
	if err := st.checkUsage(); err != nil {
		return err
	}
	for _, c := range counts {
		if !sane(maxSum, c.Requests, c.Bad) || c.Bad > c.Requests*(1+1e-6) {
			return fmt.Errorf("counts of %g requests and %g bad ones cannot be", c.Requests, c.Bad)
		}
	}
	return nil
}

// check returns the counts to be checked too.
func (e evidence) check(planned int) ([]Counts, error) {
	if len(e.Copies) > planned {
		return nil, fmt.Errorf("%d copies of %d planned", len(e.Copies), planned)
	}
	if !sane(maxSum, e.Spread.Pearson, e.Spread.Terms) || e.Proof.Scrapes < 0 {
		return nil, fmt.Errorf("the dispersion or the scrapes are out of range")
	}
	for _, c := range e.Copies {
		if c.No < 0 || c.No >= planned || !within(c.Part, 0, 1) {
			return nil, fmt.Errorf("a copy of the fail product is numbered %d of %d and weighs %g", c.No, planned, c.Part)
		}
	}
	for i := 1; i < len(e.Strata); i++ {
		if e.Strata[i-1].Name >= e.Strata[i].Name {
			return nil, fmt.Errorf("the strata are not in order")
		}
	}
	pairs := []pair{e.Proof.Paired, e.Proof.All}
	for _, c := range e.Copies {
		pairs = append(pairs, c.Totals)
	}
	for _, s := range e.Strata {
		pairs = append(pairs, s.Sum, s.Wait)
	}
	var counts []Counts
	for _, p := range pairs {
		counts = append(counts, p.Candidate, p.Baseline)
	}
	return counts, nil
}

// maxSum bounds every sum in a record; windows of maxCount cannot reach it.
const maxSum = 1e60

func sane(limit float64, vs ...float64) bool {
	for _, v := range vs {
		if !within(v, 0, limit) {
			return false
		}
	}
	return true
}
