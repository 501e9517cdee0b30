package analysis

import (
	"math"
	"testing"
	"time"
)

// cumulative is the reference histogram: bounds in seconds, the last is +Inf.
func cumulative() []Bucket {
	le := []float64{.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, math.Inf(1)}
	n := []float64{0, 0, 2, 10, 40, 280, 700, 940, 975, 990, 998, 1000, 1000, 1000}
	var out []Bucket
	for i := range le {
		out = append(out, Bucket{le[i] / 1000, n[i]})
	}
	return out
}

func TestQuantilesReproduceTheirVectors(t *testing.T) {
	for _, tt := range []struct{ q, ms float64 }{{.5, 76.1905}, {.9, 225}, {.95, 321.4286}, {.99, 1000}, {.999, 3750}} {
		near(t, "the quantile", 1000*Quantile(tt.q, cumulative()), tt.ms, 1e-4)
	}
	all := []Bucket{{.01, 0}, {10, 0}, {math.Inf(1), 10}}
	near(t, "all beyond the last bound", Quantile(.99, all), 10, 0)
	if got := QuantileText(.99, all); got != ">10 s" {
		t.Errorf("it is written as %q", got)
	}
	if got := QuantileText(.5, cumulative()); got != "76.19 ms" {
		t.Errorf("the median is written as %q", got)
	}
	if got := QuantileText(.5, nil); got != "unknown" || !math.IsNaN(Quantile(.5, nil)) {
		t.Errorf("of nothing it is %q", got)
	}
}

func TestQuantileLiesBetweenSureBounds(t *testing.T) {
	for _, tt := range []struct{ q, low, high float64 }{{.5, .05, .1}, {.9, .1, .25}, {.99, .5, 5}, {.9999, 1, math.Inf(1)}} {
		low, high := QuantileBetween(tt.q, cumulative())
		if low != tt.low || high != tt.high {
			t.Errorf("%v lies between %v and %v, want %v and %v", tt.q, low, high, tt.low, tt.high)
		}
		if v := Quantile(tt.q, cumulative()); v < low || v > high {
			t.Errorf("%v is %v, outside its own bounds", tt.q, v)
		}
	}
}

func TestHistogramsThatTellNothingAreDegenerate(t *testing.T) {
	for name, tt := range map[string]struct {
		buckets []Bucket
		want    bool
	}{
		"the usual":               {cumulative(), false},
		"all in the first bucket": {[]Bucket{{.1, 995}, {1, 1000}, {math.Inf(1), 1000}}, true},
		"all beyond the last":     {[]Bucket{{.1, 1}, {1, 5}, {math.Inf(1), 1000}}, true},
		"no requests":             {nil, false},
	} {
		if Degenerate(tt.buckets) != tt.want {
			t.Errorf("%s: not %v", name, tt.want)
		}
	}
}

func TestBandWidthReproducesItsVectors(t *testing.T) {
	for n, want := range map[float64]float64{300: .16638, 1000: .09178, 9000: .03091, 100000: .00936} {
		near(t, "the half-width", BandWidth(n, .01), want, 5e-6)
	}
	if BandWidth(0, .01) != 1 || BandWidth(math.NaN(), .01) != 1 || BandWidth(10, 0) != 1 {
		t.Error("nothing known is anything")
	}
}

func TestSaturationReproducesItsVectors(t *testing.T) {
	var m moments
	for _, y := range []float64{.10, .20, .15, .30, .05, .12, .20, .18, .22, .16} {
		m = m.add(y)
	}
	near(t, "the mean", m.Mean, .168, 1e-12)
	for _, tt := range []struct{ theta, t, e float64 }{{0, 7.636364, 696.5593}, {math.Log(1.05), 5.418629, 115.7638}, {math.Log(1.3), -4.289285, 0}} {
		near(t, "t", (m.Mean-tt.theta)*math.Sqrt(10)/m.sd(), tt.t, 1e-6)
		near(t, "e", math.Exp(m.logEvidence(tt.theta)), tt.e, 1e-5*tt.e)
	}
	near(t, "the radius at 5 %", m.radius(.05), .085135, 1e-6)
	near(t, "the radius at 1 %", m.radius(.01), .116001, 1e-6)
	for n := range 4 {
		few := moments{N: n}
		if !math.IsInf(few.radius(.05), 1) {
			t.Errorf("%d batches have a limit", n)
		}
	}
	if e := (moments{N: 10, Mean: .5}).logEvidence(0); math.IsInf(e, 0) || math.IsNaN(e) {
		t.Errorf("gauges that stand still give %v", e)
	}
}

// Latency is judged at bounds by the same statistic, with its own margins.
func TestLatencyReproducesItsVectors(t *testing.T) {
	for _, tt := range []struct {
		id              string
		bad, fail, pass float64
		mat             bool
		want            Outcome
	}{
		{"V35", 130, 2.13633, 1.08569, false, Inconclusive},
		{"V36", 180, 2.27613e7, .00647543, true, Fail},
	} {
		t.Run(tt.id, func(t *testing.T) {
			name := Latency(.25).String()
			s := Defaults()
			s.MinScrapes, s.Soak = 1, 0
			at := origin.Add(15 * time.Second)
			w := Window{From: origin, To: at, Candidate: Counts{Requests: 600}, Baseline: Counts{Requests: 5400}, Metric: MetricErrors}
			slow := w
			slow.Metric, slow.Candidate.Bad, slow.Baseline.Bad = name, tt.bad, 940
			watch := Watch{Bounds: []float64{.25}, Prove: []float64{.25}}
			g := Gate{}.StartStep(Step{Share: 10, Copies: 1, At: origin, Watch: watch}).Add(s, []Window{slow, w})
			v := g.Verdict(s, Health{Fresh: at, Scrape: 15 * time.Second}, at)
			if v.Outcome != tt.want {
				t.Errorf("got %s (%s): %q", v.Outcome, v.Reason, v.Notes)
			}
			near(t, "e_pass", v.LogPass, math.Log(tt.pass), 1e-5)
			i, _ := g.st.metric(name)
			near(t, "e_fail", logMean(g.st.Metrics[i].Copies[0].Logs[:]), math.Log(tt.fail), 1e-5)
			p := v.Parts[1]
			if p.Metric != name || p.Copies[0].Material != tt.mat || p.Margin != .05 || !p.Proves {
				t.Errorf("got %+v", p)
			}
			near(t, "its weight", p.Weight, .35/.85, 1e-12)
			if tt.mat && v.Metric != name {
				t.Errorf("%s dominates", v.Metric)
			}
		})
	}
}

// Offline, the windows are taken as they are.
func TestRecordedWindowsReproduceTheReferenceVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.id, func(t *testing.T) {
			s := unit()
			if v.change != nil {
				v.change(&s)
			}
			f := Fixed{StepMargin: s.Margin(v.share / 100), Dispersion: 1}
			if v.id == "V30" {
				f.Dispersion = 2
			}
			var ws []Window
			for _, w := range v.windows {
				ws = append(ws, Window{Candidate: Counts{w[0], w[1]}, Baseline: Counts{w[2], w[3]}})
			}
			got := JudgeRecorded(s, f, ws)
			near(t, "e_fail", got.LogFailRaw, logOf(v.fail, v.logFail), 1e-5)
			near(t, "e_pass", got.LogPass, logOf(v.pass, v.logPass), 1e-5)
			if got.Material != v.mat || got.Outcome != v.want {
				t.Errorf("got %s (%s), material %v", got.Outcome, got.Reason, got.Material)
			}
			s.MaxErrorRate = 1 // offline there is no safety limit
			if o, why := got.Again(s); o != got.Outcome || got.Reason != why {
				t.Errorf("from its numbers it is %s (%s)", o, why)
			}
		})
	}
}
