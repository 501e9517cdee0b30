package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/release"
)

// maxWindows bounds how many windows one input may hold.
const maxWindows = 100_000

// judgeInput is what shifter judge reads: recorded windows, or a verdict as the
// API shows it in a release's status.gate (by itself, or as record beside
// settings).
type judgeInput struct {
	Settings *judgeSettings `json:"settings"`
	Windows  []judgeWindow  `json:"windows"`
	Record   *judgeRecord   `json:"record"`
}

// judgeSettings are the judge's numbers. What is left out takes its default; a
// margin of 0 is not set.
type judgeSettings struct {
	Alpha               *float64 `json:"alpha"`
	AlphaPass           *float64 `json:"alphaPass"`
	MaxErrorRateDelta   *float64 `json:"maxErrorRateDelta"`
	MaxErrorRateRatio   *float64 `json:"maxErrorRateRatio"`
	Mode                *string  `json:"mode"`
	MinRequests         *float64 `json:"minRequests"`
	MinBaselineRequests *float64 `json:"minBaselineRequests"`
	StepMargin          *float64 `json:"stepMargin"`
	Dispersion          *float64 `json:"dispersion"`
	ToleranceGuarantee  *float64 `json:"toleranceGuarantee"`
	MaxErrorRate        *float64 `json:"maxErrorRate"` // of a record only
}

type judgeWindow struct {
	Candidate *judgeCounts `json:"candidate"`
	Baseline  *judgeCounts `json:"baseline"`
}

type judgeCounts struct {
	Requests *float64 `json:"requests"`
	Bad      *float64 `json:"bad"`
}

// judgeRecord is a verdict as the API shows it.
type judgeRecord struct {
	Outcome    string         `json:"outcome"`
	Reason     string         `json:"reason"`
	Sentence   string         `json:"sentence"`
	Metric     string         `json:"metric"`
	Share      float64        `json:"share"`
	At         string         `json:"at"`
	Data       string         `json:"data"`
	Candidate  judgeArm       `json:"candidate"`
	Baseline   judgeArm       `json:"baseline"`
	Delta      *judgeInterval `json:"delta"`
	Margin     float64        `json:"margin"`
	Fail       judgeEvidence  `json:"fail"`
	FailRaw    judgeEvidence  `json:"failRaw"`
	Pass       *judgeEvidence `json:"pass"`
	Guard      *judgeEvidence `json:"guard"`
	Dispersion float64        `json:"dispersion"`
	Scrapes    float64        `json:"scrapes"`
	Material   bool           `json:"material"`
	Elapsed    float64        `json:"elapsed"`
	Left       float64        `json:"left"`
	SafetyAt   float64        `json:"safetyAt"`
	Parts      []judgePart    `json:"parts"`
	Notes      []string       `json:"notes"`
}

// judgePart is one metric's evidence in a verdict.
type judgePart struct {
	Metric     string      `json:"metric"`
	Bound      *float64    `json:"bound"`
	Candidate  judgeTotals `json:"candidate"`
	Baseline   judgeTotals `json:"baseline"`
	Margin     float64     `json:"margin"`
	Fail       float64     `json:"fail"`
	Pass       float64     `json:"pass"`
	Proves     bool        `json:"proves"`
	Dispersion float64     `json:"dispersion"`
	Weight     float64     `json:"weight"`
	Rest       float64     `json:"rest"`
	Copies     []judgeCopy `json:"copies"`
}

type judgeCopy struct {
	Weight    float64     `json:"weight"`
	Log       float64     `json:"log"`
	Material  bool        `json:"material"`
	Candidate judgeTotals `json:"candidate"`
	Baseline  judgeTotals `json:"baseline"`
}

type judgeTotals struct {
	Requests float64 `json:"requests"`
	Bad      float64 `json:"bad"`
}

func (c judgeTotals) counts() analysis.Counts {
	return analysis.Counts{Requests: c.Requests, Bad: c.Bad}
}

type judgeArm struct {
	Requests float64  `json:"requests"`
	Bad      float64  `json:"bad"`
	Rate     *float64 `json:"rate"`
	Need     float64  `json:"need"`
	Seen     float64  `json:"seen"`
	SeenBad  float64  `json:"seenBad"`
}

type judgeInterval struct {
	Low  float64 `json:"low"`
	Mid  float64 `json:"mid"`
	High float64 `json:"high"`
}

// judgeEvidence is an e-value with its bound, or the guard's with its rate.
type judgeEvidence struct {
	Value *float64 `json:"value"`
	Bound float64  `json:"bound"`
	Log   float64  `json:"log"`
	LogAt float64  `json:"logAt"`
	Met   bool     `json:"met"`
	Rate  float64  `json:"rate"`
}

// readJudgeInput reads one input and names the place of whatever is wrong with
// it: a line and column where it is no JSON, else the field.
func readJudgeInput(body []byte) (judgeInput, error) {
	var in judgeInput
	body, bare, err := withoutNulls(body)
	if err != nil {
		return in, err
	}
	var found []release.Finding
	if bare {
		in.Record = &judgeRecord{}
		found = api.Strict(body, in.Record)
	} else {
		found = api.Strict(body, &in)
	}
	if len(found) > 0 {
		return in, badInput(found)
	}
	return in, in.check()
}

// withoutNulls checks the syntax, takes the nulls out of a record, where they
// stand for what is not known, and says whether the input is a record by itself.
func withoutNulls(body []byte) (out []byte, bare bool, err error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(body, &top); err != nil {
		return nil, false, syntaxAt(body, err)
	}
	_, bare = top["outcome"]
	if _, ok := top["record"]; !bare && !ok {
		return body, false, nil
	}
	// Twice the same field would be lost on the way, so it is refused here.
	if found := api.Strict(body, &anything{}); hasCode(found, "duplicate") {
		return nil, false, badInput(found)
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return nil, false, syntaxAt(body, err)
	}
	out, err = json.Marshal(pruned(tree))
	return out, bare, err
}

// anything is a request that knows no field.
type anything struct{}

func hasCode(found []release.Finding, code string) bool {
	for _, f := range found {
		if f.Code == code {
			return true
		}
	}
	return false
}

func pruned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if x == nil {
				delete(v, k)
				continue
			}
			v[k] = pruned(x)
		}
	case []any:
		for i := range v {
			v[i] = pruned(v[i])
		}
	}
	return v
}

// syntaxAt says where a text stops being the JSON that is wanted.
func syntaxAt(body []byte, err error) error {
	var syn *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syn):
		return fmt.Errorf("%s: %w", lineColumn(body, syn.Offset), err)
	case errors.As(err, &typ):
		return fmt.Errorf("%s: a JSON object is wanted and %s is there", lineColumn(body, typ.Offset), typ.Value)
	}
	return err
}

// lineColumn names the byte before an offset, as editors count.
func lineColumn(body []byte, offset int64) string {
	before := body[:max(0, min(offset, int64(len(body)))-1)]
	if offset <= 0 {
		before = nil
	}
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1
	return fmt.Sprintf("%d:%d", line, column)
}

func badInput(found []release.Finding) error {
	var b strings.Builder
	for i, f := range found {
		if i > 0 {
			b.WriteString("; ")
		}
		if f.Pointer != "" {
			b.WriteString(f.Pointer + ": ")
		}
		b.WriteString(f.Message)
		if f.Fix != "" {
			b.WriteString(" (" + f.Fix + ")")
		}
	}
	return errors.New(b.String())
}

// check looks at what the fields hold.
func (in judgeInput) check() error {
	if in.Record != nil {
		if in.Windows != nil {
			return errors.New("/windows: windows and a record are two questions; give one of them")
		}
		return in.Record.check()
	}
	if len(in.Windows) == 0 {
		return errors.New("/windows: there are none; give at least one window with candidate and baseline, each with requests and bad")
	}
	if len(in.Windows) > maxWindows {
		return fmt.Errorf("/windows: %d are too many, use %d at most", len(in.Windows), maxWindows)
	}
	for i, w := range in.Windows {
		for _, side := range []struct {
			name string
			c    *judgeCounts
		}{{"candidate", w.Candidate}, {"baseline", w.Baseline}} {
			at := fmt.Sprintf("/windows/%d/%s", i, side.name)
			if side.c == nil {
				return fmt.Errorf("%s: it is missing", at)
			}
			if err := checkCounts(at, side.c.Requests, side.c.Bad); err != nil {
				return err
			}
		}
	}
	if in.Settings != nil && in.Settings.MaxErrorRate != nil {
		return errors.New("/settings/maxErrorRate: windows are judged without the safety limit; it belongs to a record")
	}
	return nil
}

// mostCounted is more than one side can have served in a window.
const mostCounted = 1e12

func checkCounts(at string, requests, bad *float64) error {
	switch {
	case requests == nil:
		return fmt.Errorf("%s/requests: it is missing", at)
	case bad == nil:
		return fmt.Errorf("%s/bad: it is missing", at)
	case !(*requests >= 0 && *requests <= mostCounted):
		return fmt.Errorf("%s/requests: %g is not a number of requests", at, *requests)
	case !(*bad >= 0):
		return fmt.Errorf("%s/bad: %g is not a number of requests", at, *bad)
	case *bad > *requests:
		return fmt.Errorf("%s/bad: %g bad requests are more than the %g requests", at, *bad, *requests)
	}
	return nil
}

func (r judgeRecord) check() error {
	for _, a := range []struct {
		name string
		arm  judgeArm
	}{{"candidate", r.Candidate}, {"baseline", r.Baseline}} {
		if err := checkCounts("record/"+a.name, &a.arm.Requests, &a.arm.Bad); err != nil {
			return err
		}
		if !(a.arm.SeenBad >= 0 && a.arm.SeenBad <= a.arm.Seen) {
			return fmt.Errorf("record/%s/seenBad: %g bad requests of %g that were seen cannot be", a.name, a.arm.SeenBad, a.arm.Seen)
		}
	}
	switch analysis.Outcome(r.Outcome) {
	case analysis.Pass, analysis.Fail, analysis.Inconclusive:
	default:
		return fmt.Errorf("record/outcome: %q is not pass, fail or inconclusive", r.Outcome)
	}
	if r.Fail.LogAt <= 0 {
		return fmt.Errorf("record/fail/logAt: %g is not the logarithm of a bound", r.Fail.LogAt)
	}
	if !(r.SafetyAt >= 0 && r.SafetyAt <= 1) {
		return fmt.Errorf("record/safetyAt: %g is not a share between 0 and 1", r.SafetyAt)
	}
	for i, p := range r.Parts {
		weights := []float64{p.Weight, p.Rest}
		for _, c := range p.Copies {
			weights = append(weights, c.Weight)
		}
		for _, w := range weights {
			if !(w >= 0 && w <= 1) {
				return fmt.Errorf("record/parts/%d: a weight of %g is not a share between 0 and 1", i, w)
			}
		}
	}
	if r.Pass != nil && r.Pass.LogAt <= 0 {
		return fmt.Errorf("record/pass/logAt: %g is not the logarithm of a bound", r.Pass.LogAt)
	}
	return nil
}

// settings fills in the defaults and says which of them cannot be used.
func (in judgeInput) settings() (analysis.Settings, analysis.Fixed, error) {
	s, g := analysis.Defaults(), in.Settings
	if g == nil {
		g = &judgeSettings{}
	}
	take(&s.Alpha, g.Alpha)
	take(&s.AlphaPass, g.AlphaPass)
	take(&s.MaxErrorRateDelta, g.MaxErrorRateDelta)
	take(&s.MaxErrorRateRatio, g.MaxErrorRateRatio)
	take(&s.MinRequests, g.MinRequests)
	take(&s.MinBaselineRequests, g.MinBaselineRequests)
	take(&s.ToleranceGuarantee, g.ToleranceGuarantee)
	take(&s.MaxErrorRate, g.MaxErrorRate)
	if g.Mode != nil {
		s.Mode = analysis.Mode(*g.Mode)
	}
	f := analysis.Fixed{StepMargin: s.MaxErrorRateDelta, Dispersion: 1}
	take(&f.StepMargin, g.StepMargin)
	take(&f.Dispersion, g.Dispersion)
	for _, bad := range s.Validate() {
		return s, f, fmt.Errorf("/settings/%s: %s", bad.Field, bad.Problem)
	}
	switch {
	case !(f.StepMargin >= 0 && f.StepMargin <= 1):
		return s, f, fmt.Errorf("/settings/stepMargin: %g is not a share between 0 and 1", f.StepMargin)
	case !(f.Dispersion >= 1 && f.Dispersion <= 25):
		return s, f, fmt.Errorf("/settings/dispersion: %g does not lie between 1 and 25", f.Dispersion)
	}
	return s, f, nil
}

func take[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// windows are the input's in the judge's words.
func (in judgeInput) windows() []analysis.Window {
	out := make([]analysis.Window, 0, len(in.Windows))
	for _, w := range in.Windows {
		out = append(out, analysis.Window{
			Metric:    analysis.MetricErrors,
			Candidate: analysis.Counts{Requests: *w.Candidate.Requests, Bad: *w.Candidate.Bad},
			Baseline:  analysis.Counts{Requests: *w.Baseline.Requests, Bad: *w.Baseline.Bad},
		})
	}
	return out
}

// verdict is the record in the judge's words, with the minima that it names.
func (r judgeRecord) verdict(s analysis.Settings) (analysis.Verdict, analysis.Settings) {
	s.MinRequests, s.MinBaselineRequests = r.Candidate.Need, r.Baseline.Need
	if r.SafetyAt > 0 {
		s.MaxErrorRate = r.SafetyAt
	}
	v := analysis.Verdict{
		Outcome: analysis.Outcome(r.Outcome), Reason: analysis.Reason(r.Reason), Metric: r.Metric, Share: r.Share,
		Candidate:     analysis.Counts{Requests: r.Candidate.Requests, Bad: r.Candidate.Bad},
		Baseline:      analysis.Counts{Requests: r.Baseline.Requests, Bad: r.Baseline.Bad},
		SeenCandidate: analysis.Counts{Requests: r.Candidate.Seen, Bad: r.Candidate.SeenBad},
		SeenBaseline:  analysis.Counts{Requests: r.Baseline.Seen, Bad: r.Baseline.SeenBad},
		Margin:        r.Margin, LogFail: r.Fail.Log, LogFailRaw: r.FailRaw.Log, LogFailAt: r.Fail.LogAt,
		Dispersion: r.Dispersion, Scrapes: int(r.Scrapes), Material: r.Material,
	}
	if r.Pass != nil {
		v.LogPass, v.LogPassAt = r.Pass.Log, r.Pass.LogAt
	}
	if r.Guard != nil {
		v.LogGuard, v.GuardRate = r.Guard.Log, r.Guard.Rate
	}
	for _, p := range r.Parts {
		v.Parts = append(v.Parts, p.part())
	}
	return v, s
}

// part is the metric's evidence in the judge's words.
func (p judgePart) part() analysis.Part {
	out := analysis.Part{
		Metric: p.Metric, Weight: p.Weight, Rest: p.Rest, LogFail: p.Fail, LogPass: p.Pass, Proves: p.Proves,
		Margin: p.Margin, Dispersion: p.Dispersion, Candidate: p.Candidate.counts(), Baseline: p.Baseline.counts(),
	}
	for _, c := range p.Copies {
		out.Copies = append(out.Copies, analysis.CopyPart{
			Weight: c.Weight, Log: c.Log, Material: c.Material, Candidate: c.Candidate.counts(), Baseline: c.Baseline.counts(),
		})
	}
	return out
}

// differences names the numbers of a record that do not fit each other.
func (r judgeRecord) differences() []string {
	var out []string
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 2e-5*math.Max(math.Abs(want), 1e-6)+1e-12 {
			out = append(out, fmt.Sprintf("%s is %g, and the other numbers make it %g", what, got, want))
		}
	}
	for _, e := range []struct {
		name string
		e    *judgeEvidence
	}{{"fail", &r.Fail}, {"failRaw", &r.FailRaw}, {"pass", r.Pass}, {"guard", r.Guard}} {
		if e.e == nil {
			continue
		}
		if e.e.Value != nil {
			near(e.name+".value", *e.e.Value, math.Exp(e.e.Log))
		}
		if e.e.LogAt > 0 {
			near(e.name+".bound", e.e.Bound, math.Exp(e.e.LogAt))
			if met := e.e.Log >= e.e.LogAt; met != e.e.Met {
				out = append(out, fmt.Sprintf("%s.met is %v, and the other numbers make it %v", e.name, e.e.Met, met))
			}
		}
	}
	if weakest, ok := r.weakestProof(); ok && r.Pass != nil {
		near("pass.log", r.Pass.Log, weakest)
	}
	for _, a := range []struct {
		name string
		arm  judgeArm
	}{{"candidate", r.Candidate}, {"baseline", r.Baseline}} {
		if a.arm.Rate != nil && a.arm.Requests > 0 {
			near(a.name+".rate", *a.arm.Rate, a.arm.Bad/a.arm.Requests)
		}
	}
	return out
}

// weakestProof is what a pass rests on: the weakest of the proofs that it needs.
func (r judgeRecord) weakestProof() (weakest float64, ok bool) {
	for _, p := range r.Parts {
		if p.Proves && (!ok || p.Pass < weakest) {
			weakest, ok = p.Pass, true
		}
	}
	return weakest, ok
}
