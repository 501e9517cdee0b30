package analysis

import (
	"cmp"
	"math"
	"slices"
)

// Seed is what a look back before a release told about the dispersion of one
// metric: the sum of Pearson terms and their number. It is small, so that it can
// be kept with the release.
type Seed struct {
	Metric  string  `json:"metric"`
	Pearson float64 `json:"q"`
	Terms   float64 `json:"k"`
}

// seedMax bounds the terms of a seed, so that what is seen later still counts.
const seedMax = 240

func (s Seed) spread() spread {
	if !within(s.Terms, 0, maxSum) || !within(s.Pearson, 0, maxSum) {
		return spread{}
	}
	if s.Terms > seedMax {
		s.Pearson, s.Terms = s.Pearson*seedMax/s.Terms, seedMax
	}
	return spread{Pearson: s.Pearson, Terms: s.Terms}
}

// LookBack estimates the dispersion of each metric from windows in which both
// sides were the baseline (an A/A test): its own pods split like the candidate's
// share ([SplitPods] makes such windows), or its own time ([SplitTime]) where
// counts do not tell pods apart. Half an hour is usual. Both sides being the
// same, whatever the split of bad events scatters beyond chance is clustering.
//
// Windows that cannot be used are left out. The order does not matter but
// within a stratum, where it is that of time.
func LookBack(ws []Window) []Seed {
	type place struct{ metric, stratum string }
	strata, spreads := map[place]stratum{}, map[string]spread{}
	for _, w := range inOrder(ws) {
		w, why := clean(w)
		if _, ok := MetricOf(w.Metric); !ok || why != "" {
			continue
		}
		at := place{w.Metric, w.Stratum}
		spreads[w.Metric], strata[at] = spreads[w.Metric].feed(strata[at], pair{w.Candidate, w.Baseline})
	}
	var out []Seed
	for metric, s := range spreads {
		out = append(out, Seed{metric, s.Pearson, s.Terms})
	}
	slices.SortFunc(out, func(a, b Seed) int { return cmp.Compare(a.Metric, b.Metric) })
	return out
}

// PodCounts is what one pod of the baseline served of one metric in a window.
type PodCounts struct {
	Pod    string
	Counts Counts
}

// SplitPods splits the baseline's pods into two arms, of which the first has
// about the share w of the requests (between 0 and 1): whole pods, taken in the
// order of a hash of their names, so that every window splits alike. With a
// single pod there is no split.
func SplitPods(pods []PodCounts, w float64) (candidate, baseline Counts, ok bool) {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b PodCounts) int {
		if ha, hb := hash(a.Pod), hash(b.Pod); ha != hb {
			return cmp.Compare(ha, hb)
		}
		return cmp.Compare(a.Pod, b.Pod)
	})
	n := int(math.Round(w * float64(len(pods))))
	if n = min(max(n, 1), len(pods)-1); n < 1 {
		return Counts{}, Counts{}, false
	}
	for i, p := range pods {
		if i < n {
			candidate = candidate.Add(p.Counts)
		} else {
			baseline = baseline.Add(p.Counts)
		}
	}
	return candidate, baseline, true
}

// hash is FNV-1a.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// SplitTime pairs every window of the baseline with the next one of its metric
// and stratum, as if they were two arms. It needs no pods, and sees bursts as
// well; but a base rate that jumps within a minute scatters too, so it may find
// too large a dispersion, which costs time and never a false fail.
func SplitTime(baseline []Window) []Window {
	type place struct{ metric, stratum string }
	waits := map[place]Window{}
	var out []Window
	for _, w := range inOrder(baseline) {
		at := place{w.Metric, w.Stratum}
		first, ok := waits[at]
		if !ok {
			waits[at] = w
			continue
		}
		delete(waits, at)
		out = append(out, Window{
			Metric: w.Metric, Stratum: w.Stratum, From: first.From, To: w.To, Candidate: first.Baseline, Baseline: w.Baseline,
		})
	}
	return out
}
