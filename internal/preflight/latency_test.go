package preflight

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
)

func TestLatencyIsWatchedAtBoundsFromTheLookBack(t *testing.T) {
	w := sound()
	counts := func(bad float64) analysis.Counts { return analysis.Counts{Requests: 100, Bad: bad} }
	for i := range 6 {
		from := now.Add(time.Duration(i-10) * time.Minute)
		for _, metric := range []string{"errors", "latency:0.25", "latency:7"} {
			w.past.Windows = append(w.past.Windows, analysis.Window{
				Metric: metric, From: from, To: from.Add(time.Minute), Candidate: counts(float64(5 * (i % 2))), Baseline: counts(5),
			})
		}
	}
	b := w.mustPlan(t).Release.Binding
	if want := []float64{.1, .25, .5}; !slices.Equal(b.Watch.Bounds, want) || !slices.Equal(b.Watch.Prove, want) {
		t.Errorf("it watches %v and proves %v", b.Watch.Bounds, b.Watch.Prove)
	}
	var seeded []string
	for _, s := range b.Seeds {
		seeded = append(seeded, s.Metric)
	}
	if want := []string{"errors", "latency:0.25"}; !slices.Equal(seeded, want) {
		t.Errorf("seeds of %v, want %v: what is not judged needs none", seeded, want)
	}
	if want := []string{"canary 0.1"}; !slices.Equal(w.asks, want) {
		t.Errorf("it looked back at %v, want %v", w.asks, want)
	}
	if w.asked.Bounds == nil || len(w.asked.Bounds) > 0 {
		t.Error("the look at the traffic reads durations, which nobody asks for")
	}
}

func TestTheLongestProofCountsInThePlan(t *testing.T) {
	w := sound()
	w.spec.Gate = analysis.Defaults()
	w.spec.Gate.Soak = 0
	w.answers(.3, .02, .002)
	with := w.mustPlan(t)
	w.answers() // no bounds
	without := w.mustPlan(t)
	for i, s := range with.Steps {
		o := without.Steps[i]
		if longer := s.Time > o.Time && s.Requests > o.Requests; longer != (s.Share == 25 || s.Share == 50) || s.Time < o.Time {
			t.Errorf("at %g %%: %s and %.0f requests, without latency %s and %.0f", s.Share, s.Time, s.Requests, o.Time, o.Requests)
		}
	}
}

func TestAStepThatLatencyCannotCertifyIsRefusedWithTheWayOut(t *testing.T) {
	w := sound()
	w.serves(20, 0)
	w.spec.Gate = analysis.Defaults()
	w.spec.Gate.MaxWindow = 5 * time.Minute
	w.answers(.3, .02, .002)
	f := w.mustPlan(t)
	if len(f.Findings) != 1 || f.Findings[0].Pointer != "/steps/2" {
		t.Fatalf("findings %v", f.Findings)
	}
	for _, n := range f.Findings {
		if !strings.Contains(n.Message, "take longer than 250ms") || n.Code != "uncertain" ||
			!strings.Contains(n.Fix, "gates.maxWindow") || !strings.Contains(n.Fix, "gates.maxSlowShareDelta") || !strings.Contains(n.Fix, "uncertain") {
			t.Errorf("%s: %s (%s)", n.Pointer, n.Message, n.Fix)
		}
	}
	w.spec.Allow = []release.Allow{release.AllowUncertain}
	if f = w.mustPlan(t); len(f.Findings) > 0 || len(f.Warnings) == 0 || f.Steps[2].Certifiable {
		t.Errorf("allowed: findings %v, warnings %v", f.Findings, f.Warnings)
	}
}

func TestWhereLatencyCannotBeJudgedTheErrorsAreAndThePlanSaysSo(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*world)
		says   string
	}{
		"the source does not read durations": {func(w *world) { w.sight.Latency = false }, "not read from this metrics source"},
		"there are none":                     {func(w *world) { w.past = release.Past{} }, "no durations"},
		"there are few":                      {func(w *world) { w.past.Buckets = []analysis.Bucket{{Bound: 1, Count: 9}} }, "only 9 requests"},
		"the buckets are too wide":           {func(w *world) { w.answers(.0001) }, "finer buckets"},
		"the look back fails":                {func(w *world) { w.pastErr = errors.New("no answer within 4s") }, "no answer within 4s"},
	} {
		t.Run(name, func(t *testing.T) {
			w := sound()
			tt.change(w)
			f := w.mustPlan(t)
			if len(f.Findings) > 0 || len(f.Warnings) != 1 || f.Warnings[0].Code != "latencyNotJudged" || !strings.Contains(f.Warnings[0].Message, tt.says) {
				t.Errorf("findings %v, warnings %v", f.Findings, f.Warnings)
			}
			if n := len(f.Release.Binding.Watch.Bounds); n > 0 {
				t.Errorf("%d bounds are watched", n)
			}
			w.spec.Gate = analysis.Defaults()
			w.spec.Gate.RequireLatency = true
			if f := w.mustPlan(t); len(f.Findings) != 1 || f.Findings[0].Pointer != "/gates/requireLatency" || f.Findings[0].Fix == "" {
				t.Errorf("required: findings %v", f.Findings)
			}
			w.spec.Gate.RequireLatency, w.spec.Gate.MaxSlowShareDelta, w.spec.Gate.MaxSlowShareRatio = false, 0, 0
			if f := w.mustPlan(t); len(f.Findings)+len(f.Warnings) > 0 {
				t.Errorf("not asked for: findings %v, warnings %v", f.Findings, f.Warnings)
			}
		})
	}
}

func TestWhatTheMetricsLeaveOutIsAWarning(t *testing.T) {
	w := sound()
	w.sight.Cannot = []string{"it sees half of it"}
	if f := w.mustPlan(t); len(f.Warnings) != 1 || f.Warnings[0].Code != "metricsLimited" || !strings.Contains(f.Warnings[0].Message, "envoy: it sees half of it") {
		t.Errorf("warnings %v", f.Warnings)
	}
}

func TestBoundsThatNobodyFeelsAreNotWatched(t *testing.T) {
	inf := math.Inf(1)
	for name, tt := range map[string]struct {
		buckets       map[float64]float64
		bounds, prove []float64
		why           string
	}{
		"a usual service": {map[float64]float64{.1: 700, .25: 980, .5: 998, inf: 1000}, []float64{.1, .25, .5}, []float64{.1, .25, .5}, ""},
		"a quick one": {
			map[float64]float64{.001: 300, .002: 700, .005: 960, .01: 985, .025: 997, inf: 1000},
			[]float64{.005, .01, .025},
			[]float64{.005, .025},
			"",
		},
		"one that is never felt": {
			map[float64]float64{.0005: 500, .001: 900, .002: 990, .005: 1000, .01: 1000, .025: 1000, inf: 1000},
			[]float64{.005, .01},
			[]float64{.005},
			"",
		},
		"buckets that end too early": {map[float64]float64{.0005: 500, .001: 900, .002: 1000, inf: 1000}, nil, nil, "end below 5 ms"},
		"buckets that tell nothing":  {map[float64]float64{.005: 1000, inf: 1000}, nil, nil, "finer buckets"},
	} {
		var buckets []analysis.Bucket
		for b, n := range tt.buckets {
			buckets = append(buckets, analysis.Bucket{Bound: b, Count: n})
		}
		w, why := bounds(buckets)
		if !slices.Equal(w.Bounds, tt.bounds) || !slices.Equal(w.Prove, tt.prove) || (why == "") != (tt.why == "") || !strings.Contains(why, tt.why) {
			t.Errorf("%s: it watches %v and proves %v (%s)", name, w.Bounds, w.Prove, why)
		}
	}
}
