package telemetry

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
)

// mostBounds is how many bounds one look tells of.
const mostBounds = 20

// placeBound reads the bound of a bucket, in seconds.
func (l *look) placeBound(s *series) string {
	b, ok := boundOf(string(s.labels[model.BucketLabel]), l.p.slowUnit)
	if !ok {
		return "a bucket has no bound that is a number above 0"
	}
	s.bound = b
	return ""
}

// boundOf reads a bound. Milliseconds are shifted as text, so that 25 is the
// very number that 0.025 is.
func boundOf(le, unit string) (float64, bool) {
	if le == "+Inf" {
		return math.Inf(1), true
	}
	for _, r := range le {
		if !strings.ContainsRune("0123456789.eE+-", r) {
			return 0, false
		}
	}
	var b float64
	var err error
	switch exp := strings.ContainsAny(le, "eE"); {
	case unit == inMillis && !exp:
		b, err = strconv.ParseFloat(le+"e-3", 64)
	case unit == inMillis:
		b, err = strconv.ParseFloat(le, 64)
		b /= 1000
	default:
		b, err = strconv.ParseFloat(le, 64)
	}
	return b, err == nil && b > 0 && !math.IsInf(b, 0)
}

// histogram is the bucket counters of one set of labels.
type histogram struct {
	all     *series // +Inf
	buckets map[float64]*series
}

// again are the times at which any bucket fell: then all of them began again,
// though the value of a small one may not show it.
func (h histogram) again() map[int64]bool {
	out := map[int64]bool{}
	mark := func(s *series) {
		for i := 1; i < len(s.t); i++ {
			if s.v[i] < s.v[i-1] {
				out[s.t[i]] = true
			}
		}
	}
	mark(h.all)
	for _, s := range h.buckets {
		mark(s)
	}
	return out
}

// durations are the requests of one unit and track, and how many of them were
// no slower than each bound.
type durations struct {
	of       []histogram
	requests float64
	within   map[float64]float64
	// broken bounds lack a sample that others have.
	broken map[float64]bool
}

// latencies are the windows of requests that took longer than a bound: of the
// same samples as the errors where the same targets count both.
func (l *look) latencies(t *tally) []release.TrackWindow {
	f := l.family(roleSlow)
	if f.problem != "" || len(f.series) == 0 {
		return nil
	}
	units, over := l.timed(t, f)
	byUnit := map[string]*[2]durations{}
	var has [2]map[float64]bool
	for _, h := range histograms(f.series) {
		if h.all == nil {
			continue
		}
		if byUnit[h.all.unit] == nil {
			byUnit[h.all.unit] = &[2]durations{}
		}
		d := &byUnit[h.all.unit][h.all.track]
		d.of = append(d.of, h)
		if has[h.all.track] == nil {
			has[h.all.track] = map[float64]bool{}
		}
		for b := range h.buckets {
			has[h.all.track][b] = true
		}
	}
	scrapes := l.allScrapes()
	for _, tracks := range byUnit {
		for t := range tracks {
			l.measure(&tracks[t], over, scrapes)
		}
	}
	return l.slowWindows(units, byUnit, l.watched(has))
}

// timed are the units of the histograms and the time that is counted. Targets
// that count the errors too have been read up to the same horizon. Others are
// scraped at other moments, and what they had not shown yet would be lost to
// the next look, which begins where the errors end: so all of their time is
// read one scrape late.
//
// A weak spot: what such a target shows more than a scrape late is lost.
func (l *look) timed(t *tally, f family) ([]*unit, span) {
	if !l.p.slowPods {
		return t.units, t.span
	}
	late := l.src.Scrape.Milliseconds()
	over := span{l.since - late, t.at() - late}
	units := l.units(f.series)
	for _, u := range units {
		u.from, u.to = u.bounds(over.since, over.horizon)
	}
	return units, over
}

// allScrapes are the times at which each target was scraped, by any family.
func (l *look) allScrapes() map[string][]int64 {
	all := make([][]series, 0, len(l.families))
	for _, f := range l.families {
		all = append(all, f.series)
	}
	return scrapeTimes(all...)
}

// histograms puts the buckets together, in a fixed order.
func histograms(all []series) []histogram {
	by := map[string]*histogram{}
	for i := range all {
		s := &all[i]
		key := s.target + s.original
		h := by[key]
		if h == nil {
			h = &histogram{buckets: map[float64]*series{}}
			by[key] = h
		}
		if math.IsInf(s.bound, 1) {
			h.all = s
		} else {
			h.buckets[s.bound] = s
		}
	}
	out := make([]histogram, 0, len(by))
	for _, k := range sortedKeys(by) {
		out = append(out, *by[k])
	}
	return out
}

// measure counts the histograms of a unit and track. A bucket counts only with
// the very samples that the total has: else the two would be of different
// times, and requests would seem slow that were not counted yet.
func (l *look) measure(d *durations, over span, scrapes map[string][]int64) {
	d.within, d.broken = map[float64]float64{}, map[float64]bool{}
	for _, h := range d.of {
		for b := range h.buckets {
			d.within[b] = 0
		}
	}
	for _, h := range d.of {
		again, seen := h.again(), scrapes[h.all.target]
		n := l.grown(*h.all, over, seen, again, &oddities{})
		if n == 0 {
			continue
		}
		d.requests += n
		for b := range d.within {
			s := h.buckets[b]
			if s == nil || !slices.Equal(counted(s.t, over), counted(h.all.t, over)) {
				d.broken[b] = true
				continue
			}
			d.within[b] += l.grown(*s, over, seen, again, &oddities{})
		}
	}
}

// counted are the times of the samples of a span and of the one before it.
func counted(times []int64, over span) []int64 {
	from, _ := slices.BinarySearch(times, over.since+1)
	to, _ := slices.BinarySearch(times, over.horizon+1)
	return times[max(from-1, 0):max(to, from)]
}

// common are the bounds that both tracks have. A track without any histogram
// has no say.
func common(has [2]map[float64]bool) []float64 {
	either := has[0]
	if either == nil {
		either = has[1]
	}
	var out []float64
	for _, b := range slices.Sorted(maps.Keys(either)) {
		if has[0] == nil || has[1] == nil || has[0][b] && has[1][b] {
			out = append(out, b)
		}
	}
	return out
}

// watched are the bounds to tell of: those of the common ones that are asked
// for. Where all are, there are not too many, evenly chosen with the smallest
// and the largest.
func (l *look) watched(has [2]map[float64]bool) []float64 {
	out := common(has)
	if asked := l.ask.Bounds; asked != nil {
		return slices.DeleteFunc(out, func(b float64) bool { return !slices.Contains(asked, b) })
	}
	if len(out) <= mostBounds {
		return out
	}
	kept := make([]float64, 0, mostBounds)
	for i := range mostBounds {
		kept = append(kept, out[(i*(len(out)-1)+(mostBounds-1)/2)/(mostBounds-1)])
	}
	return kept
}

// slowWindows writes the windows: of each proxy, or of all pods together.
func (l *look) slowWindows(units []*unit, byUnit map[string]*[2]durations, bounds []float64) []release.TrackWindow {
	var out []release.TrackWindow
	pooled := map[string]int{} // their places
	together := stratum(l.p.byPod(roleSlow), len(units))
	uneven := 0
	for _, u := range units {
		d := byUnit[u.name]
		if d == nil || !u.moved() {
			continue
		}
		uneven += d[0].level() + d[1].level()
		for _, b := range bounds {
			w := release.TrackWindow{Metric: analysis.Latency(b).String(), Stratum: u.name, From: at(u.from), To: at(u.to)}
			if !d[0].count(b, &w.Counts[0]) || !d[1].count(b, &w.Counts[1]) {
				continue
			}
			if together == "" {
				out = append(out, w)
				continue
			}
			w.Stratum = together
			if i, ok := pooled[w.Metric]; ok {
				pool(&out[i], w)
				continue
			}
			pooled[w.Metric] = len(out)
			out = append(out, w)
		}
	}
	if uneven > 0 {
		l.note("%d buckets held fewer requests than a smaller one, and count as many", uneven)
	}
	return out
}

// level forces the buckets to rise up to the total, and says how many did not.
func (d *durations) level() int {
	n, least := 0, 0.0
	for _, b := range slices.Sorted(maps.Keys(d.within)) {
		if d.broken[b] {
			continue
		}
		v := min(max(d.within[b], least), d.requests)
		if v != d.within[b] {
			n++
		}
		d.within[b], least = v, v
	}
	return n
}

// count writes how many requests there were and how many took longer than a
// bound, and says whether that is known.
func (d *durations) count(b float64, into *analysis.Counts) bool {
	v, ok := d.within[b]
	if d.requests > 0 && (!ok || d.broken[b]) {
		return false
	}
	*into = analysis.Counts{Requests: d.requests, Bad: max(d.requests-v, 0)}
	return true
}
