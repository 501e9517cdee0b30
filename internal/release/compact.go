package release

import (
	"slices"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// keptWhenCompact is how much of the story is left.
const keptWhenCompact = HistoryMax / 3

// Compact leaves out of a record what no decision needs: what each metric added
// to the verdicts, and the older part of the story. It is for a record that the
// journal finds too large, and changes nothing of the one that it is given.
func Compact(r Release) Release {
	r.Steps = slices.Clone(r.Steps)
	for i := range r.Steps {
		r.Steps[i].Verdict = bare(r.Steps[i].Verdict)
	}
	r.Step.Verdict, r.Verdict = bare(r.Step.Verdict), bare(r.Verdict)
	r.History = slices.Clone(r.History[max(0, len(r.History)-keptWhenCompact):])
	return r
}

// bare is a verdict with its totals only.
func bare(v *analysis.Verdict) *analysis.Verdict {
	if v == nil {
		return nil
	}
	b := *v
	b.Parts, b.Notes = nil, nil
	return &b
}
