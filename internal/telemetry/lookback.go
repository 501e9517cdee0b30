package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
)

// How far [Eyes.LookBack] looks: at the histogram, and at how counts scatter.
const (
	pastBuckets = 10 * time.Minute
	pastWindows = 30 * time.Minute
)

// LookBack reads what one track did before a release: its histogram over ten
// minutes, and over half an hour (over less, where that is too much for the
// source) one window per scrape and unit in which both
// sides are the track itself. Where pods count for themselves they are split,
// the first side with about the share w (between 0 and 1) of them; elsewhere a
// window stands beside the next one.
//
// What the source does wrong is an error here: nobody depends on the answer.
func (e *Eyes) LookBack(ctx context.Context, a release.Ask, of release.Track, w float64) (release.Past, error) {
	s, p, err := e.find(a.Binding.Metrics)
	if err != nil {
		return release.Past{}, err
	}
	if a.Now.IsZero() {
		return release.Past{}, errors.New("a look back needs the time: Now is zero")
	}
	l, err := e.recallCounters(ctx, s, p, a, pastWindows)
	if err != nil && ctx.Err() == nil { // many proxies make an answer too large
		l, err = e.recallCounters(ctx, s, p, a, pastBuckets)
	}
	if err != nil {
		return release.Past{}, err
	}
	h := history{of: of, windows: map[scraped]*analysis.Window{}}
	l.recallErrors(&h)
	buckets := l.recallSlow(&h)
	return release.Past{Buckets: buckets, Windows: h.split(w)}, nil
}

// recallCounters reads the counters of finished requests as far back as that.
func (e *Eyes) recallCounters(ctx context.Context, s *source, p provider, a release.Ask, back time.Duration) (*look, error) {
	a.Since, a.Bounds = a.Now.Add(-min(back, s.Reach)), nil
	l, err := newLook(s, p, a)
	if err != nil {
		return nil, err
	}
	l.countersOnly()
	if bad := l.fetch(ctx, e.log); bad.is() {
		return nil, errors.New(bad.about(s.Name))
	}
	for _, f := range l.families {
		if f.problem != "" {
			return nil, fmt.Errorf("metrics source %q: %s: %s", s.Name, f.metric, f.problem)
		}
		l.since = max(l.since, f.copiedUntil)
	}
	return l, nil
}

// countersOnly leaves out what is no count of finished requests.
func (l *look) countersOnly() {
	kept := l.requests[:0]
	for _, q := range l.requests {
		q.families = slices.DeleteFunc(slices.Clone(q.families), func(i int) bool {
			return l.families[i].role != roleEnds && l.families[i].role != roleSlow
		})
		if len(q.families) > 0 {
			q.query = l.queryFor(q.families)
			kept = append(kept, q)
		}
	}
	l.requests = kept
}

// scraped is one scrape of a unit. Where pods are split, those that were
// scraped within one interval belong together.
type scraped struct {
	metric string
	unit   string
	at     int64
}

// history gathers windows in which the track is the baseline.
type history struct {
	of      release.Track
	windows map[scraped]*analysis.Window
	byPod   []string // metrics whose units are pods
}

func (h *history) add(metric, unit string, t int64, every time.Duration, c analysis.Counts) {
	k := scraped{metric, unit, t}
	w := h.windows[k]
	if w == nil {
		w = &analysis.Window{Metric: metric, Stratum: unit, From: at(t - every.Milliseconds()), To: at(t)}
		h.windows[k] = w
	}
	w.Baseline = w.Baseline.Add(c)
}

func (l *look) recallErrors(h *history) {
	f := l.family(roleEnds)
	over, scrapes := span{l.since, l.now}, scrapeTimes(f.series)
	for _, s := range f.series {
		if s.track != h.of {
			continue
		}
		l.growth(s, over, scrapes[s.target], nil, &oddities{}, func(t int64, n float64) {
			c := analysis.Counts{Requests: n}
			if s.bad {
				c.Bad = n
			}
			h.add(analysis.MetricErrors, s.unit, t, l.src.Scrape, c)
		})
	}
	if l.p.byPod(roleEnds) {
		h.byPod = append(h.byPod, analysis.MetricErrors)
	}
}

// recallSlow returns the histogram of the last minutes. Histograms in which a
// bucket lacks a sample that the total has are left out: requests would seem
// slow that were only not counted yet.
func (l *look) recallSlow(h *history) []analysis.Bucket {
	all := histograms(l.family(roleSlow).series)
	var has [2]map[float64]bool
	for _, one := range all {
		if one.all == nil {
			continue
		}
		t := one.all.track
		if has[t] == nil {
			has[t] = map[float64]bool{}
		}
		for b := range one.buckets {
			has[t][b] = true
		}
	}
	bounds := common(has)
	over, scrapes := span{l.since, l.now}, l.allScrapes()
	sums := make([]float64, len(bounds)+1)
	for _, one := range all {
		if one.all != nil && one.all.track == h.of && one.whole(bounds, over) {
			l.recall(h, one, bounds, over, scrapes[one.all.target], sums)
		}
	}
	if l.p.byPod(roleSlow) {
		for _, b := range bounds {
			h.byPod = append(h.byPod, analysis.Latency(b).String())
		}
	}
	out := make([]analysis.Bucket, 0, len(sums))
	for i, b := range append(bounds, math.Inf(1)) {
		out = append(out, analysis.Bucket{Bound: b, Count: sums[i]})
	}
	return out
}

// whole reports whether all bounds are there, with all samples of the total.
func (h histogram) whole(bounds []float64, over span) bool {
	for _, b := range bounds {
		if s := h.buckets[b]; s == nil || !slices.Equal(counted(s.t, over), counted(h.all.t, over)) {
			return false
		}
	}
	return true
}

// recall adds one histogram to the windows, and to the sums of the last minutes.
func (l *look) recall(h *history, one histogram, bounds []float64, over span, seen []int64, sums []float64) {
	again, late := one.again(), l.now-pastBuckets.Milliseconds()
	total := map[int64]float64{}
	l.growth(*one.all, over, seen, again, &oddities{}, func(t int64, n float64) {
		total[t] += n
		if t > late {
			sums[len(bounds)] += n
		}
	})
	for i, b := range bounds {
		metric, within := analysis.Latency(b).String(), map[int64]float64{}
		l.growth(*one.buckets[b], over, seen, again, &oddities{}, func(t int64, n float64) {
			within[t] += n
			if t > late {
				sums[i] += n
			}
		})
		for t, n := range total {
			h.add(metric, one.all.unit, t, l.src.Scrape, analysis.Counts{Requests: n, Bad: min(max(n-within[t], 0), n)})
		}
	}
}

// split makes the two sides.
func (h *history) split(w float64) []analysis.Window {
	var alone, out []analysis.Window
	pods := map[scraped][]analysis.Window{}
	for k, win := range h.windows {
		if !slices.Contains(h.byPod, k.metric) {
			alone = append(alone, *win)
			continue
		}
		every := win.To.Sub(win.From).Milliseconds()
		slot := scraped{metric: k.metric, at: k.at / every * every}
		pods[slot] = append(pods[slot], *win)
	}
	for slot, wins := range pods {
		slices.SortFunc(wins, func(a, b analysis.Window) int { return cmp.Compare(a.Stratum, b.Stratum) })
		var each []analysis.PodCounts
		for _, win := range wins {
			each = append(each, analysis.PodCounts{Pod: win.Stratum, Counts: win.Baseline})
		}
		c, b, ok := analysis.SplitPods(each, w)
		if !ok {
			alone = append(alone, wins...)
			continue
		}
		every := wins[0].To.Sub(wins[0].From)
		out = append(out, analysis.Window{
			Metric: slot.metric, Stratum: stratumPods, From: at(slot.at), To: at(slot.at).Add(every), Candidate: c, Baseline: b,
		})
	}
	return append(out, analysis.SplitTime(alone)...)
}
