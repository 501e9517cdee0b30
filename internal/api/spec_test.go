package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/release"
)

func request(t *testing.T, body string) api.CreateRequest {
	t.Helper()
	var q api.CreateRequest
	if found := api.Strict([]byte(body), &q); len(found) > 0 {
		t.Fatal(found)
	}
	return q
}

func TestLeftOutFieldsTakeTheirDefaults(t *testing.T) {
	s, found := request(t, `{
		"name": "a", "routes": [{"kind": "HTTPRoute", "name": "r"}],
		"primary": {"service": "p", "deployment": "p"}, "canary": {"service": "c", "deployment": "c"}
	}`).Spec("shop")
	if len(found) > 0 {
		t.Fatal(found)
	}
	if s.Gate != analysis.Defaults() {
		t.Errorf("gate %+v", s.Gate)
	}
	if s.Deadlines != release.DefaultDeadlines() {
		t.Errorf("deadlines %+v", s.Deadlines)
	}
	if s.Routes[0].Namespace != "shop" {
		t.Errorf("the route's namespace is %q, want the release's", s.Routes[0].Namespace)
	}
	if len(s.Stages) != 1 || s.Stages[0] != release.StageShift || len(s.Steps) != 4 || s.Size.Headroom != 1.2 || s.Preset != "prod" {
		t.Errorf("spec %+v", s)
	}
}

func TestOneFieldWrittenLeavesTheOthers(t *testing.T) {
	s, found := request(t, sound).Spec("shop")
	if len(found) > 0 {
		t.Fatal(found)
	}
	want := analysis.Defaults()
	want.MaxErrorRateDelta, want.EqualHarm, want.Soak = .01, false, 15*time.Second
	if s.Gate != want {
		t.Errorf("gate %+v, want %+v", s.Gate, want)
	}
	d := release.DefaultDeadlines()
	d.Drain = 90 * time.Second
	if s.Deadlines != d {
		t.Errorf("deadlines %+v", s.Deadlines)
	}
	if s.Size.Headroom != 1.5 || s.Size.MinReplicas != 2 || s.EndReplicas != 1 {
		t.Errorf("size %+v, end %d", s.Size, s.EndReplicas)
	}
}

func TestAMarginOfZeroIsKept(t *testing.T) {
	s, _ := request(t, `{"gates": {"maxErrorRateDelta": 0, "soak": "0s"}}`).Spec("shop")
	if s.Gate.MaxErrorRateDelta != 0 || s.Gate.Soak != 0 {
		t.Errorf("a zero that was written became a default: %+v", s.Gate)
	}
}

func TestFindingsOfARequest(t *testing.T) {
	with := func(field string) string {
		return strings.TrimSuffix(strings.TrimSpace(sound), "}") + "," + field + "}"
	}
	instead := func(old, field string) string { return strings.Replace(sound, old, field, 1) }
	for _, c := range []struct{ name, body, pointer, code string }{
		{"no name", instead(`"name": "checkout-4711",`, ""), "/name", "missing"},
		{"name with capitals", instead("checkout-4711", "Checkout"), "/name", "nameForm"},
		{"name with a dot", instead("checkout-4711", "a.b"), "/name", "nameForm"},
		{"unsorted steps", instead("[10, 50, 100]", "[50, 10, 100]"), "/steps/1", "stepsNotRising"},
		{"equal steps", instead("[10, 50, 100]", "[50, 50, 100]"), "/steps/1", "stepsNotRising"},
		{"step over 100", instead("[10, 50, 100]", "[10, 120]"), "/steps/1", "outOfRange"},
		{"steps do not end at 100", instead("[10, 50, 100]", "[10, 50]"), "/steps", "stepsEnd"},
		{"no steps", instead("[10, 50, 100]", "[]"), "/steps", "empty"},
		{"no stages", with(`"stages": []`), "/stages", "empty"},
		{"stages out of order", with(`"stages": ["shift", "promote"]`), "/stages/1", "stageOrder"},
		{"a stage missing", with(`"stages": ["canary", "shift"]`), "/stages/1", "stageMissing"},
		{"the lean plan", with(`"plan": "lean"`), "/plan", "planNotServed"},
		{"another copy", with(`"promote": {"copy": "podSpec"}`), "/promote/copy", "copyNotServed"},
		{"unknown stage", with(`"stages": ["launch"]`), "/stages/0", "stageUnknown"},
		{"unknown preset", with(`"preset": "party"`), "/preset", "presetUnknown"},
		{"unknown shrink", with(`"shrink": "never"`), "/shrink", "shrinkUnknown"},
		{"unknown allow", with(`"allow": ["all"]`), "/allow/0", "allowUnknown"},
		{"no duration", with(`"holds": "5"`), "/holds", "durationForm"},
		{"long hold", with(`"holds": "48h"`), "/holds", "outOfRange"},
		{"negative hold", with(`"holds": "-1s"`), "/holds", "outOfRange"},
		{"gate duration", instead(`"15s"`, `"soon"`), "/gates/soak", "durationForm"},
		{"gate out of range", instead(`0.01`, `7`), "/gates/maxErrorRateDelta", ""},
		{"deadline of zero", instead(`"90s"`, `"0s"`), "/deadlines/drain", "outOfRange"},
		{"deadline too long", instead(`"90s"`, `"25h"`), "/deadlines/drain", "outOfRange"},
		{"headroom of zero", instead(`1.5`, `0`), "/size/headroom", "outOfRange"},
		{"headroom", instead(`1.5`, `9`), "/size/headroom", "outOfRange"},
		{"no pods", with(`"metrics": {"source": "http://evil"}`), "/metrics/source", "nameForm"},
		{"port", instead(`8080`, `70000`), "/primary/port", "outOfRange"},
		{"end replicas", instead(`"endReplicas": 1`, `"endReplicas": -1`), "/canary/endReplicas", "outOfRange"},
		{"service with a dot", instead(`"service": "checkout"`, `"service": "a.b"`), "/primary/service", "nameForm"},
		{"regex for a deployment", instead(`"deployment": "checkout"`, `"deployment": ".*"`), "/primary/deployment", "nameForm"},
		{"route kind", instead(`HTTPRoute`, `TCPRoute`), "/routes/0/kind", "routeKind"},
		{"route namespace", instead(`"name": "checkout", "rules"`, `"name": "checkout", "namespace": "A B", "rules"`), "/routes/0/namespace", "nameForm"},
		{"rule without a name", instead(`["main"]`, `[""]`), "/routes/0/rules/0", "missing"},
		{"rule twice", instead(`["main"]`, `["main", "main"]`), "/routes/0/rules/1", "duplicate"},
		{"one deployment for both", instead(`"deployment": "checkout-canary"`, `"deployment": "checkout"`), "/canary/deployment", "sameTrack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, found := request(t, c.body).Spec("shop")
			if len(found) == 0 {
				t.Fatal("nothing is wrong with it")
			}
			if f := found[0]; f.Pointer != c.pointer || c.code != "" && f.Code != c.code || f.Message == "" {
				t.Errorf("got %+v, want %s %s", f, c.pointer, c.code)
			}
		})
	}
}

func TestAbortCommand(t *testing.T) {
	c, found := api.AbortRequest{}.Command()
	if len(found) > 0 || c.Traffic != release.TrafficBack || c.Mode != release.ModeImmediate || c.Verb != release.VerbAbort {
		t.Errorf("got %+v, %v; an abort is an immediate retreat", c, found)
	}
	_, found = api.AbortRequest{Traffic: "away", Mode: "softly"}.Command()
	if len(found) != 2 || found[0].Pointer != "/traffic" || found[1].Pointer != "/mode" {
		t.Errorf("got %v", found)
	}
}
