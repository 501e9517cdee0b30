package telemetry

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/shifter-dev/shifter/internal/release"
)

// lookBackScrapes is how far before its start a look reads, so that the newest
// sample before it is there, with up to four scrapes missed.
const lookBackScrapes = 5

func lookBack(scrape time.Duration) time.Duration { return lookBackScrapes * scrape }

// look is one question being answered. Times are in milliseconds, as
// Prometheus has them.
type look struct {
	src *source
	p   provider
	ask release.Ask

	now    int64
	since  int64 // samples after this are counted
	oldest int64 // where the ranges of the queries begin
	// fresh is the oldest time at which a sample is fresh.
	fresh int64
	pace  int64 // 2.5 scrapes
	back  int64 // the look-back

	by       naming // of what proxies count
	clients  naming // of starts and active, where named otherwise
	copies   []model.LabelName
	pods     map[string]release.Track // by namespace/name
	families []family
	requests []request
	notes    []string
}

func newLook(s *source, p provider, a release.Ask) (*look, error) {
	l := &look{
		src: s, p: p, ask: a,
		now:   a.Now.UnixMilli(),
		since: a.Since.UnixMilli(),
		pace:  (s.Scrape * 5 / 2).Milliseconds(),
		back:  lookBack(s.Scrape).Milliseconds(),
		pods:  map[string]release.Track{},
	}
	l.fresh = l.now - s.Lag.Milliseconds() - l.pace
	if oldest := a.Now.Add(-s.Reach); a.Since.IsZero() {
		l.since = oldest.UnixMilli()
		l.note("no start was given: counts begin at %s, as far back as one look may read", stamp(l.since))
	} else if a.Since.Before(oldest) {
		l.since = oldest.UnixMilli()
		l.note("counts from %s to %s are left out: one look may read %s", stamp(a.Since.UnixMilli()), stamp(l.since), s.Reach)
	}
	if err := l.nameTracks(); err != nil {
		return nil, err
	}
	span := seconds(max(l.now-l.since, 0) + l.back)
	shortest := seconds(l.back + s.Lag.Milliseconds())
	l.oldest = l.now - 1000*max(span, shortest)
	if err := l.buildFamilies(span, shortest); err != nil {
		return nil, err
	}
	return l, nil
}

// seconds rounds milliseconds up: the range may be wider than needed, never
// narrower.
func seconds(ms int64) int64 { return (ms + 999) / 1000 }

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func stamp(ms int64) string { return at(ms).Format(time.RFC3339) }

func (l *look) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

func (l *look) family(r role) family {
	for _, f := range l.families {
		if f.role == r {
			return f
		}
	}
	return family{role: r}
}

// read turns the families into the reading, or says the trouble.
func (l *look) read(r *release.Reading) trouble {
	if l.p.perPod() && len(l.pods) == 0 {
		return trouble{Empty, "no live pod is known, and the provider " + l.p.name + " counts by pod"}
	}
	starts, ends := l.family(roleStarts), l.family(roleEnds)
	for _, f := range []family{starts, ends} {
		if f.problem != "" {
			return trouble{Odd, f.metric + ": " + f.problem}
		}
		if f.copiedUntil > l.since {
			l.since = f.copiedUntil
			l.note("counts up to %s are left out: until then %s had series twice", stamp(l.since), f.metric)
		}
	}
	t := l.tally(starts.series, ends.series)
	if len(t.units) == 0 {
		return trouble{Empty, l.nothing()}
	}
	r.At = at(t.at())
	r.Windows = append(l.windows(t), l.latencies(t)...)
	r.Proxies = l.proxies(t)
	r.Silent = l.silent(t)
	r.Drain = l.drains(t)
	l.noteOddities(t)
	r.Notes = l.notes
	return trouble{}
}

// nothing says that neither track has any series: that is no zero.
func (l *look) nothing() string {
	if l.unusable() > 0 {
		return fmt.Sprintf("no sample of %s is a number of requests", l.p.ends)
	}
	if l.p.perPod() {
		return fmt.Sprintf("no samples of %s for any of the %d live pods", l.p.ends, len(l.pods))
	}
	metrics := l.p.ends
	if l.p.starts != "" {
		metrics = l.p.starts + " or " + metrics
	}
	text := fmt.Sprintf("no samples of %s with %s %q or %q", metrics, l.by.label(), l.by.text(0), l.by.text(1))
	if l.p.hint != "" {
		text += "; " + l.p.hint
	}
	return text
}

func (l *look) noteOddities(t *tally) {
	for _, why := range l.p.sees(l.src.Latency).Cannot {
		l.note("%s", why)
	}
	if newest := slices.MaxFunc(t.units, func(a, b *unit) int { return cmp.Compare(a.newest, b.newest) }).newest; newest < l.fresh {
		l.note("%s: the newest sample is of %s, older than 2.5 scrapes", Stale, stamp(newest))
	}
	if n := l.strays(t); n > 0 {
		l.note("%g requests to the Service have no workload (%q) and are counted for neither track", n, l.by.stray)
	}
	if t.restarts > 0 {
		l.note("%d counters began again from 0; what they had counted since their last sample is lost", t.restarts)
	}
	if t.unborn > 0 {
		l.note("%d counters were first seen with their target; what they held then is not counted", t.unborn)
	}
	if n := l.unusable(); n > 0 {
		l.note("%d samples are not numbers of requests (NaN, infinite, negative) and count as not scraped", n)
	}
	if l.p.starts != "" && !t.sawStarts {
		l.note("no samples of %s: a split cannot be shown, and finished requests stand in for new ones", l.p.starts)
	}
	if t.sawStarts && !t.sawEnds {
		l.note("no samples of %s: no request is known to have finished", l.p.ends)
	}
	if gap := t.spacing(); gap > l.src.Scrape.Milliseconds()*3/2 {
		l.note("samples come every %s, and the source is configured with %s", time.Duration(gap)*time.Millisecond, l.src.Scrape)
	}
}

// strays are the finished requests to the managed service that neither track
// can be held to.
func (l *look) strays(t *tally) float64 {
	f := l.family(roleEnds)
	scrapes := scrapeTimes(f.series, f.stray)
	n := 0.0
	for _, s := range f.stray {
		n += l.grown(s, t.span, scrapes[s.target], nil, &oddities{})
	}
	return n
}

func (l *look) unusable() int {
	n := 0
	for _, f := range l.families {
		n += f.hollow
		for _, s := range f.series {
			n += s.unusable
		}
	}
	return n
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
