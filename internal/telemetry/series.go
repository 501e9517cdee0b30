package telemetry

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
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
	bad    bool    // ends only: requests that failed
	bound  float64 // durations only: seconds, +Inf for all
	labels model.Metric
	// original is what the labels are without those of copies; of durations,
	// without the bound too.
	original string

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

// sort hands the series of an answer to the families that asked for them, each
// by its name. Those of one family may come without.
func (l *look) sort(families []int, m model.Matrix) {
	if len(families) == 1 {
		f := &l.families[families[0]]
		*f, f.problem = l.parse(*f, m)
		return
	}
	by := map[string]model.Matrix{}
	for _, stream := range m {
		name := ""
		if stream != nil {
			name = string(stream.Metric[model.MetricNameLabel])
		}
		by[name] = append(by[name], stream)
	}
	for _, i := range families {
		f := &l.families[i]
		*f, f.problem = l.parse(*f, by[f.metric])
		delete(by, f.metric)
	}
	if len(by) > 0 {
		for _, i := range families {
			l.families[i].problem = notAsked
		}
	}
}

const notAsked = "the answer holds series that were not asked for"

// parse checks that an answer holds what was asked and takes it apart. The
// second result says what is wrong with it.
func (l *look) parse(f family, m model.Matrix) (family, string) {
	for _, stream := range m {
		if stream != nil && (l.crossed(f, stream.Metric) || f.skipBare && stream.Metric[model.LabelName(l.p.code)] == "") {
			continue
		}
		s, where, problem := l.parseSeries(f, stream)
		if problem != "" {
			return f, problem
		}
		switch {
		case len(s.t) == 0 && s.unusable == 0 && f.oldest > l.oldest && len(stream.Values) > 0:
			// Read further back than it counts, for the sake of others.
		case len(s.t) == 0 && !f.gauge():
			f.hollow += s.unusable
		case where == placedStray:
			f.stray = append(f.stray, s)
		default:
			f.series = append(f.series, s)
		}
	}
	return f, l.refuseCopies(&f)
}

func (l *look) parseSeries(f family, stream *model.SampleStream) (series, placed, string) {
	if stream == nil {
		return series{}, placedNowhere, "the answer holds an empty series"
	}
	s := series{labels: stream.Metric, target: l.target(stream.Metric)}
	if name, ok := stream.Metric[model.MetricNameLabel]; ok && string(name) != f.metric {
		return s, placedNowhere, notAsked
	}
	where, problem := l.place(f, &s)
	if problem == "" && f.role == roleSlow {
		problem = l.placeBound(&s)
	}
	if problem == "" && len(stream.Histograms) > 0 {
		problem = "the answer holds histograms where counters were asked for"
	}
	if problem == "" {
		problem = l.parseSamples(f, &s, stream.Values)
	}
	s.original = l.original(s.labels, f.role == roleSlow)
	return s, where, problem
}

func (l *look) parseSamples(f family, s *series, samples []model.SamplePair) string {
	for _, p := range samples {
		t, v := int64(p.Timestamp), float64(p.Value)
		if t < f.oldest { // not asked for
			continue
		}
		s.odd = !usable(v)
		switch {
		case t > l.now+1000:
			return "the answer holds samples from after the time that was asked for"
		case len(s.t) > 0 && t <= s.last():
			return "the answer holds samples out of order"
		case s.odd:
			s.unusable++
		default:
			s.t, s.v = append(s.t, t), append(s.v, v)
		}
	}
	s.odd = s.odd || len(s.t) == 0
	return ""
}

// place finds the track and the unit of a series, and whether it counts errors.
func (l *look) place(f family, s *series) (placed, string) {
	where := placedTrack
	if l.p.byPod(f.role) {
		id := string(s.labels["namespace"] + "/" + s.labels["pod"])
		track, ok := l.pods[id]
		if !ok {
			return placedNowhere, notAsked
		}
		s.track, s.unit = track, id
	} else {
		if s.track, where = l.naming(f.role).of(s.labels); where == placedNowhere {
			return where, notAsked
		}
		if s.unit = l.proxyOf(s.labels); s.unit == "" {
			return where, fmt.Sprintf("a series names no proxy: it has no label %s", strings.Join(l.p.proxy, " or "))
		}
	}
	if f.role == roleEnds {
		code := string(s.labels[model.LabelName(l.p.code)])
		if code == "" {
			return where, fmt.Sprintf("a series has no label %s, so its errors cannot be told", l.p.code)
		}
		s.bad = code[0] == '5'
		if l.p.bad != nil {
			s.bad = l.p.bad(code, s.labels)
		}
	}
	return where, ""
}

// crossed reports whether a series is of a pod that the matchers take in only
// because the tracks are in two namespaces: named as a pod of the other. The
// same holds of backends that several labels name.
func (l *look) crossed(f family, m model.Metric) bool {
	tracks := l.ask.Binding.Tracks
	if !l.p.byPod(f.role) {
		_, where := l.naming(f.role).of(m)
		return where == placedCrossed || where == placedStray && f.role != roleEnds
	}
	if tracks[0].Namespace == tracks[1].Namespace {
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
func (l *look) target(m model.Metric) string {
	var b strings.Builder
	for _, name := range append([]model.LabelName{"proxy", "namespace", "pod"}, l.copies...) {
		b.WriteString(string(m[name]))
		b.WriteByte(0)
	}
	return b.String()
}

// original is the identity of a series without the labels of copies, and
// without the bound of a bucket.
func (l *look) original(m model.Metric, bucket bool) string {
	rest := m.Clone()
	for _, name := range l.copies {
		delete(rest, name)
	}
	if bucket {
		delete(rest, model.BucketLabel)
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
		k := s.original
		if f.role == roleSlow {
			k += strconv.FormatFloat(s.bound, 'g', -1, 64)
		}
		groups[k] = append(groups[k], s)
	}
	for _, k := range sortedKeys(groups) {
		g := groups[k]
		slices.SortStableFunc(g, func(a, b series) int { return cmp.Compare(a.first(), b.first()) })
		longest := g[0] // of those before, the one that lasts longest
		for _, next := range g[1:] {
			if until := min(longest.last(), next.last()); next.first() <= until {
				if until >= l.fresh {
					return fmt.Sprintf("%s is counted twice: two series differ only in %s", next.unit, l.differing(longest.labels, next.labels))
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

func (l *look) differing(a, b model.Metric) string {
	var out []string
	for _, name := range l.copies {
		if a[name] != b[name] {
			out = append(out, fmt.Sprintf("%s (%q, %q)", name, a[name], b[name]))
		}
	}
	if out == nil {
		return "nothing"
	}
	return strings.Join(out, ", ")
}
