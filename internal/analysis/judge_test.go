package analysis_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

func at(d time.Duration) time.Time { return origin.Add(d) }

// scrapes makes n windows from the i-th scrape on, each with the same counts.
func scrapes(i, n int, n1, x1, n0, x0 float64) []analysis.Window {
	var out []analysis.Window
	for k := i; k < i+n; k++ {
		out = append(out, analysis.Window{
			Metric: analysis.MetricErrors,
			From:   at(time.Duration(k) * scrape), To: at(time.Duration(k+1) * scrape),
			Candidate: analysis.Counts{Requests: n1, Bad: x1},
			Baseline:  analysis.Counts{Requests: n0, Bad: x0},
		})
	}
	return out
}

func warmUp(ws []analysis.Window) []analysis.Window {
	for i := range ws {
		ws[i].WarmUp = true
	}
	return ws
}

func change(ws []analysis.Window, f func(*analysis.Window)) []analysis.Window {
	for i := range ws {
		f(&ws[i])
	}
	return ws
}

func concat(parts ...[]analysis.Window) []analysis.Window {
	var out []analysis.Window
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// stepAt is the i-th step, begun at the k-th scrape.
func stepAt(i int, share float64, k int) analysis.Step {
	return analysis.Step{Index: i, Share: share, Copies: 4, At: at(time.Duration(k) * scrape)}
}

var (
	ten     = []analysis.Step{stepAt(0, 10, 0)}
	hundred = []analysis.Step{stepAt(2, 50, 0), stepAt(3, 100, 40)}
	// clean is a minute and a half in which 10 % is certified at 100 rps.
	clean = scrapes(0, 6, 150, 0, 1350, 0)
	// half is ten minutes at 50 % with an error rate of 0.5 %.
	half = scrapes(0, 40, 800, 4, 800, 4)
)

func noSoak(s *analysis.Settings) { s.Soak = 0 }

type judged struct {
	name    string
	change  func(*analysis.Settings)
	steps   []analysis.Step
	windows []analysis.Window
	now     int // scrapes since the origin
	health  analysis.Health
	outcome analysis.Outcome
	reason  analysis.Reason
	note    string
}

func (j judged) run(t *testing.T) analysis.Verdict {
	t.Helper()
	s := analysis.Defaults()
	if j.change != nil {
		j.change(&s)
	}
	h := j.health
	if h.Scrape == 0 {
		h.Scrape = scrape
	}
	v := analysis.Judge(s, j.steps, j.windows, h, at(time.Duration(j.now)*scrape))
	if v.Outcome != j.outcome || v.Reason != j.reason {
		t.Errorf("got %s (%s), want %s (%s); notes %q", v.Outcome, v.Reason, j.outcome, j.reason, v.Notes)
	}
	if !strings.Contains(strings.Join(v.Notes, "\n"), j.note) {
		t.Errorf("the notes %q do not say %q", v.Notes, j.note)
	}
	return v
}

func TestVerdictsBelowAHundred(t *testing.T) {
	tests := []judged{
		{
			"before any step nothing is judged",
			nil, nil, clean, 6,
			analysis.Health{},
			analysis.Inconclusive, analysis.WarmingUp, "no step",
		},
		{
			"a step without windows warms up",
			nil, ten, nil, 1,
			analysis.Health{},
			analysis.Inconclusive, analysis.WarmingUp, "0 of 4 scrapes",
		},
		{
			"three scrapes are too few, however good",
			noSoak, ten, scrapes(0, 3, 1000, 0, 9000, 0), 3,
			analysis.Health{},
			analysis.Inconclusive, analysis.WarmingUp, "3 of 4",
		},
		{
			"warm-up windows are no part of a pass",
			noSoak, ten, concat(warmUp(scrapes(0, 6, 1000, 0, 9000, 0)), scrapes(6, 3, 1000, 0, 9000, 0)), 9,
			analysis.Health{},
			analysis.Inconclusive, analysis.WarmingUp, "3 of 4",
		},
		{
			"nor is a window that began before the share was shown",
			noSoak,
			[]analysis.Step{{Share: 10, Copies: 4, At: at(scrape / 2)}},
			scrapes(0, 4, 1000, 0, 9000, 0), 4,
			analysis.Health{},
			analysis.Inconclusive, analysis.WarmingUp, "3 of 4",
		},
		{
			"too few requests on the candidate",
			noSoak, ten, scrapes(0, 6, 40, 0, 360, 0), 6,
			analysis.Health{},
			analysis.Inconclusive, analysis.InsufficientRequests, "240 of 300",
		},
		{
			"no requests at all are never a pass",
			noSoak, ten, scrapes(0, 40, 0, 0, 0, 0), 40,
			analysis.Health{},
			analysis.Inconclusive, analysis.InsufficientRequests, "0 of 300",
		},
		{
			"too few requests on the baseline",
			noSoak,
			[]analysis.Step{stepAt(0, 95, 0)},
			scrapes(0, 6, 285, 0, 15, 0), 6,
			analysis.Health{},
			analysis.Inconclusive, analysis.InsufficientBaseline, "90 of 100",
		},
		{
			"enough requests without the proof",
			noSoak,
			[]analysis.Step{stepAt(0, 50, 0)},
			scrapes(0, 6, 150, 0, 150, 0), 6,
			analysis.Health{},
			analysis.Inconclusive, analysis.NotCertified, "not proven",
		},
		{
			"the proof before the soak is over",
			nil, ten, clean, 6,
			analysis.Health{},
			analysis.Inconclusive, analysis.Soaking, "1m30s of 5m0s",
		},
		{
			"the proof and the soak",
			nil, ten, scrapes(0, 20, 150, 1, 1350, 9), 20,
			analysis.Health{},
			analysis.Pass, analysis.Certified, "",
		},
		{
			"windows without a baseline do not make a difference material",
			nil,
			[]analysis.Step{stepAt(0, 50, 0)},
			concat(scrapes(0, 2, 1e6, 3000, 1e6, 2500), scrapes(2, 1, 1e5, 1e4, 0, 0)), 3,
			analysis.Health{},
			analysis.Inconclusive, analysis.WarmingUp, "",
		},
		{
			"the window is over and the proof is not there",
			nil,
			[]analysis.Step{stepAt(0, 50, 0)},
			scrapes(0, 120, 3, 0, 3, 0), 120,
			analysis.Health{},
			analysis.Inconclusive, analysis.WindowExhausted, "not proven",
		},
		{
			"a proof that comes at the last moment counts",
			nil, ten, scrapes(0, 120, 150, 1, 1350, 9), 120,
			analysis.Health{},
			analysis.Pass, analysis.Certified, "",
		},
		{
			"a regression fails",
			nil, ten, scrapes(0, 2, 150, 8, 1350, 6), 2,
			analysis.Health{},
			analysis.Fail, analysis.Regression, "since 12:00:00 the candidate failed 16 of 300 requests (5.33 %), the baseline 12 of 2700 (0.44 %)",
		},
		{
			"and does so in the warm-up",
			nil, ten, warmUp(scrapes(0, 2, 150, 8, 1350, 6)), 2,
			analysis.Health{},
			analysis.Fail, analysis.Regression, "",
		},
		{
			"a difference that is real but within the margins does not",
			nil,
			[]analysis.Step{stepAt(0, 50, 0)},
			scrapes(0, 4, 1e6, 3000, 1e6, 2500), 4,
			analysis.Health{},
			analysis.Inconclusive, analysis.Soaking, "",
		},
		{
			"one error on one side is noise",
			nil, ten, scrapes(0, 1, 150, 1, 1350, 0), 1,
			analysis.Health{},
			analysis.Inconclusive, analysis.WarmingUp, "",
		},
		{
			"the safety limit acts on the first scrape, warm-up or not",
			nil, ten, warmUp(scrapes(0, 1, 50, 25, 0, 0)), 1,
			analysis.Health{},
			analysis.Fail, analysis.SafetyLimit, "25 of 50",
		},
		{
			"in an outage of both sides too, as intended",
			nil, ten, scrapes(0, 1, 150, 75, 1350, 675), 1,
			analysis.Health{},
			analysis.Fail, analysis.SafetyLimit, "25.0 %",
		},
		{
			"ten failures of twenty are not enough for it",
			nil, ten, warmUp(scrapes(0, 1, 20, 10, 0, 0)), 1,
			analysis.Health{},
			analysis.Inconclusive, analysis.WarmingUp, "",
		},
		{
			"more bad requests than requests are all bad",
			nil, ten, scrapes(0, 1, 0, 50, 0, 0), 1,
			analysis.Health{},
			analysis.Fail, analysis.SafetyLimit, "more bad requests than requests",
		},
		{
			"an impossible baseline does not make the candidate look good",
			noSoak, ten, scrapes(0, 6, 150, 10, 1350, 2000), 6,
			analysis.Health{},
			analysis.Inconclusive, analysis.TrafficMismatch, "left out",
		},
		{
			"a fail outlives the telemetry",
			nil, ten, scrapes(0, 2, 150, 8, 1350, 6), 100,
			analysis.Health{Trouble: "502"},
			analysis.Fail, analysis.Regression, "",
		},
		{
			"data older than two and a half scrapes are a gap",
			nil, ten, clean, 9,
			analysis.Health{},
			analysis.Inconclusive, analysis.TelemetryGap, "45s old",
		},
		{
			"their usual age is allowed for",
			nil, ten, clean, 9,
			analysis.Health{Lag: 30 * time.Second},
			analysis.Inconclusive, analysis.Soaking, "",
		},
		{
			"a certified step does not pass on old data",
			noSoak, ten, clean, 9,
			analysis.Health{},
			analysis.Inconclusive, analysis.TelemetryGap, "",
		},
		{
			"beyond the grace they are unavailable",
			nil, ten, clean, 15,
			analysis.Health{},
			analysis.Inconclusive, analysis.TelemetryUnavailable, "2m15s old",
		},
		{
			"within it they are not",
			nil, ten, clean, 14,
			analysis.Health{},
			analysis.Inconclusive, analysis.TelemetryGap, "",
		},
		{
			"a source in trouble is a gap at once",
			noSoak, ten, clean, 6,
			analysis.Health{Trouble: "query timed out"},
			analysis.Inconclusive, analysis.TelemetryGap, "query timed out",
		},
		{
			"trouble that lasts ends with the window",
			nil, ten, scrapes(0, 120, 150, 0, 1350, 0), 120,
			analysis.Health{Trouble: "partial answer"},
			analysis.Inconclusive, analysis.WindowExhausted, "partial answer",
		},
		{
			"nothing seen since the step began becomes unavailable",
			nil, ten, nil, 9,
			analysis.Health{},
			analysis.Inconclusive, analysis.TelemetryUnavailable, "no data",
		},
		{
			"data from far ahead of the clock cannot be dated",
			nil, ten, scrapes(0, 40, 150, 0, 1350, 0), 20,
			analysis.Health{},
			analysis.Inconclusive, analysis.TelemetryUnavailable, "ahead of the clock",
		},
		{
			"a split that is not the weight",
			noSoak, ten, scrapes(0, 6, 400, 0, 1100, 0), 6,
			analysis.Health{},
			analysis.Inconclusive, analysis.TrafficMismatch, "its share is 10 %",
		},
		{
			"a split that stays off ends with the window",
			nil, ten, scrapes(0, 120, 400, 0, 1100, 0), 120,
			analysis.Health{},
			analysis.Inconclusive, analysis.WindowExhausted, "its share is 10 %",
		},
		{
			"settings that cannot be used do not fail either",
			func(s *analysis.Settings) { s.Alpha = 1 }, ten, scrapes(0, 2, 150, 8, 1350, 6), 2,
			analysis.Health{},
			analysis.Inconclusive, analysis.NotCertified, "alpha",
		},
		{
			"a split off in the warm-up alone is not held against it",
			noSoak, ten, concat(warmUp(scrapes(0, 2, 0, 0, 1500, 0)), scrapes(2, 6, 150, 0, 1350, 0)), 8,
			analysis.Health{},
			analysis.Pass, analysis.Certified, "",
		},
		{
			"settings that cannot be used never pass",
			func(s *analysis.Settings) { s.Soak, s.AlphaPass = 0, 1 }, ten, clean, 6,
			analysis.Health{},
			analysis.Inconclusive, analysis.NotCertified, "alphaPass",
		},
		{
			"mode either fails when one margin is exceeded",
			func(s *analysis.Settings) { s.Mode = analysis.ModeEither }, ten, scrapes(0, 4, 1e5, 6000, 9e5, 48000), 4,
			analysis.Health{},
			analysis.Fail, analysis.Regression, "",
		},
		{
			"where both together would not",
			nil, ten, scrapes(0, 4, 1e5, 6000, 9e5, 48000), 4,
			analysis.Health{},
			analysis.Inconclusive, analysis.Soaking, "",
		},
		{
			"mode either passes only within both margins",
			func(s *analysis.Settings) { s.Mode, s.Soak = analysis.ModeEither, 0 }, ten, clean, 6,
			analysis.Health{},
			analysis.Inconclusive, analysis.NotCertified, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t) })
	}
}

func TestToleranceGuaranteeWaitsForProofOfTheMargin(t *testing.T) {
	// 1.2 % against 0.5 %: worse for sure, beyond the margin probably.
	ws := scrapes(0, 4, 2500, 30, 2500, 12)
	steps := []analysis.Step{stepAt(0, 50, 0)}
	judged{"", nil, steps, ws, 4, analysis.Health{}, analysis.Fail, analysis.Regression, ""}.run(t)
	judged{
		"", func(s *analysis.Settings) { s.ToleranceGuarantee = 1 }, steps, ws, 4,
		analysis.Health{},
		analysis.Inconclusive, analysis.NotCertified, "",
	}.run(t)
}

func TestVerdictsAtAHundred(t *testing.T) {
	rate := func(i, n int, x float64) []analysis.Window { return scrapes(i, n, 1600, x, 0, 0) }
	alone := []analysis.Step{stepAt(0, 100, 0)}
	back := append(append([]analysis.Step(nil), hundred...), stepAt(2, 50, 50), stepAt(3, 100, 90))
	// reGated is half an hour's story: the alarm at the 41st scrape, back to 50,
	// and 100 again from the 90th on.
	reGated := concat(half, rate(40, 2, 100), scrapes(50, 40, 800, 4, 800, 4))
	tests := []judged{
		{
			"clean data through the soak pass",
			nil, hundred, concat(half, rate(40, 20, 8)), 60,
			analysis.Health{},
			analysis.Pass, analysis.SoakClean, "",
		},
		{
			"before its end they soak",
			nil, hundred, concat(half, rate(40, 19, 8)), 59,
			analysis.Health{},
			analysis.Inconclusive, analysis.Soaking, "4m45s of 5m0s",
		},
		{
			"a gap longer than the grace starts the soak again",
			nil, hundred, concat(half, rate(40, 5, 8), rate(54, 7, 8)), 61,
			analysis.Health{},
			analysis.Inconclusive, analysis.Soaking, "gap",
		},
		{
			"and then it passes later",
			nil, hundred, concat(half, rate(40, 5, 8), rate(54, 21, 8)), 75,
			analysis.Health{},
			analysis.Pass, analysis.SoakClean, "",
		},
		{
			"a gap within the grace does not",
			nil, hundred, concat(half, rate(40, 5, 8), rate(52, 8, 8)), 60,
			analysis.Health{},
			analysis.Pass, analysis.SoakClean, "",
		},
		{
			"nor does one within eight slow scrapes",
			nil, hundred, concat(half, rate(40, 5, 8), rate(56, 4, 8)), 60,
			analysis.Health{Scrape: time.Minute},
			analysis.Pass, analysis.SoakClean, "",
		},
		{
			"one sample that repays a long gap is a gap all the same",
			nil, hundred, concat(half, rate(40, 5, 8), change(rate(45, 1, 80), func(w *analysis.Window) { w.To = at(55 * scrape) }), rate(55, 6, 8)), 61,
			analysis.Health{},
			analysis.Inconclusive, analysis.Soaking, "gap",
		},
		{
			"too few requests in the soak",
			nil, hundred, concat(half, scrapes(40, 20, 10, 0, 0, 0)), 60,
			analysis.Health{},
			analysis.Inconclusive, analysis.InsufficientRequests, "200 of 300",
		},
		{
			"requests from before a gap do not count for it",
			nil, hundred, concat(half, rate(40, 5, 8), scrapes(54, 21, 10, 0, 0, 0)), 75,
			analysis.Health{},
			analysis.Inconclusive, analysis.InsufficientRequests, "200 of 300",
		},
		{
			"no traffic until the window is over",
			nil, hundred, concat(half, scrapes(40, 120, 0, 0, 0, 0)), 160,
			analysis.Health{},
			analysis.Inconclusive, analysis.WindowExhausted, "0 of 300",
		},
		{
			"a rise of errors rings, and asks for a control",
			nil, hundred, concat(half, rate(40, 1, 100)), 41,
			analysis.Health{},
			analysis.Inconclusive, analysis.GuardAlarm, "rose beyond",
		},
		{
			"an alarm stays, though the errors went",
			nil, hundred, concat(half, rate(40, 1, 100), rate(41, 20, 0)), 61,
			analysis.Health{},
			analysis.Inconclusive, analysis.GuardAlarm, "",
		},
		{
			"a rise within the margins does not ring",
			nil, hundred, concat(half, rate(40, 20, 14)), 60,
			analysis.Health{},
			analysis.Pass, analysis.SoakClean, "",
		},
		{
			"judged with a control again, it passes there",
			nil, back[:3], reGated, 90,
			analysis.Health{},
			analysis.Pass, analysis.Certified, "",
		},
		{
			"and clean at 100 again",
			nil, back, concat(reGated, rate(90, 20, 8)), 110,
			analysis.Health{},
			analysis.Pass, analysis.SoakClean, "",
		},
		{
			"but a second alarm fails",
			nil, back, concat(reGated, rate(90, 1, 100)), 91,
			analysis.Health{},
			analysis.Fail, analysis.GuardAlarmAgain, "",
		},
		{
			"without any step before, nothing is certified at 100",
			nil, alone, rate(0, 40, 8), 40,
			analysis.Health{},
			analysis.Inconclusive, analysis.InsufficientBaseline, "only the safety limit",
		},
		{
			"but the safety limit acts",
			nil, alone, rate(0, 40, 800), 40,
			analysis.Health{},
			analysis.Fail, analysis.SafetyLimit, "",
		},
		{
			"and the window ends",
			nil, alone, rate(0, 120, 8), 120,
			analysis.Health{},
			analysis.Inconclusive, analysis.WindowExhausted, "no step of this stage had a baseline",
		},
		{
			"telemetry lost at 100 is not a clean soak",
			nil, hundred, concat(half, rate(40, 20, 8)), 70,
			analysis.Health{},
			analysis.Inconclusive, analysis.TelemetryUnavailable, "",
		},
		{
			"a baseline that still gets traffic is a mismatch",
			nil, hundred, concat(half, scrapes(40, 20, 1000, 5, 600, 3)), 60,
			analysis.Health{},
			analysis.Inconclusive, analysis.TrafficMismatch, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t) })
	}
}

func TestLaterRegressionIsNotDrownedByEarlierGoodData(t *testing.T) {
	steps := []analysis.Step{stepAt(0, 10, 0), stepAt(1, 25, 400), stepAt(2, 50, 440)}
	good := concat(scrapes(0, 400, 150, 1, 1350, 9), scrapes(400, 40, 375, 2, 1125, 6))
	bad := scrapes(440, 3, 750, 19, 750, 4)
	v := judged{"", nil, steps, concat(good, bad), 443, analysis.Health{}, analysis.Fail, analysis.Regression, ""}.run(t)
	if v.LogFail < v.LogFailAt || !v.Material {
		t.Errorf("failed at %v of %v", v.LogFail, v.LogFailAt)
	}
	one := []analysis.Step{{Share: 10, Copies: 1, At: origin}}
	judged{"a single copy does not see it", nil, one, concat(good, bad), 443, analysis.Health{}, analysis.Pass, analysis.Certified, ""}.run(t)
}

func TestMoreStepsThanPlannedKeepTheLastCopyGoing(t *testing.T) {
	steps := []analysis.Step{stepAt(0, 10, 0), stepAt(1, 50, 40)}
	for i := range steps {
		steps[i].Copies = 1
	}
	// The bad minute is a tenth of a percent of all that the copy has seen.
	ws := concat(scrapes(0, 40, 15000, 0, 135000, 0), scrapes(40, 4, 750, 150, 750, 4))
	judged{"", nil, steps, ws, 44, analysis.Health{}, analysis.Fail, analysis.Regression, ""}.run(t)
}

func TestRestartedProofBeginsAgainAndTheFailProcessGoesOn(t *testing.T) {
	s := analysis.Defaults()
	h := analysis.Health{Scrape: scrape}
	g := analysis.Gate{}.StartStep(ten[0]).Add(s, scrapes(0, 20, 150, 1, 1350, 9))
	if v := g.Verdict(s, h, at(20*scrape)); v.Outcome != analysis.Pass {
		t.Fatalf("got %s (%s)", v.Outcome, v.Reason)
	}
	again := g.RestartProof(at(20 * scrape))
	v := again.Verdict(s, h, at(20*scrape))
	if v.Reason != analysis.WarmingUp || v.Elapsed != 0 || v.Candidate.Requests != 0 || v.LogPass != 0 {
		t.Errorf("the proof was not started again: %+v", v)
	}
	if v.LogFailRaw != g.Verdict(s, h, at(20*scrape)).LogFailRaw || v.Harm != g.Verdict(s, h, at(20*scrape)).Harm {
		t.Error("the fail process was not kept")
	}
	// Windows from before are read again: they change nothing.
	again = again.Add(s, scrapes(0, 20, 150, 1, 1350, 9)).Add(s, scrapes(20, 19, 150, 1, 1350, 9))
	if v := again.Verdict(s, h, at(39*scrape)); v.Reason != analysis.Soaking || v.Scrapes != 19 {
		t.Errorf("got %s after %d scrapes", v.Reason, v.Scrapes)
	}
	again = again.Add(s, scrapes(39, 1, 150, 1, 1350, 9))
	if v := again.Verdict(s, h, at(40*scrape)); v.Outcome != analysis.Pass {
		t.Errorf("got %s (%s)", v.Outcome, v.Reason)
	}
}

func TestRestartAtAHundredKeepsTheGuard(t *testing.T) {
	s := analysis.Defaults()
	h := analysis.Health{Scrape: scrape}
	g := analysis.Gate{}.StartStep(hundred[0]).Add(s, half).StartStep(hundred[1]).Add(s, scrapes(40, 2, 1600, 30, 0, 0))
	before := g.Verdict(s, h, at(42*scrape))
	after := g.RestartProof(at(42*scrape)).Verdict(s, h, at(42*scrape))
	if before.LogGuard == 0 || after.LogGuard != before.LogGuard || after.GuardRate != before.GuardRate {
		t.Errorf("the guard went from %v at %v to %v at %v", before.LogGuard, before.GuardRate, after.LogGuard, after.GuardRate)
	}
	if after.Elapsed != 0 || after.Candidate.Requests != 0 {
		t.Error("the soak was not started again")
	}
}

func TestRestartAtAHundredForgetsOldGaps(t *testing.T) {
	s := analysis.Defaults()
	h := analysis.Health{Scrape: scrape}
	g := analysis.Gate{}.StartStep(hundred[0]).Add(s, half).StartStep(hundred[1])
	g = g.Add(s, concat(scrapes(40, 5, 1600, 8, 0, 0), scrapes(54, 5, 1600, 8, 0, 0)))
	g = g.RestartProof(at(59*scrape)).Add(s, scrapes(59, 20, 1600, 8, 0, 0))
	if v := g.Verdict(s, h, at(78*scrape)); v.Reason != analysis.Soaking {
		t.Errorf("after 19 scrapes got %s: %q", v.Reason, v.Notes)
	}
	if v := g.Verdict(s, h, at(79*scrape)); v.Reason != analysis.SoakClean {
		t.Errorf("got %s: %q", v.Reason, v.Notes)
	}
}

func TestLateWindowsBelongToTheStepTheyWereServedIn(t *testing.T) {
	s := analysis.Defaults()
	g := analysis.Gate{}.StartStep(stepAt(0, 10, 0)).Add(s, scrapes(0, 19, 150, 1, 1350, 9)).StartStep(stepAt(1, 25, 20))
	g = g.Add(s, concat(scrapes(19, 1, 150, 100, 1350, 9), scrapes(20, 1, 375, 1, 1125, 3)))
	v := g.Verdict(s, analysis.Health{Scrape: scrape}, at(21*scrape))
	if v.Candidate != (analysis.Counts{Requests: 375, Bad: 1}) || v.Scrapes != 1 {
		t.Errorf("the proof counts %+v in %d scrapes", v.Candidate, v.Scrapes)
	}
	if v.Reason != analysis.Regression {
		t.Errorf("the earlier copy did not see it: %s", v.Reason)
	}
}

func TestStrataMultiply(t *testing.T) {
	// Two sources with very different rates and splits: pooled, the candidate
	// looks worse (Simpson); each by itself, it is the same.
	web := change(scrapes(0, 40, 1000, 10, 500, 5), func(w *analysis.Window) { w.Stratum = "web" })
	batch := change(scrapes(0, 40, 100, 0, 1000, 0), func(w *analysis.Window) { w.Stratum = "batch" })
	steps := []analysis.Step{stepAt(0, 42, 0)}
	v := judged{"", nil, steps, concat(web, batch), 40, analysis.Health{}, analysis.Pass, analysis.Certified, ""}.run(t)
	if v.Scrapes != 40 {
		t.Errorf("two strata make %d scrapes of 40", v.Scrapes)
	}
	pooled := judged{"", nil, steps, scrapes(0, 40, 1100, 10, 1500, 5), 40, analysis.Health{}, analysis.Fail, analysis.Regression, ""}.run(t)
	if pooled.LogFailRaw < v.LogFailRaw+5 {
		t.Errorf("pooled %v, by stratum %v", pooled.LogFailRaw, v.LogFailRaw)
	}
}

func TestWindowsThatCannotBeUsedAreRemarkedAndChangeNothing(t *testing.T) {
	s := analysis.Defaults()
	h := analysis.Health{Scrape: scrape}
	g := analysis.Gate{}.StartStep(ten[0]).Add(s, clean)
	tests := []struct {
		name, note string
		change     func(*analysis.Window)
	}{
		{"not a number", "not numbers", func(w *analysis.Window) { w.Candidate.Bad = math.NaN() }},
		{"infinite", "not numbers", func(w *analysis.Window) { w.Baseline.Requests = math.Inf(1) }},
		{"negative", "not numbers", func(w *analysis.Window) { w.Candidate.Requests = -1 }},
		{"beyond reason", "not numbers", func(w *analysis.Window) { w.Baseline.Requests = 1e300 }},
		{"times out of order", "end before they begin", func(w *analysis.Window) { w.From, w.To = w.To, w.From }},
		{"a time that cannot be written", "end before they begin", func(w *analysis.Window) { w.To = time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"another metric", "does not judge", func(w *analysis.Window) { w.Metric = "colour" }},
		{"time counted already", "repeat counted time", func(w *analysis.Window) { w.From = at(3 * scrape) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			odd := change(scrapes(6, 1, 150, 0, 1350, 0), tt.change)
			next := g.Add(s, odd).Add(s, odd)
			v, want := next.Verdict(s, h, at(7*scrape)), g.Verdict(s, h, at(7*scrape))
			if len(v.Notes) == 0 || !strings.Contains(v.Notes[0], tt.note) {
				t.Errorf("notes are %q", v.Notes)
			}
			if v.LogPass != want.LogPass || v.LogFailRaw != want.LogFailRaw || v.Scrapes != want.Scrapes || !next.Until().Equal(g.Until()) {
				t.Errorf("it was folded: %+v", v)
			}
			// A good window for the same time is still taken.
			if got := next.Add(s, scrapes(6, 1, 150, 0, 1350, 0)); !got.Until().Equal(at(7 * scrape)) {
				t.Errorf("the next window was not taken: %s", got.Until())
			}
		})
	}
}

func TestGatesShareNothing(t *testing.T) {
	s := analysis.Defaults()
	h := analysis.Health{Scrape: scrape}
	text := func(g analysis.Gate) string { return encode(t, g) }
	g := analysis.Gate{}.StartStep(hundred[0]).Add(s, half).StartStep(hundred[1]).Add(s, concat(scrapes(40, 1, 100, 0, 0, 0), scrapes(70, 1, math.NaN(), 0, 0, 0)))
	// Gaps of falling length, so that one more would be written behind them.
	g = g.Add(s, concat(scrapes(110, 1, 1600, 8, 0, 0), scrapes(140, 1, 1600, 8, 0, 0), scrapes(160, 1, 1600, 8, 0, 0)))
	before := text(g)
	one, two := g.Add(s, scrapes(172, 1, 1600, 8, 0, 0)), g.Add(s, scrapes(173, 1, 1600, 8, 0, 0))
	if alone := text(one); text(two) == alone || text(one) != alone || text(g.Add(s, scrapes(172, 1, 1600, 8, 0, 0))) != alone {
		t.Error("two gates that come of one share their gaps")
	}
	for name, next := range map[string]func() analysis.Gate{
		"Add":          func() analysis.Gate { return g.Add(s, scrapes(200, 9, 1600, 100, 3, 0)) },
		"StartStep":    func() analysis.Gate { return g.StartStep(stepAt(2, 50, 200)).Add(s, scrapes(200, 9, 800, 100, 800, 0)) },
		"RestartProof": func() analysis.Gate { return g.RestartProof(at(200*scrape)).Add(s, scrapes(200, 9, 1600, 1, 0, 0)) },
		"a remark":     func() analysis.Gate { return g.Add(s, scrapes(210, 1, math.NaN(), 0, 0, 0)) },
		"Verdict": func() analysis.Gate {
			g.Verdict(s, h, at(60*scrape))
			return analysis.Gate{}
		},
	} {
		if text(next()) == before {
			t.Errorf("%s changed nothing", name)
		}
		if text(g) != before {
			t.Errorf("%s changed the gate it was called on", name)
		}
	}
}

func TestHarmCountsWhatTheCandidateCaused(t *testing.T) {
	tests := []struct {
		name      string
		steps     []analysis.Step
		windows   []analysis.Window
		low, high float64 // the middle lies between
		covers    float64
	}{
		{"no requests, no harm", ten, nil, 0, 0, 0},
		{"equal sides", ten, scrapes(0, 20, 1000, 5, 9000, 45), 0, 0, 0},
		{"half a percent more of twenty thousand", ten, scrapes(0, 20, 1000, 10, 9000, 45), 100, 100, 100},
		{"a better candidate", ten, scrapes(0, 20, 1000, 0, 9000, 45), -100, -100, -100},
		{"no bad request at all", ten, scrapes(0, 20, 1000, 0, 9000, 0), 0, 0, 3},
		{"a base rate that moves takes nothing along", ten, concat(scrapes(0, 10, 1000, 5, 9000, 45), scrapes(10, 10, 1000, 50, 9000, 450)), 0, 0, 0},
		{"at 100 the last baseline stands in", hundred, concat(half, scrapes(40, 10, 1600, 16, 0, 0)), 79.99, 80.01, 80},
		{"warm-up windows harm too", ten, warmUp(scrapes(0, 20, 1000, 10, 9000, 45)), 100, 100, 100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := analysis.Judge(analysis.Defaults(), tt.steps, tt.windows, analysis.Health{}, at(time.Hour)).Harm
			const eps = 1e-6
			if h.Mid < tt.low-eps || h.Mid > tt.high+eps {
				t.Errorf("harm is %+v", h)
			}
			if h.Low > tt.covers+eps || h.High < tt.covers-eps || h.Low > h.Mid || h.High < h.Mid {
				t.Errorf("the interval %+v does not hold %v", h, tt.covers)
			}
			if len(tt.windows) > 0 && h.High-h.Low < 1 {
				t.Errorf("the interval %+v is too sure", h)
			}
		})
	}
}

// Where few baseline requests stand for many of the candidate, the expectation
// is what is uncertain: 10 bad ones stand for 100 here, with a variance of 1000.
func TestHarmIsUncertainWhereTheBaselineIsSmall(t *testing.T) {
	ws := scrapes(0, 1, 1000, 100, 100, 10)
	h := analysis.Judge(analysis.Defaults(), []analysis.Step{stepAt(0, 90, 0)}, ws, analysis.Health{}, at(scrape)).Harm
	if w := h.High - h.Low; w < 110 || w > 180 {
		t.Errorf("the interval %+v is %v wide", h, w)
	}
}

// The interval of the harm should hold the truth in about 95 % of cases.
func TestHarmIntervalCovers(t *testing.T) {
	const trials = 1000
	for _, more := range []float64{0, .002, .02} {
		held := 0
		for i := range trials {
			w := newWorld(uint64(i), 40, .004)
			w.worse = func(p float64) float64 { return p + more }
			g := analysis.Gate{}.StartStep(ten[0])
			var ws []analysis.Window
			for range 20 {
				ws = append(ws, w.serve(10))
			}
			h := g.Add(analysis.Defaults(), ws).Verdict(analysis.Defaults(), analysis.Health{}, w.now()).Harm
			if h.Low <= w.excess && w.excess <= h.High {
				held++
			}
		}
		t.Logf("with %v more: %.1f %%", more, 100*float64(held)/trials)
		if share := float64(held) / trials; share < .93 {
			t.Errorf("with %v more the interval holds in %.1f %%", more, 100*share)
		}
	}
}

func TestVerdictShowsItsNumbers(t *testing.T) {
	v := judged{"", nil, ten, scrapes(0, 20, 150, 1, 1350, 9), 20, analysis.Health{}, analysis.Pass, analysis.Certified, ""}.run(t)
	want := analysis.Verdict{
		Step: 0, Share: 10, Margin: .025, LogFailAt: math.Log(100), LogPassAt: math.Log(20),
		Candidate: analysis.Counts{Requests: 3000, Bad: 20}, Baseline: analysis.Counts{Requests: 27000, Bad: 180},
		Scrapes: 20, Elapsed: 5 * time.Minute, Left: 25 * time.Minute, Dispersion: 1, Metric: analysis.MetricErrors,
	}
	if v.Share != want.Share || v.Margin != want.Margin || v.Candidate != want.Candidate || v.Baseline != want.Baseline ||
		v.Scrapes != want.Scrapes || v.Elapsed != want.Elapsed || v.Left != want.Left || v.Dispersion != want.Dispersion || v.Metric != want.Metric {
		t.Errorf("got  %+v\nwant %+v", v, want)
	}
	if math.Abs(v.LogFailAt-want.LogFailAt) > 1e-12 || math.Abs(v.LogPassAt-want.LogPassAt) > 1e-12 || v.LogPass < v.LogPassAt || v.Delta == nil {
		t.Errorf("got %+v", v)
	}
	if !v.Data.Equal(at(20*scrape)) || !v.At.Equal(at(20*scrape)) {
		t.Errorf("judged at %s on data of %s", v.At, v.Data)
	}
}
