package analysis

import (
	"math"
	"strconv"
	"strings"
)

// Kinds of metrics. Errors and latency are counts of bad events, CPU and memory
// are gauges; the latter two together are what merges as saturation.
const (
	MetricLatency = "latency"
	MetricCPU     = "cpu"    // CPU-seconds per request
	MetricMemory  = "memory" // working set of the middle pod
)

// Metric is what a window counts, taken apart: errors, or requests that took
// longer than a bound. Its String is what a [Window] names it by.
type Metric struct {
	Kind  string
	Bound float64 // seconds, of latency only
}

// Latency is the metric of requests that took longer than a bound in seconds.
func Latency(bound float64) Metric { return Metric{MetricLatency, bound} }

// String writes errors, or latency:0.25 for requests above 250 ms.
func (m Metric) String() string {
	if m.Kind != MetricLatency {
		return m.Kind
	}
	return MetricLatency + ":" + strconv.FormatFloat(m.Bound, 'g', -1, 64)
}

// MetricOf reads what String wrote, and says whether the gate can judge it.
func MetricOf(name string) (Metric, bool) {
	kind, bound, of := strings.Cut(name, ":")
	switch {
	case !of:
		return Metric{Kind: kind}, kind == MetricErrors
	case kind != MetricLatency:
		return Metric{}, false
	}
	b, err := strconv.ParseFloat(bound, 64)
	m := Latency(b)
	return m, err == nil && bounded(b) && m.String() == name
}

// bounded says whether a bound is one that requests can be slower than.
func bounded(b float64) bool { return b > 0 && !math.IsInf(b, 1) }

// kindOf is the kind of a window's metric.
func kindOf(name string) string {
	kind, _, _ := strings.Cut(name, ":")
	return kind
}

// Saturation is the kind under which CPU and memory are merged.
const saturation = "saturation"

// metricWeights are the weights of the e-values of the metrics in the merged
// one. They are normed over the metrics at work, so that those which are not
// there hand over theirs, and the errors alone have all of it.
var metricWeights = map[string]float64{MetricErrors: 0.50, MetricLatency: 0.35, saturation: 0.15}

// margins is what a metric may differ by. A margin of zero is not set.
type margins struct {
	delta, ratio float64
	mode         Mode
	widest       float64 // equal harm does not widen delta beyond it
	guarantee    float64
}

func (m margins) hasDelta() bool { return m.delta > 0 }
func (m margins) hasRatio() bool { return m.ratio > 0 }
func (m margins) set() bool      { return m.hasDelta() || m.hasRatio() }

// null is the null line of the fail side: no worse, or no worse than the part of
// the margin that toleranceGuarantee names.
func (m margins) null() line { return line{ratio: 1, delta: m.guarantee * m.delta} }

// widestSlow bounds the margin of latency: a step may not certify that a
// quarter of all requests became slow.
const widestSlow = 0.25

// margins returns those of a kind.
func (s Settings) margins(kind string) margins {
	m := margins{s.MaxErrorRateDelta, s.MaxErrorRateRatio, s.Mode, math.Min(s.MaxErrorRate, 1), s.ToleranceGuarantee}
	if kind == MetricLatency {
		m.delta, m.ratio, m.widest = s.MaxSlowShareDelta, s.MaxSlowShareRatio, widestSlow
	}
	return m
}

// judges says whether the settings ask for a kind at all.
func (s Settings) judges(kind string) bool {
	switch kind {
	case MetricErrors:
		return true
	case MetricLatency:
		return s.margins(kind).set()
	}
	return s.maxRatio(kind) > 0
}

// maxRatio is the ratio of a gauge that is tolerated; 0 where it is not judged.
func (s Settings) maxRatio(metric string) float64 {
	switch metric {
	case MetricCPU:
		return s.MaxCPURatio
	case MetricMemory:
		return s.MaxMemoryRatio
	}
	return 0
}

// stepMargin is delta with equal harm: delta * max(1, 0.5/w) at the share w.
func (m margins) stepMargin(w float64, equalHarm bool) float64 {
	if !equalHarm || !(w > 0) {
		return m.delta
	}
	return math.Min(m.delta*math.Max(1, 0.5/w), math.Max(m.delta, m.widest))
}
