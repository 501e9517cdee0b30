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

// failer is what both kinds of test can do.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func encode(t failer, g analysis.Gate) string {
	t.Helper()
	b, err := json.Marshal(g)
	if err != nil {
		t.Fatalf("a gate cannot be written: %v", err)
	}
	return string(b)
}

func decode(t failer, text string) analysis.Gate {
	t.Helper()
	var g analysis.Gate
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		t.Fatalf("a gate cannot be read again: %v\n%s", err, text)
	}
	return g
}

// anyHistory is a stage with steps, and the windows of some strata in the order
// of time: some bad, some empty, some late, some warm.
func anyHistory() *rapid.Generator[history] {
	return rapid.Custom(func(t *rapid.T) history {
		var h history
		shares := rapid.SampledFrom([][]float64{{10}, {10, 25, 50}, {50, 100}, {10, 100, 50, 100}, {100}}).Draw(t, "shares")
		strata := rapid.SampledFrom([][]string{{""}, {"a", "b"}}).Draw(t, "strata")
		watch := anyWatch().Draw(t, "watch")
		seeds := rapid.SampledFrom([][]analysis.Seed{nil, {{Metric: analysis.MetricErrors, Pearson: 400, Terms: 100}}}).Draw(t, "seeds")
		k := 0
		for i, share := range shares {
			h.steps = append(h.steps, analysis.Step{Index: i, Share: share, Copies: 4, Watch: watch, Seeds: seeds, At: at(time.Duration(k)*scrape + time.Duration(rapid.IntRange(0, 10).Draw(t, "after"))*time.Second)})
			for range rapid.IntRange(0, 12).Draw(t, "scrapes") {
				for _, name := range strata {
					w := anyWindow(k, share, name).Draw(t, "window")
					h.windows = append(h.windows, w)
					for _, b := range watch.Bounds {
						slow := anyWindow(k, share, name).Draw(t, "slow")
						slow.Metric, slow.WarmUp = analysis.Latency(b).String(), w.WarmUp
						h.windows = append(h.windows, slow)
					}
				}
				k += 1 + rapid.SampledFrom([]int{0, 0, 0, 0, 10}).Draw(t, "gap")
			}
		}
		h.now = at(time.Duration(k) * scrape)
		return h
	})
}

func anyWatch() *rapid.Generator[analysis.Watch] {
	return rapid.SampledFrom([]analysis.Watch{
		{},
		{},
		{Bounds: []float64{.25}, Prove: []float64{.25}},
		{Bounds: []float64{.1, .25}, Prove: []float64{.25}},
	})
}

type history struct {
	steps   []analysis.Step
	windows []analysis.Window
	now     time.Time
}

func anyWindow(k int, share float64, stratum string) *rapid.Generator[analysis.Window] {
	return rapid.Custom(func(t *rapid.T) analysis.Window {
		n := rapid.SampledFrom([]float64{0, 20, 200, 2000, 200.5}).Draw(t, "requests")
		side := func(n float64) analysis.Counts {
			bad := rapid.SampledFrom([]float64{0, 0, 1, .3, n / 200, n / 20, n}).Draw(t, "bad")
			return analysis.Counts{Requests: n, Bad: math.Min(n, bad)}
		}
		return analysis.Window{
			Metric: analysis.MetricErrors, Stratum: stratum,
			From: at(time.Duration(k) * scrape), To: at(time.Duration(k+1) * scrape),
			Candidate: side(n * share / 100), Baseline: side(n * (100 - share) / 100),
			WarmUp: rapid.IntRange(0, 9).Draw(t, "warm-up") == 0,
		}
	})
}

func settingsOf(t *rapid.T) analysis.Settings {
	s := analysis.Defaults()
	s.Mode = rapid.SampledFrom([]analysis.Mode{analysis.ModeBoth, analysis.ModeEither}).Draw(t, "mode")
	s.Soak = rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "soak")
	s.MaxErrorRateRatio = rapid.SampledFrom([]float64{0, 1.5}).Draw(t, "ratio")
	s.ToleranceGuarantee = rapid.SampledFrom([]float64{0, .5}).Draw(t, "guarantee")
	s.MinRequests, s.MinBaselineRequests = 50, 50
	return s
}

func TestRunningStateEqualsRecomputation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, s := anyHistory().Draw(t, "history"), settingsOf(t)
		health := analysis.Health{Scrape: scrape}
		got := foldInPieces(t, h, s).Verdict(s, health, h.now)
		want := analysis.Judge(s, h.steps, h.windows, health, h.now)
		if a, b := asText(t, got), asText(t, want); a != b {
			t.Fatalf("in pieces %s\nat once   %s", a, b)
		}
	})
}

// foldInPieces feeds a gate as an engine does: a step starts in its time, what
// it reads comes in pieces, some of it read before, some of it late, and the
// gate is written and read between.
func foldInPieces(t *rapid.T, h history, s analysis.Settings) analysis.Gate {
	var g analysis.Gate
	i := 0
	for n, step := range h.steps {
		g = g.StartStep(step)
		for i < len(h.windows) {
			if n+1 < len(h.steps) {
				// Leave what may be late to the next step: what ends before it
				// begins may come before or after its start. A guard at 100 hears
				// no late ones.
				if next := h.steps[n+1].At; h.windows[i].To.After(next) || step.Share < 100 && next.Sub(h.windows[i].To) < 2*scrape && rapid.Bool().Draw(t, "late") {
					break
				}
			}
			end := min(i+rapid.IntRange(1, 4).Draw(t, "piece"), len(h.windows))
			for n+1 < len(h.steps) && h.windows[end-1].To.After(h.steps[n+1].At) {
				end--
			}
			from := max(0, i-rapid.IntRange(0, 3).Draw(t, "again"))
			g = decode(t, encode(t, g.Add(s, h.windows[from:end])))
			i = end
		}
	}
	return g
}

func asText(t *rapid.T, v analysis.Verdict) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("a verdict cannot be written: %v", err)
	}
	return string(b)
}

func TestBadEventOnTheCandidateNeverHelpsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, s := anyHistory().Draw(t, "history"), settingsOf(t)
		if len(h.windows) == 0 {
			return
		}
		// The newest window: earlier ones also feed the dispersion, which may
		// find that a bad event makes the two sides more alike.
		last := &h.windows[len(h.windows)-1]
		health := analysis.Health{Fresh: h.now, Scrape: scrape}
		before := analysis.Judge(s, h.steps, h.windows, health, h.now)
		if last.Candidate.Bad+1 > last.Candidate.Requests {
			return
		}
		last.Candidate.Bad++
		after := analysis.Judge(s, h.steps, h.windows, health, h.now)
		switch {
		case before.Outcome != analysis.Pass && after.Outcome == analysis.Pass:
			t.Fatalf("%s (%s) became a pass", before.Outcome, before.Reason)
		case before.Outcome == analysis.Fail && after.Outcome != analysis.Fail:
			t.Fatalf("a fail became %s (%s)", after.Outcome, after.Reason)
		case after.LogPass > before.LogPass+1e-9:
			t.Fatalf("the pass proof rose from %v to %v", before.LogPass, after.LogPass)
		case after.LogFailRaw < before.LogFailRaw-1e-9:
			t.Fatalf("the fail evidence fell from %v to %v", before.LogFailRaw, after.LogFailRaw)
		}
	})
}

func TestNoDataNeverPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, s := anyHistory().Draw(t, "history"), settingsOf(t)
		kind := rapid.SampledFrom([]string{"none", "not a number", "infinite", "empty", "negative", "warm-up", "only the baseline's", "only the candidate's"}).Draw(t, "kind")
		for i := range h.windows {
			w := &h.windows[i]
			switch kind {
			case "not a number":
				w.Candidate.Bad = math.NaN()
			case "infinite":
				w.Baseline.Requests = math.Inf(1)
			case "only the baseline's":
				w.Candidate = analysis.Counts{}
			case "only the candidate's":
				w.Baseline = analysis.Counts{}
			case "negative":
				w.Baseline.Requests = -w.Baseline.Requests - 1
			case "empty":
				w.Candidate, w.Baseline = analysis.Counts{}, analysis.Counts{}
			case "warm-up":
				w.WarmUp = true
			}
		}
		if kind == "none" {
			h.windows = nil
		}
		now := h.now.Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "later")) * time.Second)
		v := analysis.Judge(s, h.steps, h.windows, analysis.Health{Fresh: now, Scrape: scrape}, now)
		if v.Outcome == analysis.Pass {
			t.Fatalf("passed on %s data: %+v", kind, v)
		}
	})
}

func TestAnyCountsGiveAVerdictThatCanBeWritten(t *testing.T) {
	odd := rapid.SampledFrom([]float64{0, 1, math.NaN(), math.Inf(1), math.Inf(-1), -3, 1e-12, 1e-9, 1e11, 1e12, 1e13, 5e-324, math.MaxFloat64})
	rapid.Check(t, func(t *rapid.T) {
		var ws []analysis.Window
		for i := range rapid.IntRange(1, 6).Draw(t, "windows") {
			ws = append(ws, analysis.Window{
				Metric: analysis.MetricErrors, From: at(time.Duration(i) * scrape), To: at(time.Duration(i+1) * scrape),
				Candidate: analysis.Counts{Requests: odd.Draw(t, "n1"), Bad: odd.Draw(t, "x1")},
				Baseline:  analysis.Counts{Requests: odd.Draw(t, "n0"), Bad: odd.Draw(t, "x0")},
			})
		}
		steps := []analysis.Step{{Share: odd.Draw(t, "share"), Prev: odd.Draw(t, "prev"), Copies: rapid.IntRange(-1, 3).Draw(t, "copies"), At: origin}}
		s := settingsOf(t)
		g := analysis.Gate{}.StartStep(steps[0]).Add(s, ws)
		if text := encode(t, g); encode(t, decode(t, text)) != text {
			t.Fatalf("the gate changed: %s", text)
		}
		asText(t, g.Verdict(s, analysis.Health{}, at(time.Minute)))
	})
}

func TestGateSurvivesJSONWithNothingLeftOfAHypothesis(t *testing.T) {
	s := analysis.Defaults()
	g := analysis.Gate{}.StartStep(ten[0]).Add(s, scrapes(0, 3, 150, 2, 1350, 4))
	text := encode(t, g)
	if !strings.Contains(text, "null") {
		t.Fatalf("kappa 0 is refuted by a bad event, so a null is expected: %s", text)
	}
	again := decode(t, text)
	h := analysis.Health{Scrape: scrape}
	a, b := g.Add(s, scrapes(3, 5, 150, 1, 1350, 9)), again.Add(s, scrapes(3, 5, 150, 1, 1350, 9))
	if encode(t, a) != encode(t, b) || a.Verdict(s, h, at(8*scrape)).LogPass != b.Verdict(s, h, at(8*scrape)).LogPass {
		t.Errorf("the gates part:\n%s\n%s", encode(t, a), encode(t, b))
	}
	if n := len(text); n > 2000 {
		t.Errorf("a young gate has %d bytes", n)
	}
}

func TestGateRefusesRecordsThatCannotBe(t *testing.T) {
	s := analysis.Defaults()
	good := encode(t, analysis.Gate{}.StartStep(ten[0]).Add(s, clean))
	for name, text := range map[string]string{
		"no version":            `{}`,
		"another version":       strings.Replace(good, `"v":1`, `"v":2`, 1),
		"a shorter grid":        strings.Replace(good, `"delta":[`, `"gone":[1],"delta":[1,`, 1),
		"negative counts":       strings.Replace(good, `"seen":{"c":{"requests":900`, `"seen":{"c":{"requests":-900`, 1),
		"more bad than served":  strings.Replace(good, `"bad":0`, `"bad":1e9`, 1),
		"more copies than said": strings.Replace(good, `"planned":4`, `"planned":0`, 1),
		"an unknown metric":     strings.Replace(good, `"metric":"errors"`, `"metric":"colour"`, 1),
		"a year out of range":   strings.Replace(good, `"began":"2026`, `"began":"92026`, 1),
		"not an object":         `[]`,
	} {
		var g analysis.Gate
		if text == good {
			t.Errorf("%s: the text was not changed: %s", name, good)
		}
		if err := json.Unmarshal([]byte(text), &g); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	var g analysis.Gate
	if err := json.Unmarshal([]byte("null"), &g); err != nil || g.Started() {
		t.Errorf("null is a gate before its first step: %v", err)
	}
}

func TestGateSaysWhereItIs(t *testing.T) {
	s := analysis.Defaults()
	var g analysis.Gate
	if g.Started() || !g.Until().IsZero() || g.Alarms() != 0 {
		t.Error("a zero gate has not started")
	}
	g = g.Add(s, clean).RestartProof(origin)
	if g.Started() || !g.Until().IsZero() {
		t.Error("windows before a step change nothing")
	}
	g = g.StartStep(hundred[0]).Add(s, half).StartStep(hundred[1]).Add(s, scrapes(40, 1, 1600, 100, 0, 0))
	if !g.Started() || g.Step().Share != 100 || !g.Until().Equal(at(41*scrape)) || g.Alarms() != 1 {
		t.Errorf("step %+v, until %s, alarms %d", g.Step(), g.Until(), g.Alarms())
	}
}

func TestOrderOfWindowsInOneReadingDoesNotMatter(t *testing.T) {
	s := analysis.Defaults()
	ws := concat(clean, scrapes(6, 9, 150, 2, 1350, 9))
	back := slices.Clone(ws)
	slices.Reverse(back)
	if a, b := encode(t, analysis.Gate{}.StartStep(ten[0]).Add(s, ws)), encode(t, analysis.Gate{}.StartStep(ten[0]).Add(s, back)); a != b {
		t.Errorf("forwards  %s\nbackwards %s", a, b)
	}
}

func FuzzGateDecoding(f *testing.F) {
	s := analysis.Defaults()
	f.Add([]byte(`{"v":1}`))
	f.Add([]byte(`null`))
	f.Add([]byte(encode(f, analysis.Gate{}.StartStep(ten[0]).Add(s, scrapes(0, 3, 150, 2, 1350, 4)))))
	f.Add([]byte(encode(f, analysis.Gate{}.StartStep(hundred[0]).Add(s, half).StartStep(hundred[1]).Add(s, scrapes(70, 3, 1600, 100, 0, 0)))))
	f.Fuzz(func(t *testing.T, b []byte) {
		var g analysis.Gate
		if json.Unmarshal(b, &g) != nil {
			return
		}
		text := encode(t, g)
		if encode(t, decode(t, text)) != text {
			t.Fatalf("it changed on the way: %s", text)
		}
		g = g.Add(s, scrapes(100, 2, 100, 1, 100, 1)).RestartProof(at(time.Hour)).StartStep(stepAt(1, 50, 200)).Add(s, half)
		encode(t, g)
		if _, err := json.Marshal(g.Verdict(s, analysis.Health{}, at(2*time.Hour))); err != nil {
			t.Fatalf("a verdict cannot be written: %v", err)
		}
	})
}
