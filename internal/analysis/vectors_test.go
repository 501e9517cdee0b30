package analysis

import (
	"math"
	"testing"
	"time"
)

var origin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// unit is the gate of the reference vectors: one metric, one copy, D = 1.
func unit() Settings {
	s := Defaults()
	s.MinScrapes, s.Soak, s.EqualHarm = 1, 0, false
	return s
}

type vector struct {
	id      string
	windows [][4]float64 // n1, x1, n0, x0
	share   float64      // 10 with equal harm gives the step margin 0.025
	change  func(*Settings)
	fail    float64 // e-value, or its logarithm where it is below 0 here
	logFail float64
	mat     bool
	pass    float64
	logPass float64
	low     float64
	high    float64
	want    Outcome
}

func equalHarm(s *Settings) { s.EqualHarm = true }

func ln(mantissa float64, exponent int) float64 {
	return math.Log(mantissa) + float64(exponent)*math.Ln10
}

// vectors are reference values from 60-digit arithmetic, without the ones that other parts of
// the judge will answer to (quantiles, saturation, counters).
var vectors = []vector{
	{"V01", [][4]float64{{10000, 200, 90000, 1800}}, 10, nil, .00122794, 0, false, 4.00522e5, 0, -.0027, .0031, Pass},
	{"V02", [][4]float64{{3000, 30, 27000, 27}}, 10, nil, 1.90781e13, 0, true, .0415759, 0, .0060, .0133, Fail},
	{"V03", [][4]float64{{50, 1, 450, 1}}, 10, equalHarm, 1.94, 0, true, .643688, 0, -.0016, .1028, Inconclusive},
	{"V05", [][4]float64{{300, 0, 2700, 0}}, 10, equalHarm, 1, 0, false, 209.374, 0, -.0014, .0126, Pass},
	{"V06", [][4]float64{{300, 0, 2700, 0}}, 10, nil, 1, 0, false, 1.70644, 0, -.0014, .0126, Inconclusive},
	{"V07", [][4]float64{{300, 3, 2700, 0}}, 10, equalHarm, 96.1255, 0, true, 1.52557, 0, .0033, .0290, Inconclusive},
	{"V08", [][4]float64{{300, 2, 2700, 0}}, 10, equalHarm, 16.1016, 0, true, 3.38476, 0, .0016, .0240, Inconclusive},
	{"V10", [][4]float64{{2000, 10, 2000, 10}}, 50, nil, .273584, 0, false, 2.23524, 0, -.0048, .0048, Inconclusive},
	{"V11", [][4]float64{{6000, 30, 6000, 30}}, 50, nil, .14459, 0, false, 79.41, 0, -.0026, .0026, Pass},
	{"V13", [][4]float64{{5000, 75, 5000, 25}}, 50, nil, 89650.3, 0, true, .0427426, 0, .0062, .0141, Fail},
	{"V14", [][4]float64{{1e6, 1200, 9e6, 9000}}, 10, nil, 1.15742e6, 0, false, 0, ln(2.95332, 1206), .0001, .0003, Pass},
	{"V15", [][4]float64{{0, 0, 9000, 40}}, 10, nil, 1, 0, false, 1, 0, 0, 0, Inconclusive},
	{"V16", [][4]float64{{1000, 0, 0, 0}}, 10, nil, 1, 0, false, 41.6512, 0, 0, 0, Inconclusive},
	{"V18", [][4]float64{{300, 300, 2700, 0}}, 10, equalHarm, 0, ln(9.37338, 264), true, 2.15985e-13, 0, .9873, 1, Fail},
	{"V19", [][4]float64{{300, 0, 2700, 54}}, 10, equalHarm, .0487419, 0, false, 55596.8, 0, -.0260, -.0065, Pass},
	{"V20", [][4]float64{{2000, 100, 2000, 100}}, 50, nil, .0436587, 0, false, 5.75567, 0, -.0136, .0136, Inconclusive},
	{"V22", [][4]float64{{2000, 170, 2000, 100}}, 50, nil, 1516.81, 0, true, .0335426, 0, .0195, .0507, Fail},
	{"V23", [][4]float64{{4000, 24, 36000, 72}}, 10, func(s *Settings) { s.MaxErrorRateDelta = 0 }, 1369.69, 0, true, .070099, 0, .0020, .0069, Fail},
	{"V24", [][4]float64{{4000, 40, 36000, 180}}, 10, func(s *Settings) { s.MaxErrorRateRatio = 0 }, 168.677, 0, false, .219703, 0, .0022, .0087, Inconclusive},
	{"V25", [][4]float64{{299.6, 2.4, 2701.3, 3.1}}, 10, equalHarm, 4.09226, 0, true, 2.84226, 0, .0009, .0249, Inconclusive},
	{"V26", [][4]float64{{900, 9, 100, 0}}, 90, nil, 1.85071, 0, true, .519819, 0, -.0273, .0189, Inconclusive},
	{"V27", [][4]float64{{400, 4, 3600, 1}}, 10, func(s *Settings) { s.EqualHarm, s.Alpha = true, .05 }, 209.492, 0, true, 2.42336, 0, .0035, .0252, Fail},
	{"V29", [][4]float64{{1000, 900, 9000, 450}}, 10, equalHarm, 0, ln(4.23459, 530), true, 0, ln(1.84600, -34), .8293, .8676, Fail},
	{"V30", [][4]float64{{5000, 75, 5000, 25}}, 50, nil, 185.199, 0, true, .107536, 0, .0062, .0141, Fail},
	{"V31", [][4]float64{{150, 1, 1350, 7}, {150, 4, 1350, 6}, {150, 0, 1350, 9}, {150, 5, 1350, 5}}, 10, equalHarm, 21.6457, 0, true, 1.62878, 0, .0037, .0255, Inconclusive},
	{"V34", [][4]float64{{8000, 8, 8000, 8}}, 50, nil, .303695, 0, false, 7.45843e7, 0, -.0011, .0011, Pass},
	{"V35", [][4]float64{{600, 130, 5400, 940}}, 10, func(s *Settings) { s.EqualHarm, s.MaxErrorRateDelta = true, .01 }, 2.13633, 0, false, 1.08569, 0, .0098, .0787, Inconclusive},
	{"V36", [][4]float64{{600, 180, 5400, 940}}, 10, func(s *Settings) { s.EqualHarm, s.MaxErrorRateDelta = true, .01 }, 2.27613e7, 0, true, .00647543, 0, .0891, .1650, Fail},
}

func TestGateReproducesTheReferenceVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.id, func(t *testing.T) {
			s := unit()
			if v.change != nil {
				v.change(&s)
			}
			if v.id == "V35" || v.id == "V36" || v.id == "V18" || v.id == "V29" {
				s.MaxErrorRate = 1 // the safety limit is not what these are about
			}
			g := Gate{}.StartStep(Step{Share: v.share, Copies: 1, At: origin})
			if v.id == "V30" {
				g.st.Metrics[0].Spread.Pearson = spreadSeed // D = 2
			}
			at := origin
			var ws []Window
			for _, w := range v.windows {
				next := at.Add(15 * time.Second)
				ws = append(ws, Window{Metric: MetricErrors, From: at, To: next, Candidate: Counts{w[0], w[1]}, Baseline: Counts{w[2], w[3]}})
				at = next
			}
			got := g.Add(s, ws).Verdict(s, Health{Fresh: at, Scrape: 15 * time.Second}, at)

			near(t, "e_fail", got.LogFailRaw, logOf(v.fail, v.logFail), 1e-5)
			near(t, "e_pass", got.LogPass, logOf(v.pass, v.logPass), 1e-5)
			if got.Material != v.mat {
				t.Errorf("material is %v", got.Material)
			}
			if got.Outcome != v.want {
				t.Errorf("got %s (%s), want %s", got.Outcome, got.Reason, v.want)
			}
			if v.high == 0 {
				return
			}
			near(t, "Newcombe's low", got.Delta.Low, v.low, 5.1e-5)
			near(t, "Newcombe's high", got.Delta.High, v.high, 5.1e-5)
		})
	}
}

func logOf(e, log float64) float64 {
	if log != 0 {
		return log
	}
	return math.Log(e)
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within || math.IsNaN(got) {
		t.Errorf("%s is %.9g, want %.9g", what, got, want)
	}
}

func TestNewcombeAgreesWithThePaper(t *testing.T) {
	got := newcombe(pair{Counts{70, 56}, Counts{80, 48}})
	near(t, "low", got.Low, .0524, 5e-5)
	near(t, "high", got.High, .3339, 5e-5)
	near(t, "mid", got.Mid, .2, 1e-12)
}

func TestClopperPearsonLimits(t *testing.T) {
	for _, tt := range []struct {
		name string
		got  float64
		want float64
		tol  float64
	}{
		{"upper of 30 in 6000", upperLimit(Counts{6000, 30}), .00849890, 5e-9},
		{"upper of 0 in 3000", upperLimit(Counts{3000, 0}), .00229994, 5e-9},
		{"lower of 8 in 20", lowerLimit(Counts{20, 8}), .113862, 5e-7},
		{"lower of 60 in 200", lowerLimit(Counts{200, 60}), .205449, 5e-7},
		{"lower of 10 in 20", lowerLimit(Counts{20, 10}), .177, 5e-4},
		{"lower of 25 in 50", lowerLimit(Counts{50, 25}), .284, 5e-4},
		{"upper of nothing", upperLimit(Counts{}), 1, 0},
		{"upper of all", upperLimit(Counts{10, 10}), 1, 0},
		{"lower of none", lowerLimit(Counts{10, 0}), 0, 0},
		// x + z*sqrt(x) for very many: 1e7 + 3.0902*3162 and a little.
		{"upper of ten million in a hundred million", upperLimit(Counts{1e8, 1e7}), .1 + 3.0902*math.Sqrt(.09/1e8), 2e-7},
	} {
		near(t, tt.name, tt.got, tt.want, tt.tol)
	}
}

func TestSafetyLimitIsTheLowerLimit(t *testing.T) {
	s := Defaults()
	for _, n := range []float64{3, 7, 20, 50, 333, 5000} {
		for x := 0.0; x <= n; x += math.Max(1, math.Floor(n/97)) {
			c := Counts{n, x}
			if overLimit(c, s) != (lowerLimit(c) > s.MaxErrorRate) {
				t.Errorf("%v of %v: over %v and lower limit %v disagree", x, n, overLimit(c, s), lowerLimit(c))
			}
		}
	}
	if overLimit(Counts{20, 10}, s) || !overLimit(Counts{50, 25}, s) {
		t.Error("10 of 20 is not enough, 25 of 50 is")
	}
}

func TestGuardReproducesItsVectors(t *testing.T) {
	for _, tt := range []struct {
		bad, want float64
		rings     bool
	}{{60, 17123.672922, true}, {36, .339842, false}} {
		g := guard{Rate: .01, Fixed: true}.fold(Counts{3000, tt.bad}, origin)
		near(t, "ln G", logMean(g.Logs[:]), math.Log(tt.want), 1e-5)
		if g.Rang.IsZero() == tt.rings {
			t.Errorf("%v bad: rings is %v", tt.bad, !tt.rings)
		}
	}
}

func TestGuardRateIsTheUpperLimitWidenedByTheMargins(t *testing.T) {
	s := Defaults()
	near(t, "delta is larger", rateAgainst(Counts{6000, 30}, s), .00849890+.005, 1e-8)
	near(t, "ratio is larger", rateAgainst(Counts{200, 60}, s), 1.5*upperLimit(Counts{200, 60}), 1e-12)
	s.Mode = ModeEither
	near(t, "the smaller in mode either", rateAgainst(Counts{6000, 30}, s), 1.5*.00849890, 1e-8)
	if rateAgainst(Counts{}, s) != 0 {
		t.Error("no baseline gives a rate")
	}
}

func TestSplitReproducesItsVectors(t *testing.T) {
	for _, tt := range []struct{ n1, want float64 }{{102, math.Log(.302849)}, {60, math.Log(3492.8259)}, {20, ln(8.4131, 18)}} {
		near(t, "ln e", logSplit(tt.n1, 1000-tt.n1, .1), tt.want, 1e-5)
	}
	of := func(n1, n0 float64) pair { return pair{Counts{n1, 0}, Counts{n0, 0}} }
	for _, tt := range []struct {
		name string
		p    pair
		w    float64
		want bool
	}{
		{"a share far off with much evidence", of(20, 980), .1, true},
		{"a share off with too little evidence", of(60, 940), .1, false},
		{"much evidence of a share that is near", of(8900, 91100), .1, false},
		{"a candidate whose counts are lost", of(0, 500), .1, true},
		{"no requests", of(0, 0), .1, false},
		{"at 100 a baseline that gets a third", of(200, 100), 1, true},
		{"at 100 a baseline that gets the rest of old connections", of(900, 100), 1, false},
	} {
		if got := mismatch(tt.p, tt.w); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// The window factor must not exceed 1 in expectation on its null line, whatever
// the base rate: this is what every guarantee of the gate rests on.
func TestWindowFactorIsAnEValue(t *testing.T) {
	worst, settings := 0.0, 0
	for _, n := range [][2]int{{5, 45}, {10, 30}, {20, 20}, {40, 10}} {
		for _, null := range []line{{1, 0}, {1, .01}, {1, .05}, {1.5, 0}, {1.5, .02}} {
			for _, p0 := range []float64{0, .001, .01, .1, .3, .6} {
				for _, kappa := range []float64{1.25, 2, 5, 30, 0, .25, .5, .9} {
					settings++
					worst = math.Max(worst, expectation(kappa, n[0], n[1], p0, null))
				}
			}
		}
	}
	if settings != 960 || worst > 1+1e-9 || worst < .9999 {
		t.Errorf("over %d settings the largest expectation is %.9f, want at most 1 and near it", settings, worst)
	}
	// A candidate beyond the line must make it grow, or the test says nothing.
	if e := expectation(5, 20, 20, .1, line{1, 0}) * .999; e > 1 {
		t.Errorf("on the line it is already %v", e)
	}
	if e := expectationAt(5, 20, 20, .3, .1, line{1, 0}); e < 2 {
		t.Errorf("beyond the line the expectation is only %v", e)
	}
}

func expectation(kappa float64, n1, n0 int, p0 float64, null line) float64 {
	return expectationAt(kappa, n1, n0, math.Min(1, null.ratio*p0+null.delta), p0, null)
}

func expectationAt(kappa float64, n1, n0 int, p1, p0 float64, null line) float64 {
	sum := 0.0
	for x1 := 0; x1 <= n1; x1++ {
		for x0 := 0; x0 <= n0; x0++ {
			w := pair{Counts{float64(n1), float64(x1)}, Counts{float64(n0), float64(x0)}}
			sum += binomial(n1, x1, p1) * binomial(n0, x0, p0) * math.Exp(logFactor(kappa, w, null))
		}
	}
	return sum
}

func binomial(n, k int, p float64) float64 {
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return c * math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
}

func TestWindowFactorOfDegenerateWindows(t *testing.T) {
	for _, tt := range []struct {
		name  string
		kappa float64
		w     pair
		null  line
		want  float64
	}{
		{"no candidate says nothing", 2, pair{Baseline: Counts{100, 3}}, line{1, 0}, 0},
		{"no baseline says nothing on the fail side", 2, pair{Candidate: Counts{100, 50}}, line{1, 0}, 0},
		{"not even where the margin is in the null line", 2, pair{Candidate: Counts{100, 50}}, line{1, .01}, 0},
		{"no baseline says nothing about a ratio", .5, pair{Candidate: Counts{100, 0}}, line{1.5, 0}, 0},
		{"no baseline leaves the claim p1 < delta", 0, pair{Candidate: Counts{100, 0}}, line{1, .01}, 1},
		{"one bad event refutes kappa 0", 0, pair{Candidate: Counts{100, 1}}, line{1, .01}, math.Inf(-1)},
	} {
		got := logFactor(tt.kappa, tt.w, tt.null)
		if got != tt.want && !(math.Abs(got-tt.want) < 1e-12) {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	for _, kappa := range append(failGrid[:], passGrid[:]...) {
		f := logFactor(kappa, pair{Counts{maxCount, maxCount}, Counts{dust, 0}}, line{1.5, .1})
		if math.IsNaN(f) || math.IsInf(f, 1) {
			t.Errorf("kappa %v of the largest counts: %v", kappa, f)
		}
	}
}

func TestDispersionFindsClusters(t *testing.T) {
	feed := func(batch float64) float64 {
		var s spread
		var st stratum
		for i := range 200 {
			// Bad events come in batches on one side or the other.
			x1, x0 := 0.0, batch
			if i%2 == 0 {
				x1, x0 = batch, 0
			}
			s, st = s.feed(st, pair{Counts{1000, x1}, Counts{1000, x0}})
		}
		return s.d()
	}
	if d := feed(1); d > 1.2 {
		t.Errorf("single events give D = %v", d)
	}
	if d := feed(20); d < 15 || d > spreadMax {
		t.Errorf("batches of 20 give D = %v", d)
	}
	if d := (spread{}).d(); d != 1 {
		t.Errorf("nothing known gives D = %v", d)
	}
	if d := (spread{Pearson: 1e9, Terms: 1}).d(); d != spreadMax {
		t.Errorf("D is not capped: %v", d)
	}
}

func TestDispersionIgnoresTimesOfOneSide(t *testing.T) {
	var s spread
	var st stratum
	feed := func(n int, w pair) {
		for range n {
			s, st = s.feed(st, w)
		}
	}
	feed(20, pair{Counts{1000, 10}, Counts{1000, 10}})
	feed(20, pair{Candidate: Counts{2000, 400}}) // at 100, in an incident
	feed(20, pair{Counts{1000, 10}, Counts{1000, 10}})
	if d := s.d(); d != 1 {
		t.Errorf("D = %v", d)
	}
}

func TestCopyWeightsAreAMean(t *testing.T) {
	for n := 1; n <= 8; n++ {
		sum := 0.0
		for i := range n {
			sum += copyWeight(i, n)
		}
		near(t, "the sum of the weights", sum, 1, 1e-12)
	}
	near(t, "the first of four", copyWeight(0, 4), .4, 0)
	near(t, "a later one of four", copyWeight(3, 4), .2, 1e-12)
	// Three of four copies have not started: M = 0.4 e + 0.6.
	g := Gate{}.StartStep(Step{Share: 10, Copies: 4, At: origin}).Add(unit(), []Window{{
		Metric: MetricErrors, From: origin, To: origin.Add(15 * time.Second), Candidate: Counts{300, 3}, Baseline: Counts{2700, 0},
	}})
	v := g.Verdict(unit(), Health{}, origin.Add(15*time.Second))
	near(t, "M of V07", math.Exp(v.LogFail), .4*96.1255+.6, 1e-3)
}

func TestGapsKeepWhatAReaderMayNeed(t *testing.T) {
	var gaps []gap
	for i := range 30 { // each longer than the one before
		gaps = withGap(gaps, gap{Long: time.Duration(i), End: stampOf(origin.Add(time.Duration(i) * time.Minute))})
	}
	if len(gaps) != 1 || gaps[0].Long != 29 {
		t.Errorf("got %+v", gaps)
	}
	for i := range 30 { // each shorter
		gaps = withGap(gaps, gap{Long: time.Duration(29 - i), End: stampOf(origin.Add(time.Hour + time.Duration(i)*time.Minute))})
	}
	last := gaps[len(gaps)-1]
	if len(gaps) > gapsMax || !last.End.Equal(origin.Add(time.Hour+29*time.Minute)) {
		t.Errorf("got %+v", gaps)
	}
	for i := 1; i < len(gaps); i++ {
		if gaps[i].Long >= gaps[i-1].Long || !gaps[i].End.After(gaps[i-1].End.Time) {
			t.Errorf("out of order: %+v", gaps)
		}
	}
}
