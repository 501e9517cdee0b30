package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/api/apitest"
)

// one is an input with one window and settings.
func one(n1, x1, n0, x0 float64, settings string) string {
	if settings != "" {
		settings = `"settings":{` + settings + `},`
	}
	return fmt.Sprintf(`{%s"windows":[{"candidate":{"requests":%g,"bad":%g},"baseline":{"requests":%g,"bad":%g}}]}`, settings, n1, x1, n0, x0)
}

func runJudge(t *testing.T, input string) (judgement, int, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "windows.json")
	if err := os.WriteFile(file, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run([]string{"judge", "-f", file}, &stdout, &stderr)
	var j judgement
	if code != exitUsage {
		if err := json.Unmarshal(stdout.Bytes(), &j); err != nil {
			t.Fatalf("it printed no JSON: %s\n%s", stdout.String(), stderr.String())
		}
	} else if stdout.Len() > 0 {
		t.Errorf("bad input was answered: %s", stdout.String())
	}
	return j, code, stderr.String()
}

func TestRecordedWindowsAreJudged(t *testing.T) {
	for name, tt := range map[string]struct {
		input      string
		verdict    analysis.Outcome
		reason     analysis.Reason
		material   bool
		fail, pass float64 // 0 where it is beyond the numbers
		code       int
	}{
		"the same rate":                    {one(10000, 200, 90000, 1800, ""), "pass", "certified", false, .00122794, 4.00522e5, 0},
		"ten times the errors":             {one(3000, 30, 27000, 27, ""), "fail", "regression", true, 1.90781e13, .0415759, 1},
		"too little proof":                 {one(2000, 10, 2000, 10, ""), "inconclusive", "notCertified", false, .273584, 2.23524, 4},
		"too few requests":                 {one(50, 1, 450, 1, `"stepMargin":0.025`), "inconclusive", "insufficientRequests", true, 1.94, .643688, 4},
		"no baseline":                      {one(1000, 0, 0, 0, ""), "inconclusive", "insufficientRequests", false, 1, 41.6512, 4},
		"significant and immaterial":       {one(1e6, 1200, 9e6, 9000, ""), "pass", "certified", false, 1.15742e6, 0, 0},
		"a ratio alone":                    {one(4000, 24, 36000, 72, `"maxErrorRateDelta":0`), "fail", "regression", true, 1369.69, .070099, 1},
		"a difference alone":               {one(4000, 40, 36000, 180, `"maxErrorRateRatio":0`), "inconclusive", "notCertified", false, 168.677, .219703, 4},
		"fractional counts":                {one(299.6, 2.4, 2701.3, 3.1, `"stepMargin":0.025`), "inconclusive", "insufficientRequests", true, 4.09226, 2.84226, 4},
		"another alpha":                    {one(400, 4, 3600, 1, `"stepMargin":0.025,"alpha":0.05`), "fail", "regression", true, 209.492, 2.42336, 1},
		"a dispersion of two":              {one(5000, 75, 5000, 25, `"dispersion":2`), "fail", "regression", true, 185.199, .107536, 1},
		"a guarantee of the whole margin":  {one(2500, 30, 2500, 12, `"toleranceGuarantee":1`), "inconclusive", "notCertified", true, .786, .06, 4},
		"an outage beyond the numbers":     {one(3000, 3000, 27000, 0, ""), "fail", "regression", true, 0, 0, 1},
		"mode either with a small excess":  {one(4e5, 24000, 36e5, 192000, `"mode":"either"`), "fail", "regression", true, 0, 0, 1},
		"a step margin that leaves it out": {one(3000, 0, 27000, 54, `"stepMargin":0`), "pass", "certified", false, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			j, code, stderr := runJudge(t, tt.input)
			if j.Verdict != tt.verdict || j.Reason != tt.reason || j.Material != tt.material || code != tt.code {
				t.Errorf("got %s (%s), material %v, exit code %d: %s", j.Verdict, j.Reason, j.Material, code, stderr)
			}
			if tt.fail > .9 || tt.fail > 0 && tt.fail < .7 {
				closeTo(t, "failEvidence", j.FailEvidence, j.FailEvidenceLog, tt.fail)
			}
			if tt.pass > 0 && tt.pass != .06 {
				closeTo(t, "passEvidence", j.PassEvidence, *j.PassEvidenceLog, tt.pass)
			}
		})
	}
	if j, _, _ := runJudge(t, one(3000, 3000, 27000, 0, "")); j.FailEvidence != nil || j.FailEvidenceLog < 1000 {
		t.Errorf("an e-value beyond the numbers is %v with the logarithm %g", j.FailEvidence, j.FailEvidenceLog)
	}
}

func closeTo(t *testing.T, what string, got *float64, log, want float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > 1e-5*want || math.Abs(log-math.Log(want)) > 1e-5 {
		t.Errorf("%s is %v with the logarithm %g, want %g", what, got, log, want)
	}
}

func TestJudgeReadsStandardInput(t *testing.T) {
	body, err := readInput("-", strings.NewReader(one(1, 0, 1, 0, "")))
	if err != nil || len(body) == 0 {
		t.Errorf("got %d bytes: %v", len(body), err)
	}
	if _, err := readInput("-", io.LimitReader(zeros{}, maxInput+10)); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("an endless input: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestBadJudgeInputIsNamedWithItsPlace(t *testing.T) {
	ok := one(300, 0, 2700, 0, "")
	for name, tt := range map[string]struct {
		input string
		want  []string
	}{
		"nothing":                 {"", []string{"1:1"}},
		"truncated":               {ok[:40], []string{"1:40", "unexpected end"}},
		"truncated further down":  {"{\n \"windows\": [\n  {", []string{"3:3", "unexpected end"}},
		"not a number":            {`{"windows":[{"candidate":{"requests":NaN}}]}`, []string{"1:38", "'N'"}},
		"a list":                  {`[1]`, []string{"1:1", "JSON object", "array"}},
		"two values":              {ok + ok, []string{"1:", "after top-level value"}},
		"an unknown field":        {`{"window":[]}`, []string{"/window", "not known", `"windows"`}},
		"an unknown setting":      {one(1, 0, 1, 0, `"alfa":1`), []string{"/settings/alfa", `"alpha"`}},
		"a field twice":           {`{"windows":[],"windows":[]}`, []string{"/windows", "twice"}},
		"a string for a number":   {strings.Replace(ok, "300", `"300"`, 1), []string{"/windows/0/candidate/requests", "a number"}},
		"a number out of range":   {strings.Replace(ok, "300", "1e999", 1), []string{"/windows/0/candidate/requests"}},
		"no windows":              {`{"settings":{}}`, []string{"/windows", "none"}},
		"empty windows":           {`{"windows":[]}`, []string{"/windows", "none"}},
		"no baseline":             {`{"windows":[{"candidate":{"requests":1,"bad":0}}]}`, []string{"/windows/0/baseline", "missing"}},
		"no bad":                  {`{"windows":[{"candidate":{"requests":1},"baseline":{"requests":1,"bad":0}}]}`, []string{"/windows/0/candidate/bad", "missing"}},
		"negative requests":       {one(-1, 0, 1, 0, ""), []string{"/windows/0/candidate/requests", "-1"}},
		"negative bad":            {one(1, 0, 1, -2, ""), []string{"/windows/0/baseline/bad", "-2"}},
		"more bad than requests":  {one(1, 0, 5, 6, ""), []string{"/windows/0/baseline/bad", "6", "5"}},
		"an alpha that is none":   {one(1, 0, 1, 0, `"alpha":2`), []string{"/settings/alpha", "0.01"}},
		"no margin":               {one(1, 0, 1, 0, `"maxErrorRateDelta":0,"maxErrorRateRatio":0`), []string{"/settings/maxErrorRateDelta"}},
		"an unknown mode":         {one(1, 0, 1, 0, `"mode":"any"`), []string{"/settings/mode", "either"}},
		"a step margin in points": {one(1, 0, 1, 0, `"stepMargin":2.5`), []string{"/settings/stepMargin"}},
		"a dispersion below one":  {one(1, 0, 1, 0, `"dispersion":0.5`), []string{"/settings/dispersion"}},
		"a safety limit":          {one(1, 0, 1, 0, `"maxErrorRate":0.5`), []string{"/settings/maxErrorRate"}},
		"a null":                  {`{"windows":null}`, []string{"/windows", "null"}},
		"both questions":          {`{"windows":[],"record":{"outcome":"pass","fail":{"logAt":1}}}`, []string{"/windows", "two questions"}},
		"an outcome that is none": {`{"outcome":"maybe","fail":{"logAt":1}}`, []string{"record/outcome", "maybe"}},
		"a record without bounds": {`{"outcome":"pass"}`, []string{"record/fail/logAt"}},
		"a record with a stranger": {
			`{"outcome":"pass","colour":1}`, []string{"/colour"},
		},
		"a record with a field twice": {`{"outcome":"pass","outcome":"fail"}`, []string{"/outcome", "twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, code, stderr := runJudge(t, tt.input)
			if code != exitUsage {
				t.Errorf("exit code %d", code)
			}
			for _, w := range tt.want {
				if !strings.Contains(stderr, w) {
					t.Errorf("stderr does not say %q: %s", w, stderr)
				}
			}
		})
	}
	for _, args := range [][]string{{"judge"}, {"judge", "-f", "/nowhere/windows.json"}, {"judge", "windows.json"}} {
		var stderr bytes.Buffer
		if code := run(args, io.Discard, &stderr); code != exitUsage || stderr.Len() == 0 {
			t.Errorf("%v: exit code %d: %s", args, code, stderr.String())
		}
	}
}

// shown is a verdict as the API shows it.
func shown(t *testing.T, v analysis.Verdict) string {
	t.Helper()
	view := apitest.View("gating", apitest.Now())
	view.Verdict.Val = v
	b, err := json.Marshal(api.FromView(view, "").Status.Gate)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// slowParts are errors that say nothing and a bound that says much.
func slowParts() []analysis.Part {
	c, b := analysis.Counts{Requests: 1000, Bad: 80}, analysis.Counts{Requests: 9000, Bad: 350}
	return []analysis.Part{{
		Metric: "errors", Weight: .59, Rest: .6, LogPass: 3.5, Proves: true, Dispersion: 1,
		Copies: []analysis.CopyPart{{Weight: .4, Log: 1, Material: true}},
	}, {
		Metric: "latency:0.25", Weight: .41, Rest: .6, LogFail: 8, LogPass: -30, Proves: true, Margin: .01, Dispersion: 1,
		Candidate: c, Baseline: b, Copies: []analysis.CopyPart{{Weight: .4, Log: 9, Material: true, Candidate: c, Baseline: b}},
	}}
}

// A verdict that was merged of several metrics is merged again.
func TestTheMetricsOfARecordAreMergedAgain(t *testing.T) {
	v := analysis.Verdict{
		Outcome: analysis.Fail, Reason: analysis.Regression, Metric: "latency:0.25", Material: true, Share: 10, Parts: slowParts(),
		Candidate: analysis.Counts{Requests: 1000}, Baseline: analysis.Counts{Requests: 9000},
		LogFail: 99, LogFailAt: math.Log(100), LogPass: -30, LogPassAt: math.Log(20), SafetyAt: .25,
	}
	v.Parts[1].Copies[0].Log = 2 // so that the parts do not carry the fail
	if j, _, stderr := runJudge(t, shown(t, v)); j.Verdict != analysis.Inconclusive || *j.Agrees {
		t.Errorf("got %+v: %s", j, stderr)
	}
	v.Parts[1].Copies[0].Log = 20
	if j, _, stderr := runJudge(t, shown(t, v)); j.Verdict != analysis.Fail || !*j.Agrees {
		t.Errorf("got %+v: %s", j, stderr)
	}
}

func TestVerdictsOfReleasesAreReproduced(t *testing.T) {
	base := *apitest.View("gating", apitest.Now()).Verdict.Val.Delta
	v := analysis.Verdict{
		Outcome: analysis.Pass, Reason: analysis.Certified, Metric: "errors", Share: 10, Delta: &base,
		Candidate: analysis.Counts{Requests: 3000, Bad: 15}, Baseline: analysis.Counts{Requests: 27000, Bad: 130},
		SeenCandidate: analysis.Counts{Requests: 3100, Bad: 15}, SeenBaseline: analysis.Counts{Requests: 27100, Bad: 130},
		LogFail: -1e6, LogFailRaw: -1.3, LogFailAt: math.Log(100), LogPass: 3.5, LogPassAt: math.Log(20), Dispersion: 1, Scrapes: 20,
	}
	for name, change := range map[string]func(v *analysis.Verdict){
		"a pass": func(*analysis.Verdict) {},
		"a fail": func(v *analysis.Verdict) {
			v.Outcome, v.Reason, v.Material, v.LogFail, v.LogFailRaw = analysis.Fail, analysis.Regression, true, 5, 900
		},
		"the safety limit": func(v *analysis.Verdict) {
			v.Outcome, v.Reason, v.SeenCandidate.Bad = analysis.Fail, analysis.SafetyLimit, 2000
		},
		"no proof yet": func(v *analysis.Verdict) {
			v.Outcome, v.Reason, v.LogPass = analysis.Inconclusive, analysis.NotCertified, 1
		},
		"too few requests": func(v *analysis.Verdict) {
			v.Outcome, v.Reason, v.Candidate.Requests, v.Share = analysis.Inconclusive, analysis.InsufficientRequests, 20, 0
		},
		"a gap in the data": func(v *analysis.Verdict) { v.Outcome, v.Reason = analysis.Inconclusive, analysis.TelemetryGap },
		"a split that is off": func(v *analysis.Verdict) {
			v.Outcome, v.Reason, v.Share = analysis.Inconclusive, analysis.TrafficMismatch, 50
		},
		"a clean soak": func(v *analysis.Verdict) {
			v.Reason, v.Share, v.LogPass, v.LogPassAt, v.GuardRate, v.LogGuard = analysis.SoakClean, 100, 0, 0, .01, -3
			v.Baseline, v.SeenBaseline = analysis.Counts{}, analysis.Counts{}
		},
		"slow answers": func(v *analysis.Verdict) {
			v.Outcome, v.Reason, v.Material, v.Metric, v.SafetyAt = analysis.Fail, analysis.Regression, true, "latency:0.25", .25
			v.Parts = slowParts()
			v.LogFail, v.LogFailRaw = math.Log(.59*(.6+.4*math.E)+.41*(.4*math.Exp(9)+.6)), 900
			v.LogPass = -30
		},
		"a second alarm": func(v *analysis.Verdict) {
			v.Outcome, v.Reason, v.Share, v.LogPass, v.LogPassAt, v.GuardRate, v.LogGuard = analysis.Fail, analysis.GuardAlarmAgain, 100, 0, 0, .01, 9
			v.Baseline, v.SeenBaseline = analysis.Counts{}, analysis.Counts{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := v
			change(&v)
			j, code, stderr := runJudge(t, shown(t, v))
			if j.Verdict != v.Outcome || j.Reason != v.Reason || j.Agrees == nil || !*j.Agrees {
				t.Errorf("got %+v: %s", j, stderr)
			}
			if want := map[analysis.Outcome]int{"pass": 0, "fail": 1, "inconclusive": 4}[v.Outcome]; code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
		})
	}
}

func TestRecordsThatContradictThemselvesAreNotBelieved(t *testing.T) {
	v := apitest.View("gating", apitest.Now()).Verdict.Val
	text := shown(t, v)
	if j, code, stderr := runJudge(t, text); j.Verdict != v.Outcome || !*j.Agrees || code != exitInconclusive {
		t.Fatalf("got %+v, exit code %d: %s", j, code, stderr)
	}
	for name, change := range map[string]func(string) string{
		"a pass without its proof": func(s string) string {
			return strings.NewReplacer(`"inconclusive"`, `"pass"`, `"notCertified"`, `"certified"`).Replace(s)
		},
		"a value that is not its logarithm": func(s string) string { return strings.Replace(s, `"pass":{"value":`, `"pass":{"value":1`, 1) },
		"a proof that is not met":           func(s string) string { return strings.ReplaceAll(s, `"met":false`, `"met":true`) },
		"a rate that is not its counts":     func(s string) string { return strings.Replace(s, `"rate":0`, `"rate":1`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			if change(text) == text {
				t.Fatalf("nothing was changed: %s", text)
			}
			j, code, stderr := runJudge(t, change(text))
			if j.Agrees == nil || *j.Agrees || code != exitInconclusive {
				t.Errorf("got %+v, exit code %d: %s", j, code, stderr)
			}
		})
	}
	if j, _, _ := runJudge(t, `{"settings":{"maxErrorRate":1},"record":`+text+`}`); j.Recorded == nil || !*j.Agrees {
		t.Errorf("beside settings it is %+v", j)
	}
}

// What the API comes to show must be read, or a record of it would be refused.
func TestEveryFieldOfAShownVerdictIsRead(t *testing.T) {
	same := func(what string, shown, read reflect.Type) {
		for i := range shown.NumField() {
			name, _, _ := strings.Cut(shown.Field(i).Tag.Get("json"), ",")
			found := false
			for k := range read.NumField() {
				found = found || read.Field(k).Tag.Get("json") == name
			}
			if !found {
				t.Errorf("%s has the field %q, and shifter judge does not know it", what, name)
			}
		}
	}
	same("a verdict", reflect.TypeFor[api.Gate](), reflect.TypeFor[judgeRecord]())
	same("a side", reflect.TypeFor[api.Arm](), reflect.TypeFor[judgeArm]())
	same("an interval", reflect.TypeFor[api.Interval](), reflect.TypeFor[judgeInterval]())
	same("an e-value", reflect.TypeFor[api.Evidence](), reflect.TypeFor[judgeEvidence]())
	same("a guard", reflect.TypeFor[api.Guard](), reflect.TypeFor[judgeEvidence]())
	same("a metric", reflect.TypeFor[api.GatePart](), reflect.TypeFor[judgePart]())
	same("a copy", reflect.TypeFor[api.GateCopy](), reflect.TypeFor[judgeCopy]())
	same("counts", reflect.TypeFor[api.Counts](), reflect.TypeFor[judgeTotals]())
}

func FuzzJudgeInput(f *testing.F) {
	f.Add([]byte(one(10000, 200, 90000, 1800, `"mode":"either","dispersion":3`)))
	f.Add([]byte(one(299.6, 2.4, 0, 0, `"stepMargin":0`)))
	f.Add([]byte(`{"outcome":"pass","fail":{"value":null,"bound":100,"log":1e6,"logAt":4.6},"pass":{"log":3,"logAt":2},"guard":null}`))
	f.Add([]byte("{\n\"windows\": [{}, null"))
	f.Fuzz(func(t *testing.T, body []byte) {
		j, err := judge(body)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("bad input is refused without a word")
			}
			return
		}
		if _, err := json.Marshal(j); err != nil {
			t.Fatalf("the answer cannot be written: %v", err)
		}
		if j.Verdict == "" || j.Reason == "" {
			t.Fatalf("no verdict: %+v", j)
		}
	})
}
