package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Watch says what a step is judged by beside the errors. It is chosen before the
// step begins, from what the baseline showed then: whatever is named here was
// there, so that it is inconclusive when it vanishes, and what is not named is
// not asked for.
type Watch struct {
	// Bounds are the latency bounds in seconds, rising; Prove are those among
	// them that a pass needs a proof at, one for each percentile. See [Bounds].
	Bounds []float64 `json:"bounds,omitempty"`
	Prove  []float64 `json:"prove,omitempty"`
	// Usage names the gauges: cpu, memory.
	Usage []string `json:"usage,omitempty"`
	// Advisory shows the gauges and lets them decide nothing, as where an arm has
	// fewer than three pods ([AdvisoryUsage]).
	Advisory bool `json:"advisory,omitempty"`
}

// AdvisoryUsage says whether gauges should only be shown, with so many pods on
// the two sides.
func AdvisoryUsage(candidate, baseline int) bool { return min(candidate, baseline) < leastPods }

// boundsMax is how many bounds a step watches at most.
const boundsMax = 6

// Percentiles are those whose bounds a pass must prove: 50, 95 and 99.
func Percentiles() []float64 { return []float64{50, 95, 99} }

// Bucket is one bucket of a histogram of latency: how many requests took at most
// Bound seconds. The last bound may be +Inf.
type Bucket struct {
	Bound float64
	Count float64 // cumulative
}

// tidyBuckets puts buckets in order, drops what is no number, and forces the
// counts to rise, since the counters behind them are read one by one.
func tidyBuckets(buckets []Bucket) (out []Bucket, total float64) {
	for _, b := range buckets {
		if b.Bound > 0 && b.Count >= 0 && b.Count <= maxCount { // false for not a number
			out = append(out, b)
		}
	}
	slices.SortStableFunc(out, func(a, b Bucket) int { return cmp.Compare(a.Bound, b.Bound) })
	out = slices.CompactFunc(out, func(a, b Bucket) bool { return a.Bound == b.Bound })
	for i := range out {
		total = math.Max(total, out[i].Count)
		out[i].Count = total
	}
	return out, total
}

// Bounds chooses the latency bounds of a step from a look back at the baseline
// (ten minutes are usual) and the percentiles in percent. A pass must prove the
// smallest bound that covers each percentile. Those are watched, and beside them
// the largest bounds that 0.2 to 80 % of the requests are slower than, six in
// all: a bound that next to nothing or nearly all is slower than tells little.
//
// The choice is made before the step's data, so it costs no evidence. Buckets
// are those that both versions share. Where fewer than two bounds are useful,
// there is nothing to watch, and why says so.
func Bounds(lookBack []Bucket, percentiles ...float64) (w Watch, why string) {
	buckets, total := tidyBuckets(lookBack)
	if total <= 0 {
		return Watch{}, "no request with a latency was seen before the step"
	}
	slower := func(b Bucket) float64 { return 1 - b.Count/total }
	for _, q := range percentiles {
		i := slices.IndexFunc(buckets, func(b Bucket) bool { return bounded(b.Bound) && b.Count >= q/100*total-dust })
		if i >= 0 && !slices.Contains(w.Prove, buckets[i].Bound) {
			w.Prove = append(w.Prove, buckets[i].Bound)
		}
	}
	slices.Sort(w.Prove)
	if len(w.Prove) > boundsMax {
		w.Prove = w.Prove[len(w.Prove)-boundsMax:]
	}
	w.Bounds = slices.Clone(w.Prove)
	useful := 0
	for _, b := range slices.Backward(buckets) {
		if !bounded(b.Bound) || !within(slower(b), 0.002, 0.8) {
			continue
		}
		if useful++; len(w.Bounds) < boundsMax && !slices.Contains(w.Bounds, b.Bound) {
			w.Bounds = append(w.Bounds, b.Bound)
		}
	}
	slices.Sort(w.Bounds)
	switch {
	case len(w.Prove) == 0:
		return Watch{}, "no bound covers a percentile: the histogram's buckets end too early"
	case useful < 2:
		return Watch{}, fmt.Sprintf("only %d of the histogram's bounds tell slow requests from fast ones; two are needed, so give it finer buckets", useful)
	}
	return w, ""
}

// tidy makes a watch fit to be kept and written.
func (w Watch) tidy() Watch {
	clean := func(bs []float64) []float64 {
		var out []float64
		for _, b := range bs {
			if bounded(b) && len(out) < boundsMax {
				out = append(out, b)
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	w.Bounds, w.Prove = clean(w.Bounds), clean(w.Prove)
	w.Prove = slices.DeleteFunc(w.Prove, func(b float64) bool { return !slices.Contains(w.Bounds, b) })
	var usage []string
	for _, m := range []string{MetricCPU, MetricMemory} {
		if slices.Contains(w.Usage, m) {
			usage = append(usage, m)
		}
	}
	w.Usage = usage
	return w
}

// kinds are those that the watch gives a weight in a fail.
func (w Watch) kinds() []string {
	var out []string
	if len(w.Bounds) > 0 {
		out = append(out, MetricLatency)
	}
	if len(w.Usage) > 0 && !w.Advisory {
		out = append(out, saturation)
	}
	return out
}
