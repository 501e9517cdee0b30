package analysis_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

var origin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const scrape = 15 * time.Second

// world is a simulated mesh: Poisson traffic, one window per
// scrape, a base rate that may move, a candidate that may be worse.
type world struct {
	rng      *rand.Rand
	rps, p0  float64
	worse    func(p0 float64) float64 // the candidate's rate, nil when the same
	incident int                      // the window in which both sides turn bad for two minutes, -1 never
	drift    bool                     // p0 quadruples over the hour
	burst    float64                  // bad events come in batches of this size
	ticks    int
	excess   float64
}

func newWorld(seed uint64, rps, p0 float64) *world {
	return &world{rng: rand.New(rand.NewPCG(seed, 20260301)), rps: rps, p0: p0, incident: -1, burst: 1}
}

func (w *world) now() time.Time { return origin.Add(time.Duration(w.ticks) * scrape) }

func (w *world) rates() (p1, p0 float64) {
	p0 = w.p0
	if w.drift {
		p0 *= 0.5 * math.Pow(4, math.Min(float64(w.ticks), 240)/240)
	}
	if w.incident >= 0 && w.ticks >= w.incident && w.ticks < w.incident+8 {
		p0 = math.Max(p0, 0.05)
	}
	if w.worse == nil {
		return p0, p0
	}
	return w.worse(p0), p0
}

// serve lets one scrape pass with the candidate at the given share.
func (w *world) serve(share float64) analysis.Window {
	p1, p0 := w.rates()
	n := w.rps * scrape.Seconds()
	side := func(n, p float64) analysis.Counts {
		served := w.poisson(n)
		return analysis.Counts{Requests: served, Bad: math.Min(served, w.burst*w.poisson(served*p/w.burst))}
	}
	from := w.now()
	w.ticks++
	out := analysis.Window{
		Metric: analysis.MetricErrors, From: from, To: w.now(),
		Candidate: side(n*share/100, p1), Baseline: side(n*(100-share)/100, p0),
	}
	w.excess += out.Candidate.Requests * (p1 - p0)
	return out
}

func (w *world) poisson(mean float64) float64 {
	switch {
	case mean <= 0:
		return 0
	case mean > 40:
		return math.Max(0, math.Round(mean+math.Sqrt(mean)*w.rng.NormFloat64()))
	}
	k, limit := 0, math.Exp(-mean)
	for p := w.rng.Float64(); p > limit; k++ {
		p *= w.rng.Float64()
	}
	return float64(k)
}

// release walks one release through 10, 25, 50 and 100 as the engine does: a
// pass raises the share, the guard's first alarm goes back to 50. Every answer
// acts one scrape late.
func (w *world) release(s analysis.Settings) (analysis.Verdict, time.Duration) {
	var g analysis.Gate
	steps := []float64{10, 25, 50, 100}
	for i := 0; i < len(steps); {
		g = g.StartStep(analysis.Step{Index: i, Share: steps[i], Copies: 4, At: w.now()})
		v := w.step(&g, s, steps[i])
		w.serve(steps[i])
		switch {
		case v.Outcome == analysis.Pass:
			i++
		case v.Reason == analysis.GuardAlarm:
			i = 2
		default:
			return v, w.now().Sub(origin)
		}
		if i == len(steps) {
			return v, w.now().Sub(origin)
		}
	}
	panic("a release ends with a verdict")
}

// step looks after every scrape until the answer is final.
func (w *world) step(g *analysis.Gate, s analysis.Settings, share float64) analysis.Verdict {
	for {
		*g = g.Add(s, []analysis.Window{w.serve(share)})
		v := g.Verdict(s, analysis.Health{Fresh: g.Until(), Scrape: scrape}, w.now())
		if v.Outcome != analysis.Inconclusive || v.Reason == analysis.GuardAlarm || v.Reason == analysis.WindowExhausted {
			return v
		}
	}
}

// tally is what many releases came to.
type tally struct {
	releases, fail, pass int
	stop, excess         []float64 // seconds until it stopped; bad requests caused
	took                 []float64
}

func (t tally) failed() float64 { return float64(t.fail) / float64(t.releases) }

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func runWorlds(t *testing.T, releases int, s analysis.Settings, build func(seed uint64) *world) tally {
	t.Helper()
	if testing.Short() {
		releases /= 10
	}
	out := tally{releases: releases}
	for i := range releases {
		w := build(uint64(i))
		v, took := w.release(s)
		switch v.Outcome {
		case analysis.Fail:
			out.fail++
		case analysis.Pass:
			out.pass++
		}
		out.took = append(out.took, took.Seconds())
		if v.Outcome != analysis.Pass {
			out.stop = append(out.stop, took.Seconds())
		}
		out.excess = append(out.excess, w.excess)
	}
	t.Logf("%d releases: fail %.2f %%, pass %.2f %%, median %.0f s, median stop %.0f s, mean excess %.1f", releases,
		100*out.failed(), 100*float64(out.pass)/float64(releases), median(out.took), median(out.stop), mean(out.excess))
	return out
}

func TestHarmlessReleasesArePassed(t *testing.T) {
	tests := []struct {
		name  string
		most  float64
		build func(seed uint64) *world
	}{
		{"A: both sides at 0.5 %", 0.005, func(seed uint64) *world { return newWorld(seed, 100, 0.005) }},
		{"B: an incident hits both sides for two minutes", 0.005, func(seed uint64) *world {
			w := newWorld(seed, 100, 0.005)
			w.incident = w.rng.IntN(80)
			return w
		}},
		{"D: the base rate quadruples over the hour", 0.005, func(seed uint64) *world {
			w := newWorld(seed, 100, 0.005)
			w.drift = true
			return w
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := runWorlds(t, 400, analysis.Defaults(), tt.build)
			if got.failed() > tt.most {
				t.Errorf("%.2f %% failed, want at most %.2f %%", 100*got.failed(), 100*tt.most)
			}
			if float64(got.pass) < 0.97*float64(got.releases) {
				t.Errorf("only %d of %d passed", got.pass, got.releases)
			}
		})
	}
}

func TestRegressionsAreStoppedSoon(t *testing.T) {
	tests := []struct {
		name   string
		worse  func(p0 float64) float64
		within float64 // seconds, median
		excess float64 // of a reference simulation
	}{
		{"five times the errors", func(p float64) float64 { return 5 * p }, 90, 15},
		{"one percentage point more", func(p float64) float64 { return p + .01 }, 180, 21},
		{"five percentage points more", func(p float64) float64 { return p + .05 }, 45, 18},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := runWorlds(t, 400, analysis.Defaults(), func(seed uint64) *world {
				w := newWorld(seed, 100, 0.005)
				w.worse = tt.worse
				return w
			})
			if got.fail != got.releases {
				t.Errorf("%d of %d were not stopped", got.releases-got.fail, got.releases)
			}
			if m := median(got.stop); m > tt.within {
				t.Errorf("stopped after %v s, want %v", m, tt.within)
			}
			if m := mean(got.excess); m > 1.25*tt.excess {
				t.Errorf("%.1f bad requests caused, want %.1f at most", m, 1.25*tt.excess)
			}
		})
	}
}

// With the truth exactly on the step's margin, a pass is a false one.
func TestFalsePassesKeepToTheirBudget(t *testing.T) {
	for _, tt := range []struct {
		name  string
		share float64
		more  float64
	}{{"at 50 % with half a point more", 50, .005}, {"at 10 % with two and a half points more", 10, .025}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			releases, passed := 400, 0
			if testing.Short() {
				releases = 40
			}
			s := analysis.Defaults()
			s.Alpha, s.Soak = 1e-9, 0 // fails and the soak would hide a false pass
			for i := range releases {
				w := newWorld(uint64(i), 100, .005)
				w.worse = func(p float64) float64 { return p + tt.more }
				g := analysis.Gate{}.StartStep(analysis.Step{Share: tt.share, Copies: 1, At: origin})
				if w.step(&g, s, tt.share).Outcome == analysis.Pass {
					passed++
				}
			}
			t.Logf("%d of %d passed", passed, releases)
			if float64(passed) > .05*float64(releases) {
				t.Errorf("%d of %d passed, want at most 5 %%", passed, releases)
			}
		})
	}
}

// Continuous looks at two equal sides must ring at most alpha of the time. Where
// errors come in bursts that holds once the dispersion has been seen, which is
// what the look-back before a release is for; until it exists, bursts of five
// ring in every eighth hour.
func TestFalseFailsKeepToAlpha(t *testing.T) {
	for _, tt := range []struct {
		name     string
		burst    float64
		lookBack int
		most     float64
	}{{"independent errors", 1, 0, .01}, {"bursts of five after a look-back of half an hour", 5, 120, .02}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			releases := 400
			if testing.Short() {
				releases = 40
			}
			failed := 0
			s := analysis.Defaults()
			s.MaxWindow, s.AlphaPass = time.Hour, 1e-9 // never passes: an hour of looks
			for i := range releases {
				w := newWorld(uint64(i), 100, .005)
				w.burst = tt.burst
				var before []analysis.Window
				for range tt.lookBack {
					before = append(before, w.serve(10))
				}
				g := analysis.Gate{}.StartStep(analysis.Step{Share: 10, Copies: 4, At: w.now()}).LookBack(before)
				if v := w.step(&g, s, 10); v.Outcome == analysis.Fail {
					failed++
				}
			}
			t.Logf("%d of %d failed", failed, releases)
			if float64(failed) > tt.most*float64(releases) {
				t.Errorf("%d of %d failed, want at most %.0f %%", failed, releases, 100*tt.most)
			}
		})
	}
}
