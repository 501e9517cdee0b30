package analysis_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// histogram is what a mesh with a median of 60 ms shows, in seconds.
func histogram() []analysis.Bucket {
	w := newSlowWorld(1)
	return w.buckets(90000, 1, 0)
}

func TestBoundsAreChosenFromTheBaseline(t *testing.T) {
	many := func() (out []analysis.Bucket) {
		for i := range 20 {
			out = append(out, analysis.Bucket{Bound: float64(i + 1), Count: 1000 - 40*float64(19-i)})
		}
		return out
	}
	tests := []struct {
		name          string
		buckets       []analysis.Bucket
		percentiles   []float64
		bounds, prove []float64
		why           string
	}{
		{"the usual histogram", histogram(), analysis.Percentiles(), []float64{.05, .1, .25}, []float64{.1, .25}, ""},
		{"percentiles of one bound make one proof", histogram(), []float64{95, 99}, []float64{.05, .1, .25}, []float64{.25}, ""},
		{"the largest of many, six in all", many(), []float64{50, 90}, []float64{8, 15, 16, 17, 18, 19}, []float64{8, 18}, ""},
		{"nothing seen", nil, analysis.Percentiles(), nil, nil, "no request"},
		{"not a number", []analysis.Bucket{{Bound: 1, Count: math.NaN()}, {Bound: math.NaN(), Count: 1}}, analysis.Percentiles(), nil, nil, "no request"},
		{"all in one bucket", []analysis.Bucket{{Bound: 1, Count: 1000}, {Bound: 2, Count: 1000}}, analysis.Percentiles(), nil, nil, "only 0"},
		{"one useful bound", []analysis.Bucket{{Bound: 1, Count: 500}, {Bound: 2, Count: 1000}}, analysis.Percentiles(), nil, nil, "only 1"},
		{"buckets that end too early", []analysis.Bucket{{Bound: 1, Count: 300}, {Bound: 2, Count: 400}, {Bound: math.Inf(1), Count: 1000}}, []float64{50}, nil, nil, "end too early"},
		{
			"counts that fall are forced to rise",
			[]analysis.Bucket{{Bound: 2, Count: 890}, {Bound: 1, Count: 900}, {Bound: 3, Count: 950}, {Bound: 4, Count: 1000}},
			[]float64{90},
			[]float64{1, 2, 3},
			[]float64{1},
			"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, why := analysis.Bounds(tt.buckets, tt.percentiles...)
			if !slices.Equal(w.Bounds, tt.bounds) || !slices.Equal(w.Prove, tt.prove) {
				t.Errorf("got %v, of which %v are proven", w.Bounds, w.Prove)
			}
			if (why == "") != (tt.why == "") || !strings.Contains(why, tt.why) {
				t.Errorf("it says %q", why)
			}
		})
	}
}

func TestOrderOfBucketsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buckets := histogram()
		want, _ := analysis.Bounds(buckets, analysis.Percentiles()...)
		got, why := analysis.Bounds(rapid.Permutation(buckets).Draw(t, "buckets"), analysis.Percentiles()...)
		if why != "" || !slices.Equal(got.Bounds, want.Bounds) || !slices.Equal(got.Prove, want.Prove) {
			t.Fatalf("got %+v (%s), want %+v", got, why, want)
		}
	})
}

func TestMetricNamesAreReadAsTheyAreWritten(t *testing.T) {
	for _, m := range []analysis.Metric{{Kind: analysis.MetricErrors}, analysis.Latency(.25), analysis.Latency(1e-9), analysis.Latency(10)} {
		if got, ok := analysis.MetricOf(m.String()); !ok || got != m {
			t.Errorf("%s is read as %+v", m, got)
		}
	}
	for _, name := range []string{"", "colour", "latency", "latency:", "latency:0", "latency:-1", "latency:NaN", "latency:+Inf", "latency:0.250", "errors:1", "cpu"} {
		if _, ok := analysis.MetricOf(name); ok {
			t.Errorf("%q is a metric", name)
		}
	}
}

// quarter is watched and proven at 250 ms.
var quarter = analysis.Watch{Bounds: []float64{.1, .25}, Prove: []float64{.25}}

// slow makes n windows of requests slower than a bound.
func slow(bound float64, i, n int, n1, x1, n0, x0 float64) []analysis.Window {
	return change(scrapes(i, n, n1, x1, n0, x0), func(w *analysis.Window) { w.Metric = analysis.Latency(bound).String() })
}

func watching(w analysis.Watch, steps ...analysis.Step) []analysis.Step {
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].Watch = w
	}
	return steps
}

func TestVerdictsOnLatency(t *testing.T) {
	quick := concat(scrapes(0, 20, 150, 0, 1350, 0), slow(.25, 0, 20, 150, 1, 1350, 12), slow(.1, 0, 20, 150, 30, 1350, 270))
	lost := concat(scrapes(0, 20, 150, 0, 1350, 0), slow(.25, 0, 10, 150, 1, 1350, 12))
	off := func(s *analysis.Settings) { s.MaxSlowShareDelta, s.MaxSlowShareRatio = 0, 0 }
	tests := []judged{
		{
			"as fast as the baseline passes",
			nil, watching(quarter, ten...), quick, 20,
			analysis.Health{},
			analysis.Pass, analysis.Certified, "",
		},
		{
			"much slower fails, and says where",
			nil, watching(quarter, ten...), concat(scrapes(0, 3, 150, 0, 1350, 0), slow(.25, 0, 3, 150, 30, 1350, 12), slow(.1, 0, 3, 150, 60, 1350, 270)), 3,
			analysis.Health{},
			analysis.Fail, analysis.Regression, "90 of 450 requests of the candidate (20.0 %) took longer than 250 ms",
		},
		{
			"slower at a bound that is only watched fails too",
			nil, watching(quarter, ten...), concat(scrapes(0, 4, 150, 0, 1350, 0), slow(.25, 0, 4, 150, 1, 1350, 12), slow(.1, 0, 4, 150, 90, 1350, 270)), 4,
			analysis.Health{},
			analysis.Fail, analysis.Regression, "took longer than 100 ms",
		},
		{
			"faster is never bad",
			nil, watching(quarter, ten...), concat(scrapes(0, 20, 150, 0, 1350, 0), slow(.25, 0, 20, 150, 0, 1350, 270)), 20,
			analysis.Health{},
			analysis.Pass, analysis.Certified, "",
		},
		{
			"a share that is not proven to be within its margin holds",
			noSoak, watching(quarter, ten...), concat(scrapes(0, 6, 150, 0, 1350, 0), slow(.25, 0, 6, 60, 15, 540, 108)), 6,
			analysis.Health{},
			analysis.Inconclusive, analysis.NotCertified, "requests slower than 250 ms",
		},
		{
			"too few requests with a latency hold",
			noSoak, watching(quarter, ten...), concat(scrapes(0, 6, 150, 0, 1350, 0), slow(.25, 0, 6, 10, 0, 90, 0)), 6,
			analysis.Health{},
			analysis.Inconclusive, analysis.InsufficientRequests, "60 of 300 requests on the candidate, in requests slower than 250 ms",
		},
		{
			"latency that was there and vanished is a gap",
			nil, watching(quarter, ten...), lost, 20,
			analysis.Health{},
			analysis.Inconclusive, analysis.TelemetryGap, "latency:0.25 data end",
		},
		{
			"latency that never came is one too, once the errors come",
			noSoak, watching(quarter, ten...), scrapes(0, 6, 150, 0, 1350, 0), 6,
			analysis.Health{},
			analysis.Inconclusive, analysis.TelemetryGap, "latency:0.25 data end",
		},
		{
			"and beyond the grace unavailable",
			noSoak, watching(quarter, ten...), scrapes(0, 12, 150, 0, 1350, 0), 12,
			analysis.Health{},
			analysis.Inconclusive, analysis.TelemetryUnavailable, "latency:0.25 data end",
		},
		{
			"latency that is not watched is not asked for",
			nil, ten, concat(scrapes(0, 20, 150, 0, 1350, 0), slow(.25, 0, 20, 150, 100, 1350, 1)), 20,
			analysis.Health{},
			analysis.Pass, analysis.Certified, "",
		},
		{
			"nor where its margins are left out",
			off, watching(quarter, ten...), scrapes(0, 20, 150, 0, 1350, 0), 20,
			analysis.Health{},
			analysis.Pass, analysis.Certified, "",
		},
		{
			"where it is required and not there nothing passes",
			func(s *analysis.Settings) { s.RequireLatency = true }, ten, scrapes(0, 20, 150, 0, 1350, 0), 20,
			analysis.Health{},
			analysis.Inconclusive, analysis.NotCertified, "latency is required",
		},
		{
			"at 100 there is nothing to compare it with",
			nil, watching(quarter, hundred...), concat(half, slow(.25, 0, 40, 800, 4, 800, 4), scrapes(40, 20, 1600, 8, 0, 0)), 60,
			analysis.Health{},
			analysis.Pass, analysis.SoakClean, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t) })
	}
}

// gauges make a value of both sides for every scrape of n minutes.
func gauges(metric string, i, minutes int, ratio func(minute int) float64) []analysis.Usage {
	var out []analysis.Usage
	for k := i; k < i+4*minutes; k++ {
		out = append(out, analysis.Usage{
			Metric: metric, From: at(time.Duration(k) * scrape), To: at(time.Duration(k+1) * scrape),
			Candidate: .02 * ratio((k-i)/4), Baseline: .02,
		})
	}
	return out
}

// about wavers about a ratio by five percent.
func about(ratio float64) func(int) float64 {
	return func(minute int) float64 { return ratio * (1 + .05*float64(minute%3-1)) }
}

func TestVerdictsOnSaturation(t *testing.T) {
	cpu := analysis.Watch{Usage: []string{analysis.MetricCPU}}
	advisory := cpu
	advisory.Advisory = true
	for _, tt := range []struct {
		name    string
		watch   analysis.Watch
		change  func(*analysis.Settings)
		usage   []analysis.Usage
		minutes int
		outcome analysis.Outcome
		reason  analysis.Reason
		note    string
	}{
		{"the same use passes", cpu, nil, gauges(analysis.MetricCPU, 0, 10, about(1)), 10, analysis.Pass, analysis.Certified, ""},
		{"twice the use fails after ten minutes", cpu, nil, gauges(analysis.MetricCPU, 0, 12, about(2)), 12, analysis.Fail, analysis.Regression, "cpu of the candidate was 2.00 times"},
		{"not before", cpu, nil, gauges(analysis.MetricCPU, 0, 9, about(2)), 9, analysis.Inconclusive, analysis.NotCertified, "stays below 1.3 times"},
		{"a quarter more is not proven to stay below 1.3 times", cpu, nil, gauges(analysis.MetricCPU, 0, 8, about(1.25)), 8, analysis.Inconclusive, analysis.NotCertified, "1.24 times"},
		{"too few minutes prove nothing", cpu, nil, gauges(analysis.MetricCPU, 0, 4, about(1)), 4, analysis.Inconclusive, analysis.NotCertified, "over 4 minutes"},
		{"where it is advisory it decides nothing", advisory, nil, gauges(analysis.MetricCPU, 0, 12, about(2)), 12, analysis.Pass, analysis.Certified, ""},
		{"nor where it is not judged", cpu, func(s *analysis.Settings) { s.MaxCPURatio = 0 }, gauges(analysis.MetricCPU, 0, 12, about(2)), 12, analysis.Pass, analysis.Certified, ""},
		{"use that vanished holds", cpu, nil, gauges(analysis.MetricCPU, 0, 8, about(1)), 12, analysis.Inconclusive, analysis.TelemetryUnavailable, "cpu data end"},
		{"zero and not a number are no use", cpu, nil, gauges(analysis.MetricCPU, 0, 6, func(int) float64 { return math.NaN() }), 6, analysis.Inconclusive, analysis.TelemetryUnavailable, "cpu data end"},
		{"required and not watched holds", analysis.Watch{}, func(s *analysis.Settings) { s.RequireSaturation = true }, nil, 6, analysis.Inconclusive, analysis.NotCertified, "saturation is required"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := analysis.Defaults()
			s.Soak = 0
			if tt.change != nil {
				tt.change(&s)
			}
			now := at(time.Duration(tt.minutes) * time.Minute)
			g := analysis.Gate{}.StartStep(watching(tt.watch, ten...)[0])
			g = g.Add(s, scrapes(0, 4*tt.minutes, 150, 0, 1350, 0)).AddUsage(tt.usage)
			v := g.Verdict(s, analysis.Health{Scrape: scrape}, now)
			if v.Outcome != tt.outcome || v.Reason != tt.reason || !strings.Contains(strings.Join(v.Notes, "\n"), tt.note) {
				t.Errorf("got %s (%s): %q", v.Outcome, v.Reason, v.Notes)
			}
			if tt.outcome == analysis.Fail && v.Metric != analysis.MetricCPU {
				t.Errorf("%s dominates", v.Metric)
			}
		})
	}
}

func TestUsageInPiecesEqualsUsageAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		us := append(gauges(analysis.MetricCPU, 0, 6, about(1.2)), gauges(analysis.MetricMemory, 0, 6, about(.9))...)
		for i := range us {
			if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
				us[i].Candidate = rapid.SampledFrom([]float64{0, -1, math.NaN(), math.Inf(1), 1e300}).Draw(t, "value")
			}
		}
		slices.SortStableFunc(us, func(a, b analysis.Usage) int { return a.To.Compare(b.To) })
		start := analysis.Gate{}.StartStep(watching(analysis.Watch{Usage: []string{"memory", "cpu"}}, ten...)[0])
		pieces := start
		for i := 0; i < len(us); {
			end := min(i+rapid.IntRange(1, 9).Draw(t, "piece"), len(us))
			pieces = decode(t, encode(t, pieces.AddUsage(us[max(0, i-rapid.IntRange(0, 3).Draw(t, "again")):end])))
			i = end
		}
		if a, b := encode(t, pieces), encode(t, start.AddUsage(us)); a != b {
			t.Fatalf("in pieces %s\nat once   %s", a, b)
		}
	})
}

func TestWeightsAreHandedOverByMetricsThatAreNotThere(t *testing.T) {
	weights := func(w analysis.Watch) map[string]float64 {
		s := analysis.Defaults()
		out := map[string]float64{}
		for _, p := range (analysis.Gate{}).StartStep(watching(w, ten...)[0]).Verdict(s, analysis.Health{}, origin).Parts {
			out[p.Metric] = math.Round(1000 * p.Weight)
		}
		return out
	}
	both := []string{analysis.MetricCPU, analysis.MetricMemory}
	for name, tt := range map[string]struct {
		watch analysis.Watch
		want  map[string]float64
	}{
		"errors alone":            {analysis.Watch{}, map[string]float64{"errors": 1000}},
		"errors and latency":      {analysis.Watch{Bounds: []float64{.25}}, map[string]float64{"errors": 588, "latency:0.25": 412}},
		"all":                     {analysis.Watch{Bounds: []float64{.25}, Usage: both}, map[string]float64{"errors": 500, "latency:0.25": 350, "cpu": 75, "memory": 75}},
		"saturation for a remark": {analysis.Watch{Usage: both, Advisory: true}, map[string]float64{"errors": 1000, "cpu": 0, "memory": 0}},
	} {
		got := weights(tt.watch)
		if len(got) != len(tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
		for metric, w := range tt.want {
			if got[metric] != w {
				t.Errorf("%s: got %v, want %v", name, got, tt.want)
			}
		}
	}
}

func TestLatencyThatComesLaterMustBeProvenAndHasNoSayInAFail(t *testing.T) {
	steps := append(slices.Clone(ten), watching(quarter, stepAt(1, 25, 20))...)
	bad := concat(scrapes(0, 20, 150, 0, 1350, 0), scrapes(20, 20, 375, 0, 1125, 0), slow(.25, 20, 20, 375, 90, 1125, 12))
	v := judged{"", nil, steps, bad, 40, analysis.Health{}, analysis.Inconclusive, analysis.NotCertified, "250 ms"}.run(t)
	if len(v.Parts) != 3 || v.Parts[2].Weight != 0 || !v.Parts[2].Proves {
		t.Errorf("got %+v", v.Parts)
	}
}

func TestBoundsMayChangeFromStepToStep(t *testing.T) {
	other := analysis.Watch{Bounds: []float64{.5}, Prove: []float64{.5}}
	steps := append(watching(quarter, ten...), watching(other, stepAt(1, 25, 20))...)
	good := concat(
		scrapes(0, 20, 150, 0, 1350, 0), slow(.25, 0, 20, 150, 1, 1350, 9), slow(.1, 0, 20, 150, 30, 1350, 270),
		scrapes(20, 20, 375, 0, 1125, 0), slow(.5, 20, 20, 375, 1, 1125, 3),
	)
	v := judged{"", nil, steps, good, 40, analysis.Health{}, analysis.Pass, analysis.Certified, ""}.run(t)
	sum := map[string]float64{}
	for _, p := range v.Parts {
		kind, _, _ := strings.Cut(p.Metric, ":")
		sum[kind] += p.Rest
		for _, c := range p.Copies {
			sum[kind] += c.Weight
		}
	}
	if math.Abs(sum["errors"]-1) > 1e-12 || math.Abs(sum["latency"]-1) > 1e-12 {
		t.Errorf("the weights of the copies add to %v", sum)
	}
}

func TestVerdictFollowsFromItsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, s := anyHistory().Draw(t, "history"), settingsOf(t)
		v := analysis.Judge(s, h.steps, h.windows, analysis.Health{Fresh: h.now, Scrape: scrape}, h.now)
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var read analysis.Verdict
		if err := json.Unmarshal(b, &read); err != nil {
			t.Fatal(err)
		}
		read.LogFail = 0 // it must come from the parts
		o, why := read.Again(s)
		if o != v.Outcome || o == analysis.Fail && why != v.Reason {
			t.Fatalf("from its numbers it is %s (%s): %s", o, why, b)
		}
	})
}

func TestLookBackSeedsTheDispersionOnce(t *testing.T) {
	var clumps []analysis.Window
	for i := range 120 { // bursts of ten on one side or the other
		x1, x0 := 0., 10.
		if i%2 == 0 {
			x1, x0 = 10, 0
		}
		clumps = append(clumps, scrapes(i, 1, 1000, x1, 1000, x0)...)
	}
	seeds := analysis.LookBack(clumps)
	if len(seeds) != 1 || seeds[0].Metric != analysis.MetricErrors || seeds[0].Terms < 50 {
		t.Fatalf("got %+v", seeds)
	}
	st := ten[0]
	st.Seeds = seeds
	d := func(g analysis.Gate) float64 {
		return g.Verdict(analysis.Defaults(), analysis.Health{}, origin).Dispersion
	}
	g := analysis.Gate{}.StartStep(st)
	if v := d(g); v < 5 || v > 25 {
		t.Errorf("bursts of ten give a dispersion of %v", v)
	}
	next := stepAt(1, 25, 20)
	next.Seeds = []analysis.Seed{{Metric: analysis.MetricErrors, Pearson: 0, Terms: 1000}}
	if got := d(g.StartStep(next)); got != d(g) {
		t.Errorf("a second look back changed it from %v to %v", d(g), got)
	}
	if strings.Contains(encode(t, g), "seeds") {
		t.Error("the seeds are kept twice")
	}
	for name, ws := range map[string][]analysis.Window{
		"nothing":        nil,
		"another metric": change(slices.Clone(clumps), func(w *analysis.Window) { w.Metric = "colour" }),
		"not a number":   change(slices.Clone(clumps), func(w *analysis.Window) { w.Candidate.Bad = math.NaN() }),
	} {
		for _, s := range analysis.LookBack(ws) {
			t.Errorf("%s gives %+v", name, s)
		}
	}
}

func TestPodsAreSplitLikeTheShare(t *testing.T) {
	pods := func(n int) (out []analysis.PodCounts) {
		for i := range n {
			out = append(out, analysis.PodCounts{Pod: string(rune('a' + i)), Counts: analysis.Counts{Requests: 100, Bad: float64(i)}})
		}
		return out
	}
	c, b, ok := analysis.SplitPods(pods(10), .25)
	if !ok || c.Requests != 300 || b.Requests != 700 || c.Bad+b.Bad != 45 {
		t.Errorf("a quarter of ten is %v and %v", c, b)
	}
	back := pods(10)
	slices.Reverse(back)
	if c2, _, _ := analysis.SplitPods(back, .25); c2 != c {
		t.Error("the order of the pods matters")
	}
	if c, b, ok := analysis.SplitPods(pods(2), .01); !ok || c.Requests != 100 || b.Requests != 100 {
		t.Errorf("two pods are %v and %v", c, b)
	}
	if _, _, ok := analysis.SplitPods(pods(1), .5); ok {
		t.Error("one pod was split")
	}
	if _, _, ok := analysis.SplitPods(nil, .5); ok {
		t.Error("no pod was split")
	}
}

func TestAlphaIsSpentOnceOverTheStages(t *testing.T) {
	s := analysis.Defaults()
	h := analysis.Health{Scrape: scrape}
	st := stepAt(0, 10, 0)
	st.Copies = 4 // two of each stage
	bad := func(i int, x float64) []analysis.Window { return scrapes(i, 1, 300, x, 2700, 0) }
	first := analysis.Gate{}.StartStep(st).Add(s, bad(0, 3))
	before := first.Verdict(s, h, at(scrape))
	next := first.NextStage()
	if v := next.Verdict(s, h, at(scrape)); v.LogFail != before.LogFail || v.Candidate.Requests != 0 || v.Harm != (analysis.Interval{}) {
		t.Errorf("the end of a stage changed the evidence: %+v", v)
	}
	if text := encode(t, next); encode(t, decode(t, text)) != text {
		t.Errorf("it does not survive being written: %s", text)
	}
	next = next.Add(s, scrapes(1, 5, 300, 300, 2700, 0)) // between stages nothing is judged
	next = next.StartStep(stepAt(0, 10, 10)).Add(s, scrapes(10, 5, 300, 0, 2700, 0))
	v := next.Verdict(s, h, at(15*scrape))
	if len(v.Parts[0].Copies) != 2 || v.Parts[0].Copies[0] != before.Parts[0].Copies[0] {
		t.Errorf("the first stage's copy did not stay as it was: %+v", v.Parts[0].Copies)
	}
	if sum := v.Parts[0].Copies[0].Weight + v.Parts[0].Copies[1].Weight + v.Parts[0].Rest; math.Abs(sum-1) > 1e-12 {
		t.Errorf("the weights add to %v", sum)
	}
	// A second stage's evidence needs as much as a later step's: 96 / 5 < 100.
	if v := next.Add(s, bad(15, 4)).Verdict(s, h, at(16*scrape)); v.Outcome == analysis.Fail {
		t.Error("a second stage failed on its own, as if alpha were spent anew")
	}
}

func TestRestartNeitherResetsNorMultipliesAlpha(t *testing.T) {
	s := analysis.Defaults()
	ws := concat(scrapes(0, 6, 150, 2, 1350, 2), slow(.25, 0, 6, 150, 9, 1350, 12))
	g := analysis.Gate{}.StartStep(watching(quarter, ten...)[0]).Add(s, ws)
	again := g
	for range 10 {
		again = decode(t, encode(t, again)).RestartProof(at(6*scrape)).Add(s, ws)
	}
	a, b := g.Verdict(s, analysis.Health{}, at(6*scrape)), again.Verdict(s, analysis.Health{}, at(6*scrape))
	if a.LogFail != b.LogFail || a.LogFailRaw != b.LogFailRaw {
		t.Errorf("restarts took the evidence from %v to %v", a.LogFailRaw, b.LogFailRaw)
	}
}

func TestDangerousPodsFailAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		pods analysis.Pods
		note string
	}{
		"an OOM kill":     {analysis.Pods{OOMKills: 1}, "killed for their memory"},
		"two restarts":    {analysis.Pods{Restarts: 2}, "restarted 2 times"},
		"memory runs out": {analysis.Pods{Memory: .95}, "95.0 % of its memory limit"},
	} {
		t.Run(name, func(t *testing.T) {
			judged{"", nil, ten, clean, 6, analysis.Health{Pods: tt.pods}, analysis.Fail, analysis.SafetyLimit, tt.note}.run(t)
		})
	}
	judged{"one restart is none", noSoak, ten, clean, 6, analysis.Health{Pods: analysis.Pods{Restarts: 1, Memory: .9}}, analysis.Pass, analysis.Certified, ""}.run(t)
}

func TestEvidenceOfWindowsMultiplies(t *testing.T) {
	s := analysis.Defaults()
	log := func(ws ...analysis.Window) (fail, pass float64) {
		one := s
		one.MaxErrorRateRatio = 0
		v := analysis.JudgeRecorded(one, analysis.Fixed{StepMargin: .025, Dispersion: 1}, ws)
		return v.LogFailRaw, v.LogPass
	}
	rapid.Check(t, func(t *rapid.T) {
		// With one split, windows by themselves are worth what their sum is.
		n, k := rapid.Float64Range(10, 1000).Draw(t, "requests"), rapid.IntRange(1, 8).Draw(t, "windows")
		var ws []analysis.Window
		var sum analysis.Window
		for range k {
			w := analysis.Window{
				Candidate: analysis.Counts{Requests: n, Bad: n * rapid.Float64Range(0, .2).Draw(t, "x1")},
				Baseline:  analysis.Counts{Requests: 9 * n, Bad: n * rapid.Float64Range(0, .2).Draw(t, "x0")},
			}
			ws = append(ws, w)
			sum.Candidate, sum.Baseline = sum.Candidate.Add(w.Candidate), sum.Baseline.Add(w.Baseline)
		}
		f1, p1 := log(ws...)
		f2, p2 := log(sum)
		if math.Abs(f1-f2) > 1e-9*(1+math.Abs(f1)) || math.Abs(p1-p2) > 1e-9*(1+math.Abs(p1)) {
			t.Fatalf("apart %v and %v, together %v and %v", f1, p1, f2, p2)
		}
		f3, _ := log(rapid.Permutation(ws).Draw(t, "order")...)
		if math.Abs(f1-f3) > 1e-9*(1+math.Abs(f1)) {
			t.Fatalf("the order matters: %v and %v", f1, f3)
		}
	})
}

func TestOneMoreBadEventNeverHelpsAtFixedDispersion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := settingsOf(t)
		f := analysis.Fixed{StepMargin: .025, Dispersion: rapid.Float64Range(1, 30).Draw(t, "dispersion")}
		var ws []analysis.Window
		for k := range rapid.IntRange(1, 5).Draw(t, "windows") {
			ws = append(ws, anyWindow(k, 10, "").Draw(t, "window"))
		}
		before := analysis.JudgeRecorded(s, f, ws)
		i := rapid.IntRange(0, len(ws)-1).Draw(t, "where")
		if ws[i].Candidate.Bad++; ws[i].Candidate.Bad > ws[i].Candidate.Requests {
			return
		}
		after := analysis.JudgeRecorded(s, f, ws)
		if after.LogPass > before.LogPass+1e-9 || after.LogFailRaw < before.LogFailRaw-1e-9 || before.Material && !after.Material {
			t.Fatalf("before %+v\nafter %+v", before, after)
		}
	})
}

func TestNothingRecordedNeverPasses(t *testing.T) {
	odd := []float64{0, math.NaN(), math.Inf(1), -1}
	for _, n1 := range odd {
		for _, n0 := range odd {
			w := analysis.Window{Candidate: analysis.Counts{Requests: n1}, Baseline: analysis.Counts{Requests: n0}}
			for _, ws := range [][]analysis.Window{nil, {w}, {w, w}} {
				if v := analysis.JudgeRecorded(analysis.Defaults(), analysis.Fixed{StepMargin: 1, Dispersion: math.NaN()}, ws); v.Outcome != analysis.Inconclusive {
					t.Errorf("%v and %v requests: %s", n1, n0, v.Outcome)
				}
			}
		}
	}
}

// oldGate was written before there was anything but errors.
const oldGate = `{"v":1,"step":{"index":1,"share":25,"prev":10,"copies":4,"at":"2026-03-01T12:05:00Z"},"planned":4,` +
	`"began":"2026-03-01T12:00:00Z","since":"2026-03-01T12:05:00Z","newest":"2026-03-01T12:06:00Z",` +
	`"seen":{"c":{"requests":400,"bad":1},"b":{"requests":1200,"bad":2}},"gated":{"at":"2026-03-01T12:05:00Z","baseline":{"requests":1200,"bad":2}},` +
	`"guard":{"logs":[0,0,0,0,0,0,0]},"harm":{"alone":{"requests":0,"bad":0}},"metrics":[{"metric":"errors","copies":[` +
	`{"at":"2026-03-01T12:00:00Z","logs":[1,1,1,1,1,1,1],"totals":{"c":{"requests":800,"bad":9},"b":{"requests":4000,"bad":4}}},` +
	`{"at":"2026-03-01T12:05:00Z","logs":[2,2,2,2,2,2,2],"totals":{"c":{"requests":400,"bad":1},"b":{"requests":1200,"bad":2}}}],` +
	`"proof":{"delta":[null,1,1,1,1],"ratio":[null,1,1,1,1],"paired":{"c":{"requests":400,"bad":1},"b":{"requests":1200,"bad":2}},` +
	`"all":{"c":{"requests":400,"bad":1},"b":{"requests":1200,"bad":2}},"scrapes":4,"last":"2026-03-01T12:06:00Z"},` +
	`"spread":{"q":3,"k":4},"strata":[{"until":"2026-03-01T12:06:00Z","sum":{"c":{"requests":0,"bad":0},"b":{"requests":0,"bad":0}},` +
	`"wait":{"c":{"requests":0,"bad":0},"b":{"requests":0,"bad":0}}}]}]}`

func TestOldRecordsAreStillRead(t *testing.T) {
	g := decode(t, oldGate)
	s := analysis.Defaults()
	s.MaxSlowShareDelta, s.MaxSlowShareRatio, s.MaxCPURatio, s.MaxMemoryRatio = 0, 0, 0, 0 // an old record's settings
	v := g.Verdict(s, analysis.Health{Scrape: scrape}, at(6*time.Minute))
	copies := v.Parts[0].Copies
	if len(copies) != 2 || copies[0].Weight != .4 || math.Abs(copies[1].Weight-.2) > 1e-12 || math.Abs(v.Parts[0].Rest-.4) > 1e-12 {
		t.Errorf("got %+v", v.Parts)
	}
	// The first copy is material, the second is not: 0.4 e + 0.4.
	if want := math.Log(.4*math.E + .4); math.Abs(v.LogFail-want) > 1e-12 {
		t.Errorf("M is %v, want %v", v.LogFail, want)
	}
	if got := g.StartStep(stepAt(2, 50, 40)).Verdict(s, analysis.Health{}, at(10*time.Minute)); len(got.Parts[0].Copies) != 3 {
		t.Errorf("it does not go on: %+v", got.Parts)
	}
}
