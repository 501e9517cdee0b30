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
	onset    int                      // the step from which the candidate is worse
	at       int                      // the step
	ticks    int
	excess   float64
}

// course is how a release is walked.
type course struct {
	s analysis.Settings
	// hasty leaves out the soak below 100, as the reference simulation does.
	hasty bool
	// lookBack makes what is seen before the release; nil is nothing.
	lookBack func(w *world) []analysis.Window
}

// pods looks back half an hour at the baseline's own pods, split like the first
// step's share; clock splits them by time.
func pods(w *world) []analysis.Window { return w.before(10) }

func clock(w *world) []analysis.Window { return analysis.SplitTime(w.before(0)) }

// before is half an hour of the baseline split in two, one of them with the
// share. It takes no time of the release.
func (w *world) before(share float64) []analysis.Window {
	var out []analysis.Window
	n := w.rps * scrape.Seconds()
	for i := range 120 {
		from := origin.Add(time.Duration(i-120) * scrape)
		out = append(out, analysis.Window{
			Metric: analysis.MetricErrors, From: from, To: from.Add(scrape),
			Candidate: w.side(n*share/100, w.p0), Baseline: w.side(n*(100-share)/100, w.p0),
		})
	}
	return out
}

func newWorld(seed uint64, rps, p0 float64) *world {
	return &world{rng: random(seed), rps: rps, p0: p0, incident: -1, burst: 1}
}

// random spreads seeds that follow each other, since the generator's streams of
// near seeds are alike.
func random(seed uint64) *rand.Rand {
	h := (seed + 1) * 0x9e3779b97f4a7c15
	return rand.New(rand.NewPCG(h, h^0xd1b54a32d192ed03))
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
	if w.worse == nil || w.at < w.onset {
		return p0, p0
	}
	return math.Min(1, w.worse(p0)), p0
}

// side is what one side serves of n expected requests.
func (w *world) side(n, p float64) analysis.Counts {
	served := w.poisson(n)
	return analysis.Counts{Requests: served, Bad: math.Min(served, w.burst*w.poisson(served*p/w.burst))}
}

// finish lets the rest of the hour pass after a promotion.
func (w *world) finish() {
	w.at = 3
	for ; w.ticks < 240; w.ticks++ {
		p1, p0 := w.rates()
		w.excess += w.rps * scrape.Seconds() * (p1 - p0)
	}
}

// serve lets one scrape pass with the candidate at the given share.
func (w *world) serve(share float64) analysis.Window {
	p1, p0 := w.rates()
	n := w.rps * scrape.Seconds()
	from := w.now()
	w.ticks++
	out := analysis.Window{
		Metric: analysis.MetricErrors, From: from, To: w.now(),
		Candidate: w.side(n*share/100, p1), Baseline: w.side(n*(100-share)/100, p0),
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
func (w *world) release(c course) (analysis.Verdict, time.Duration) {
	var g analysis.Gate
	var seeds []analysis.Seed
	if c.lookBack != nil {
		seeds = analysis.LookBack(c.lookBack(w))
	}
	steps := []float64{10, 25, 50, 100}
	for i := 0; i < len(steps); {
		s := c.s
		if c.hasty && steps[i] < 100 {
			s.Soak = 0
		}
		w.at = i
		g = g.StartStep(analysis.Step{Index: i, Share: steps[i], Copies: 4, At: w.now(), Seeds: seeds})
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

func runWorlds(t *testing.T, releases int, c course, build func(seed uint64) *world) tally {
	t.Helper()
	if testing.Short() {
		releases /= 10
	}
	out := tally{releases: releases}
	for i := range releases {
		w := build(uint64(i))
		v, took := w.release(c)
		switch v.Outcome {
		case analysis.Fail:
			out.fail++
		case analysis.Pass:
			out.pass++
		}
		out.took = append(out.took, took.Seconds())
		if v.Outcome == analysis.Pass {
			w.finish()
		} else {
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
		{"C: both sides at 2 %", 0.005, func(seed uint64) *world { return newWorld(seed, 100, 0.02) }},
		{"D: the base rate quadruples over the hour", 0.005, func(seed uint64) *world {
			w := newWorld(seed, 100, 0.005)
			w.drift = true
			return w
		}},
		{"E: errors come in bursts of five on either side", 0.02, bursty(5)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := runWorlds(t, 400, course{s: analysis.Defaults(), lookBack: pods}, tt.build)
			if got.failed() > tt.most {
				t.Errorf("%.2f %% failed, want at most %.2f %%", 100*got.failed(), 100*tt.most)
			}
			if float64(got.pass) < 0.97*float64(got.releases) {
				t.Errorf("only %d of %d passed", got.pass, got.releases)
			}
		})
	}
}

func bursty(burst float64) func(seed uint64) *world {
	return func(seed uint64) *world {
		w := newWorld(seed, 100, 0.005)
		w.burst = burst
		return w
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
			got := runWorlds(t, 400, course{s: analysis.Defaults(), lookBack: pods}, func(seed uint64) *world {
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
// what the look back before a release is for: without it, bursts of five ring in
// every eighth hour.
func TestFalseFailsKeepToAlpha(t *testing.T) {
	for _, tt := range []struct {
		name     string
		burst    float64
		lookBack func(w *world) []analysis.Window
		most     float64
	}{
		{"independent errors", 1, nil, .01},
		{"bursts of five after a look back at the pods", 5, pods, .02},
		{"bursts of five after a look back at the clock", 5, clock, .02},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			releases := 400
			if testing.Short() {
				releases = 40
			}
			failed := 0
			for i := range releases {
				w := newWorld(uint64(i), 100, .005)
				w.burst = tt.burst
				if w.hourOfLooks(10, tt.lookBack) {
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

// hourOfLooks says whether an hour of looks that never pass comes to a fail.
func (w *world) hourOfLooks(share float64, lookBack func(w *world) []analysis.Window) bool {
	s := analysis.Defaults()
	s.MaxWindow, s.AlphaPass = time.Hour, 1e-9
	st := analysis.Step{Share: share, Copies: 4, At: w.now()}
	if lookBack != nil {
		st.Seeds = analysis.LookBack(lookBack(w))
	}
	g := analysis.Gate{}.StartStep(st)
	return w.step(&g, s, share).Outcome == analysis.Fail
}
