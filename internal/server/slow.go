package server

import (
	"fmt"

	"github.com/shifter-dev/shifter/internal/api"
)

// slowPrefix is how the metrics of latency begin.
const slowPrefix = "latency:"

// slowRow is what both tracks served of answers slower than a bound.
type slowRow struct {
	Bound        string
	Proof        string // whether a pass needs its proof, and has it
	Cand, CandOf string
	Base, BaseOf string
}

// slowRows are the bounds of latency. A fail may rest on what was counted before
// the split was shown, so its rows are those of the whole step.
func slowRows(g api.Gate) []slowRow {
	var out []slowRow
	for _, p := range g.Parts {
		if p.Bound == nil {
			continue
		}
		c, b := p.Candidate, p.Baseline
		if n := len(p.Copies); n > 0 && g.Outcome == "fail" {
			c, b = p.Copies[n-1].Candidate, p.Copies[n-1].Baseline
		}
		row := slowRow{Bound: boundText(*p.Bound), Proof: "watched only"}
		switch {
		case p.Proves && g.Pass != nil && p.Pass >= g.Pass.LogAt:
			row.Proof = "proven not worse"
		case p.Proves && g.Pass != nil:
			row.Proof = "not proven yet"
		case g.Pass == nil:
			row.Proof = ""
		}
		row.Cand, row.CandOf = slowText(c)
		row.Base, row.BaseOf = slowText(b)
		out = append(out, row)
	}
	return out
}

func slowText(c api.Counts) (share, of string) {
	if c.Requests <= 0 {
		return dash, ""
	}
	return rate(c.Bad / c.Requests), fmt.Sprintf("%s of %s", count(c.Bad), count(c.Requests))
}

// boundText writes seconds as people say a time to wait: 250 ms, 2.5 s.
func boundText(seconds float64) string {
	if seconds < 1 {
		return fmt.Sprintf("%.4g ms", 1000*seconds)
	}
	return fmt.Sprintf("%.4g s", seconds)
}
