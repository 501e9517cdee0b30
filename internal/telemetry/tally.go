package telemetry

import (
	"math"
	"slices"
	"sort"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
)

// never is before every time.
const never = math.MinInt64

// tally is what was counted after since and up to the horizon, per unit.
type tally struct {
	units []*unit // by name
	span

	sawStarts, sawEnds bool
	oddities
}

// span is the time of the samples that count: after since, up to the horizon.
type span struct{ since, horizon int64 }

func (s span) has(at int64) bool { return at > s.since && at <= s.horizon }

// oddities are what a count met.
type oddities struct {
	restarts int // counters that fell
	unborn   int // counters that came with their target and held something
}

// unit is one proxy or pod: series of one scrape target, read together.
type unit struct {
	name string
	// times are the times of its scrapes, rising.
	times []int64
	// newest is the newest scrape that all its families show.
	newest int64
	// from is its newest scrape at or before since, else its first; to is its
	// newest scrape up to the horizon. Without one, to is below from.
	from, to int64

	starts [2]bool // it has a counter of starts for the track
	any    [2]bool // it has any counter for the track
	// sent: it sent to the track somewhere in the range, counted or not.
	sent  [2]bool
	begun [2]float64
	ended [2]analysis.Counts
}

// moved reports whether there was a scrape in the interval.
func (u *unit) moved() bool { return u.to > u.from }

// silentBefore reports whether the unit's newest scrape is older than a time.
func (u *unit) silentBefore(fresh int64) bool { return u.newest < fresh }

func (l *look) tally(starts, ends []series) *tally {
	t := &tally{sawStarts: len(starts) > 0, sawEnds: len(ends) > 0}
	t.units = l.units(starts, ends)
	if len(t.units) == 0 {
		return t
	}
	t.span = span{l.since, l.horizon(t.units)}
	byName := map[string]*unit{}
	for _, u := range t.units {
		u.from, u.to = u.bounds(l.since, t.horizon)
		byName[u.name] = u
	}
	scrapes := scrapeTimes(starts, ends)
	for _, s := range starts {
		u := byName[s.unit]
		u.starts[s.track], u.any[s.track] = true, true
		u.sent[s.track] = u.sent[s.track] || s.moves()
		u.begun[s.track] += l.grown(s, t.span, scrapes[s.target], nil, &t.oddities)
	}
	for _, s := range ends {
		u := byName[s.unit]
		u.any[s.track] = true
		u.sent[s.track] = u.sent[s.track] || (!t.sawStarts && s.moves())
		n := l.grown(s, t.span, scrapes[s.target], nil, &t.oddities)
		u.ended[s.track].Requests += n
		if s.bad {
			u.ended[s.track].Bad += n
		}
	}
	return t
}

// units gathers who reports, and when they were scraped.
func (l *look) units(families ...[]series) []*unit {
	type seen struct {
		times  map[int64]struct{}
		newest []int64 // of each family
	}
	all := map[string]*seen{}
	for i, f := range families {
		for _, s := range f {
			u := all[s.unit]
			if u == nil {
				u = &seen{times: map[int64]struct{}{}, newest: slices.Repeat([]int64{never}, len(families))}
				all[s.unit] = u
			}
			for _, t := range s.t {
				u.times[t] = struct{}{}
			}
			u.newest[i] = max(u.newest[i], s.last())
		}
	}
	var out []*unit
	for _, name := range sortedKeys(all) {
		u := &unit{name: name}
		for t := range all[name].times {
			u.times = append(u.times, t)
		}
		slices.Sort(u.times)
		u.newest = l.agreed(all[name].newest)
		out = append(out, u)
	}
	return out
}

// agreed returns the newest scrape that all families show. The queries run side
// by side, so that one of them may miss a scrape that another sees. A family
// that is further behind has ended and is not waited for.
func (l *look) agreed(newest []int64) int64 {
	last := slices.Max(newest)
	agreed := last
	for _, t := range newest {
		if t >= last-l.pace {
			agreed = min(agreed, t)
		}
	}
	return agreed
}

// horizon is the time up to which every unit that keeps pace was seen. Beyond
// it a scrape may still be missing, and once a later look starts after that
// scrape, what it adds would be lost. A unit more than 2.5 scrapes behind the
// newest is not waited for. The horizon does not fall behind since.
func (l *look) horizon(units []*unit) int64 {
	newest := units[0].newest
	for _, u := range units {
		newest = max(newest, u.newest)
	}
	h := newest
	for _, u := range units {
		if u.newest >= newest-l.pace {
			h = min(h, u.newest)
		}
	}
	return max(h, l.since)
}

func (u *unit) bounds(since, horizon int64) (from, to int64) {
	from, to = u.times[0], never
	for _, t := range u.times {
		if t <= since {
			from = t
		}
		if t <= horizon {
			to = t
		}
	}
	return from, to
}

// at is the time of the newest scrape that was used.
func (t *tally) at() int64 {
	newest := t.units[0].to
	for _, u := range t.units {
		newest = max(newest, u.to)
	}
	return newest
}

// scrapeTimes are the rising times at which each target was scraped.
func scrapeTimes(families ...[]series) map[string][]int64 {
	out := map[string][]int64{}
	for _, f := range families {
		for _, s := range f {
			out[s.target] = append(out[s.target], s.t...)
		}
	}
	for k, times := range out {
		slices.Sort(times)
		out[k] = slices.Compact(times)
	}
	return out
}

// grown is what the samples of a span added. Each adds its difference to the one
// before it, wherever that is: so a gap is repaid, and what a look counts does
// not depend on where other looks are cut. Where siblings are known to have
// begun again, so has this one.
//
// A weak spot: a counter that restarts and has passed its old value when it is
// next seen counts only the difference, since nothing in its samples tells that
// from a gap.
func (l *look) grown(s series, over span, scrapes []int64, again map[int64]bool, odd *oddities) float64 {
	sum := 0.0
	l.growth(s, over, scrapes, again, odd, func(_ int64, n float64) { sum += n })
	return sum
}

// growth tells what each sample of a span added.
func (l *look) growth(s series, over span, scrapes []int64, again map[int64]bool, odd *oddities, add func(at int64, n float64)) {
	for i, at := range s.t {
		if !over.has(at) {
			continue
		}
		switch {
		case i == 0 && l.scrapedBefore(scrapes, at):
			// A birth: the target was scraped without it, so all of it is new.
			// The first errors come this way, and increase() loses them.
			add(at, s.v[0])
		case i == 0:
			if s.v[0] > 0 {
				odd.unborn++
			}
		case s.v[i] < s.v[i-1] || again[at]:
			odd.restarts++
			add(at, s.v[i])
		default:
			add(at, s.v[i]-s.v[i-1])
		}
	}
}

// moves reports whether the counter changed anywhere in the range.
func (s series) moves() bool {
	for _, v := range s.v {
		if v != s.v[0] {
			return true
		}
	}
	return false
}

// scrapedBefore reports whether the target was scraped in the look-back before
// a time.
func (l *look) scrapedBefore(scrapes []int64, at int64) bool {
	i := sort.Search(len(scrapes), func(i int) bool { return scrapes[i] >= at })
	return i > 0 && scrapes[i-1] >= at-l.back
}

// spacing is the middle distance between two scrapes of a unit, 0 when there
// are too few to tell.
func (t *tally) spacing() int64 {
	var gaps []int64
	for _, u := range t.units {
		for i := 1; i < len(u.times); i++ {
			gaps = append(gaps, u.times[i]-u.times[i-1])
		}
	}
	if len(gaps) < 3 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// windows are the counts of finished requests: one window per proxy, since each
// is scraped at its own moments. Pods serve one track each, so they are pooled.
func (l *look) windows(t *tally) []release.TrackWindow {
	var out []release.TrackWindow
	together := stratum(l.p.perPod(), len(t.units))
	for _, u := range t.units {
		if !u.moved() {
			continue
		}
		w := release.TrackWindow{
			Metric: analysis.MetricErrors, Stratum: u.name,
			From: at(u.from), To: at(u.to), Counts: u.ended,
		}
		if together == "" {
			out = append(out, w)
			continue
		}
		w.Stratum = together
		if len(out) == 0 {
			out = append(out, w)
			continue
		}
		pool(&out[0], w)
	}
	return out
}

// The strata that hold more than one unit.
const (
	stratumPods    = "pods"
	stratumProxies = "proxies"
	// maxStrata is how many proxies are counted each for itself. What the judge
	// keeps of a stratum is in the release's record, and of each metric; many
	// proxies with one and the same split lose little by being counted together.
	maxStrata = 12
)

// stratum is the one stratum of all units, empty where each has its own. Looks
// follow each other without a gap whatever their strata, so a number that goes
// up and down counts nothing twice.
func stratum(pods bool, units int) string {
	switch {
	case pods:
		return stratumPods
	case units > maxStrata:
		return stratumProxies
	}
	return ""
}

// pool adds a unit's window to that of all of them. It begins where the last one of
// them begins, so that the windows of looks that follow each other meet.
func pool(into *release.TrackWindow, w release.TrackWindow) {
	if w.From.After(into.From) {
		into.From = w.From
	}
	if w.To.After(into.To) {
		into.To = w.To
	}
	for t := range into.Counts {
		into.Counts[t] = into.Counts[t].Add(w.Counts[t])
	}
}

// proxies are the counts of new requests, of the proxies that count starts.
func (l *look) proxies(t *tally) []release.ProxyLook {
	var out []release.ProxyLook
	for _, u := range t.units {
		if u.moved() && (u.starts[0] || u.starts[1]) {
			out = append(out, release.ProxyLook{Proxy: u.name, From: at(u.from), To: at(u.to), New: u.begun})
		}
	}
	return out
}

// silent names the proxies that were scraped and are not any more.
func (l *look) silent(t *tally) []string {
	if l.p.perPod() {
		return nil // pods that are not seen are missing from the drain's signals
	}
	var out []string
	for _, u := range t.units {
		if u.silentBefore(l.fresh) {
			out = append(out, u.name)
		}
	}
	return out
}
