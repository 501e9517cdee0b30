package api_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/api/apitest"
	"github.com/shifter-dev/shifter/internal/release"
)

func TestVerdictOfEveryPhase(t *testing.T) {
	type want struct {
		word   string
		status int
		exit   int // -1: none
	}
	ends := map[release.Phase]want{
		release.Succeeded:  {"succeeded", 200, 0},
		release.RolledBack: {"rolledBack", 409, 1},
		release.Rejected:   {"rejected", 409, 2},
		release.Failed:     {"failed", 409, 3},
		release.Held:       {"held", 424, 4},
		release.Aborted:    {"aborted", 409, 5},
	}
	for _, p := range release.Phases() {
		v := apitest.View("gating", apitest.Now())
		v.Release.Phase = p
		got := api.FromView(v, "").Verdict()
		w, ok := ends[p]
		if !ok {
			w = want{"running", 503, -1}
		}
		exit := -1
		if got.ExitCode != nil {
			exit = *got.ExitCode
		}
		if got.Verdict != w.word || got.HTTPStatus() != w.status || exit != w.exit || got.Phase != string(p) || got.Sentence == "" {
			t.Errorf("%s: got %s %d %d, want %+v", p, got.Verdict, got.HTTPStatus(), exit, w)
		}
	}
}

func TestEveryProblemHasATypeATitleAndAStatus(t *testing.T) {
	for _, c := range api.Codes() {
		p := api.NewProblem(c, "what happened")
		if p.Type != api.TypePrefix+string(c) || p.Title == "" || p.Status < 400 || p.Code != c {
			t.Errorf("%s: %+v", c, p)
		}
	}
	if p := api.NewProblem("nonsense", ""); p.Status != 500 {
		t.Errorf("an unknown kind is %d", p.Status)
	}
}

func TestEveryVerdictReasonHasASentence(t *testing.T) {
	for _, why := range []analysis.Reason{
		analysis.Certified, analysis.SoakClean, analysis.Regression, analysis.SafetyLimit, analysis.GuardAlarmAgain,
		analysis.GuardAlarm, analysis.WarmingUp, analysis.InsufficientRequests, analysis.InsufficientBaseline,
		analysis.NotCertified, analysis.Soaking, analysis.WindowExhausted, analysis.TelemetryGap,
		analysis.TelemetryUnavailable, analysis.TrafficMismatch,
	} {
		v := apitest.View("gating", apitest.Now())
		v.Verdict.Val.Reason = why
		if api.FromView(v, "").Status.Gate.Sentence == "" {
			t.Errorf("%s has no sentence", why)
		}
	}
}

func TestNumbersThatJSONCannotSay(t *testing.T) {
	v := apitest.View("gating", apitest.Now())
	g := &v.Verdict.Val
	g.LogFail, g.LogPass, g.Margin, g.Dispersion = 1e6, math.Inf(-1), math.Inf(1), math.NaN()
	g.Delta = &analysis.Interval{Low: math.NaN(), High: math.Inf(1)}
	g.Harm = analysis.Interval{High: math.Inf(1)}
	v.Declared.Val = math.NaN()
	r := api.FromView(v, "")
	if _, err := json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	if r.Status.Gate.Fail.Value != nil || !r.Status.Gate.Fail.Met || r.Status.Gate.Fail.Log != 1e6 {
		t.Errorf("an e-value that overflows: %+v", r.Status.Gate.Fail)
	}
	if r.Status.Share.Declared != nil || r.Status.Share.Unknown["declared"] == "" {
		t.Error("a share that is no number is shown as one")
	}
}

func TestSharesOfTheOtherStage(t *testing.T) {
	v := apitest.View("gating", apitest.Now())
	v.Release.Stage = release.StageCanary
	st := api.FromView(v, "").Status
	if st.Incoming != "canary" || st.Outgoing != "primary" || st.Share.Start != 100 {
		t.Errorf("incoming %s, outgoing %s, start %v", st.Incoming, st.Outgoing, st.Share.Start)
	}
}

func TestLinks(t *testing.T) {
	k := release.Key{Namespace: "shop", Name: "checkout-4711"}
	l := api.LinksOf(k, "https://shifter.example/")
	if l.Self != "https://shifter.example/v1/namespaces/shop/releases/checkout-4711" || l.Page != "https://shifter.example/namespaces/shop/releases/checkout-4711" {
		t.Errorf("%+v", l)
	}
	if l := api.LinksOf(release.Key{Namespace: `a"b`, Name: "../x"}, ""); l.Self != "/v1/namespaces/a%22b/releases/..%2Fx" {
		t.Errorf("odd names lead to %s", l.Self)
	}
}
