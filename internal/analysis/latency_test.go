package analysis_test

import (
	"math"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// edges are the bounds of a mesh's usual histogram in milliseconds.
func edges() []float64 {
	return []float64{0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000}
}

// slowWorld is a mesh whose requests take a lognormal time with a median of
// 60 ms, and whose candidate may be slower. No request fails.
type slowWorld struct {
	world
	scale  float64 // the candidate's times are longer by this
	tail   float64 // this share of its requests takes more than a second
	shared int     // the window in which both sides are twice as slow for two minutes, -1 never
}

func newSlowWorld(seed uint64) *slowWorld {
	w := world{rng: random(seed + 1<<32), rps: 100, incident: -1, burst: 1}
	return &slowWorld{world: w, scale: 1, shared: -1}
}

// buckets are n requests, cumulative; the last is all of them.
func (w *slowWorld) buckets(n, scale, tail float64) []analysis.Bucket {
	if w.shared >= 0 && w.ticks >= w.shared && w.ticks < w.shared+8 {
		scale *= 2
	}
	var out []analysis.Bucket
	below, sum := 0.0, 0.0
	for _, ms := range append(edges(), math.Inf(1)) {
		share := 0.5 * math.Erfc(-math.Log(ms/(60*scale))/0.6/math.Sqrt2) * (1 - tail)
		if ms >= 2500 {
			share += tail
		}
		sum += w.poisson(n * (share - below))
		below = share
		out = append(out, analysis.Bucket{Bound: ms / 1000, Count: sum})
	}
	return out
}

// scrape lets one scrape pass: the windows of errors and of every bound.
func (w *slowWorld) scrape(share float64) []analysis.Window {
	n := w.rps * scrape.Seconds()
	c, b := w.buckets(n*share/100, w.scale, w.tail), w.buckets(n*(100-share)/100, 1, 0)
	from := w.now()
	w.ticks++
	return slowWindows(from, w.now(), "", c, b)
}

// slowWindows are the windows of both sides' histograms, with no errors.
func slowWindows(from, to time.Time, stratum string, c, b []analysis.Bucket) []analysis.Window {
	all := func(bs []analysis.Bucket) float64 { return bs[len(bs)-1].Count }
	out := []analysis.Window{{
		Metric: analysis.MetricErrors, Stratum: stratum, From: from, To: to,
		Candidate: analysis.Counts{Requests: all(c)}, Baseline: analysis.Counts{Requests: all(b)},
	}}
	for i := range len(c) - 1 {
		out = append(out, analysis.Window{
			Metric: analysis.Latency(c[i].Bound).String(), Stratum: stratum, From: from, To: to,
			Candidate: analysis.Counts{Requests: all(c), Bad: all(c) - c[i].Count},
			Baseline:  analysis.Counts{Requests: all(b), Bad: all(b) - b[i].Count},
		})
	}
	return out
}

// watch is chosen from ten minutes of the baseline.
func (w *slowWorld) watch() analysis.Watch {
	watch, why := analysis.Bounds(w.buckets(90000, 1, 0), analysis.Percentiles()...)
	if why != "" {
		panic(why)
	}
	return watch
}

// release walks 10, 25 and 50, as fast as the proofs allow.
func (w *slowWorld) release() (analysis.Verdict, time.Duration) {
	s := analysis.Defaults()
	s.Soak, s.MaxWindow = 0, 15*time.Minute
	watch := w.watch()
	var g analysis.Gate
	var v analysis.Verdict
	for i, share := range []float64{10, 25, 50} {
		g = g.StartStep(analysis.Step{Index: i, Share: share, Copies: 4, At: w.now(), Watch: watch})
		for {
			g = g.Add(s, w.scrape(share))
			v = g.Verdict(s, analysis.Health{Fresh: g.Until(), Scrape: scrape}, w.now())
			if v.Outcome != analysis.Inconclusive || v.Reason == analysis.WindowExhausted {
				break
			}
		}
		w.scrape(share)
		if v.Outcome != analysis.Pass {
			break
		}
	}
	return v, w.now().Sub(origin)
}
