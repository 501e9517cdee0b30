package telemetry

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/shifter-dev/shifter/internal/release"
)

// series is one time series of a family, with only the samples that are
// numbers, oldest first.
type series struct {
	track release.Track
	// unit is who reports it: a proxy, or a pod.
	unit string
	// target is the scrape target it came from. A unit can have several, one
	// after the other: a pod that is made again under its name.
	target string
	bad    bool // ends only: requests that failed
	labels model.Metric

	t        []int64
	v        []float64
	unusable int
	// odd: its newest sample is no number. A counter is repaid by the next one;
	// a gauge has no value then.
	odd bool
}

func (s series) first() int64 { return s.t[0] }
func (s series) last() int64  { return s.t[len(s.t)-1] }

// mostRequests is more than any counter or gauge of requests can hold, and the
// end of whole numbers in a float64. Sums of such values stay finite.
const mostRequests = 1 << 53

func usable(v float64) bool { return v >= 0 && v <= mostRequests } // false for NaN

// parse checks that an answer holds what was asked and takes it apart. The
// second result says what is wrong with it.
func (l *look) parse(f family, m model.Matrix) (family, string) {
	for _, stream := range m {
		if stream != nil && l.crossed(f, stream.Metric) {
			continue
		}
		s, problem := l.parseSeries(f, stream)
		if problem != "" {
			return f, problem
		}
		if len(s.t) > 0 || f.gauge() {
			f.series = append(f.series, s)
		} else {
			f.hollow += s.unusable
		}
	}
	return f, l.refuseCopies(&f)
}

func (l *look) parseSeries(f family, stream *model.SampleStream) (series, string) {
	if stream == nil {
		return series{}, "the answer holds an empty series"
	}
	s := series{labels: stream.Metric, target: target(stream.Metric)}
	if name, ok := stream.Metric[model.MetricNameLabel]; ok && string(name) != f.metric {
		return s, "the answer holds series that were not asked for"
	}
	if problem := l.place(f, &s); problem != "" {
		return s, problem
	}
	if len(stream.Histograms) > 0 {
		return s, "the answer holds histograms where counters were asked for"
	}
	for _, p := range stream.Values {
		t, v := int64(p.Timestamp), float64(p.Value)
		if t < l.oldest { // not asked for
			continue
		}
		s.odd = !usable(v)
		switch {
		case t > l.now+1000:
			return s, "the answer holds samples from after the time that was asked for"
		case len(s.t) > 0 && t <= s.last():
			return s, "the answer holds samples out of order"
		case s.odd:
			s.unusable++
		default:
			s.t, s.v = append(s.t, t), append(s.v, v)
		}
	}
	s.odd = s.odd || len(s.t) == 0
	return s, ""
}

// place finds the track and the unit of a series, and whether it counts errors.
func (l *look) place(f family, s *series) string {
	if l.p.byPod(f.role) {
		id := string(s.labels["namespace"] + "/" + s.labels["pod"])
		track, ok := l.pods[id]
		if !ok {
			return "the answer holds series that were not asked for"
		}
		s.track, s.unit = track, id
	} else {
		switch string(s.labels[model.LabelName(l.p.backend)]) {
		case l.backends[release.Primary]:
			s.track = release.Primary
		case l.backends[release.Canary]:
			s.track = release.Canary
		default:
			return "the answer holds series that were not asked for"
		}
		if s.unit = l.proxyOf(s.labels); s.unit == "" {
			return fmt.Sprintf("a series names no proxy: it has no label %s", strings.Join(l.p.proxy, " or "))
		}
	}
	if f.role == roleEnds {
		code := string(s.labels[model.LabelName(l.p.code)])
		if code == "" {
			return fmt.Sprintf("a series has no label %s, so its errors cannot be told", l.p.code)
		}
		s.bad = code[0] == '5'
	}
	return ""
}

// crossed reports whether a series is of a pod that the matchers take in only
// because the tracks are in two namespaces: named as a pod of the other.
func (l *look) crossed(f family, m model.Metric) bool {
	tracks := l.ask.Binding.Tracks
	if !l.p.byPod(f.role) || tracks[0].Namespace == tracks[1].Namespace {
		return false
	}
	_, ours := l.pods[string(m["namespace"]+"/"+m["pod"])]
	return !ours
}

// proxyOf names the proxy. Pods of several namespaces may have one name.
func (l *look) proxyOf(m model.Metric) string {
	for _, name := range l.p.proxy {
		v := string(m[model.LabelName(name)])
		if v == "" {
			continue
		}
		if ns := m["namespace"]; ns != "" && name != "instance" && name != "proxy" {
			return string(ns) + "/" + v
		}
		return v
	}
	return ""
}

// copyLabels tell copies of one series apart, and nothing else: who scraped it,
// by which configuration, over which port. An instance is such a label but for
// its host.
var copyLabels = []model.LabelName{
	"job", "instance", "endpoint", "port", "container", "service", "metrics_path", "scheme",
	"prometheus", "prometheus_replica", "replica", "__replica__", "receive_replica", "ha_replica",
}

// target names the scrape target by custom: job and instance are always there
// in Prometheus, the others tell replicas and relabelled targets apart.
func target(m model.Metric) string {
	var b strings.Builder
	for _, name := range append([]model.LabelName{"proxy", "namespace", "pod"}, copyLabels...) {
		b.WriteString(string(m[name]))
		b.WriteByte(0)
	}
	return b.String()
}

// original is the identity of a series without the labels of copies.
func original(m model.Metric) string {
	rest := m.Clone()
	for _, name := range copyLabels {
		delete(rest, name)
	}
	if host, _, err := net.SplitHostPort(string(m["instance"])); err == nil {
		rest["instance"] = model.LabelValue(host)
	} else if v := m["instance"]; v != "" {
		rest["instance"] = v
	}
	return rest.String()
}

// refuseCopies looks for series that report the same counter twice at a time:
// two Prometheus replicas, two scrape jobs, two ports. Counted twice they would
// square the evidence, so the answer is refused as long as they are there. Once
// one of the two has ended, only counts from before that are left out.
func (l *look) refuseCopies(f *family) string {
	groups := map[string][]series{}
	for _, s := range f.series {
		if len(s.t) == 0 {
			continue
		}
		k := original(s.labels)
		groups[k] = append(groups[k], s)
	}
	for _, k := range sortedKeys(groups) {
		g := groups[k]
		slices.SortStableFunc(g, func(a, b series) int { return cmp.Compare(a.first(), b.first()) })
		longest := g[0] // of those before, the one that lasts longest
		for _, next := range g[1:] {
			if until := min(longest.last(), next.last()); next.first() <= until {
				if until >= l.fresh {
					return fmt.Sprintf("%s is counted twice: two series differ only in %s", next.unit, differing(longest.labels, next.labels))
				}
				f.copiedUntil = max(f.copiedUntil, until)
			}
			if next.last() > longest.last() {
				longest = next
			}
		}
	}
	return ""
}

func differing(a, b model.Metric) string {
	var out []string
	for _, name := range copyLabels {
		if a[name] != b[name] {
			out = append(out, fmt.Sprintf("%s (%q, %q)", name, a[name], b[name]))
		}
	}
	if out == nil {
		return "nothing"
	}
	return strings.Join(out, ", ")
}
