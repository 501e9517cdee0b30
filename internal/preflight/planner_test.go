package preflight

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is every port of a planner: what it answers, and how often it was asked.
type world struct {
	spec       release.Spec
	routes     []release.BoundRoute
	tracks     [2]release.BoundTrack
	states     []release.RouteState
	pods       [2]release.TrackState
	reading    release.Reading
	routeErr   error
	trackErr   error
	readErr    error
	promoteErr error
	lookErr    error
	scrape     error
	sight      release.Sight
	past       release.Past
	pastErr    error
	asks       []string // of the look back
	hang       bool
	calls      []string
	asked      release.Ask
}

var (
	now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	key = release.Key{Namespace: "shop", Name: "checkout-7"}
)

// sound is a world in which a shift has nothing against it: all traffic on the
// canary, four pods a side, 200 requests per second.
func sound() *world {
	w := &world{}
	w.spec = release.Spec{
		Routes: []release.RouteRef{{Kind: "HTTPRoute", Namespace: "shop", Name: "checkout"}},
		Tracks: [2]release.TrackSpec{{Service: "p", Deployment: "p"}, {Service: "c", Deployment: "c"}},
		Size:   release.Size{Headroom: 1, MinReplicas: 1},
	}
	v1 := release.Template{Hash: "v1", Images: map[string]string{"app": "app:1"}}
	for t := range w.tracks {
		w.tracks[t] = release.BoundTrack{
			Namespace: "shop", Deployment: w.spec.Tracks[t].Deployment, UID: fmt.Sprint("track-", t), Replicas: 4,
			Template: release.Template{Hash: fmt.Sprint("v2-", t), Images: map[string]string{"app": "app:2"}},
			UndoTo:   &v1, Service: w.spec.Tracks[t].Service,
		}
	}
	w.present(0)
	w.size(4, 4)
	w.serves(200, 0)
	w.sight = release.Sight{Latency: true}
	w.answers(.3, .02, .002)
	return w
}

// answers sets which shares of the requests took longer than 100, 250 and 500 ms
// before.
func (w *world) answers(slower ...float64) {
	const all = 120_000
	w.past = release.Past{Buckets: []analysis.Bucket{{Bound: math.Inf(1), Count: all}}}
	for i, share := range slower {
		w.past.Buckets = append(w.past.Buckets, analysis.Bucket{Bound: []float64{.1, .25, .5}[i], Count: all * (1 - share)})
	}
}

// present sets the primary's share in the one route.
func (w *world) present(share int32) {
	split := []release.Pair{{Primary: share, Canary: 100 - share}}
	w.routes = []release.BoundRoute{{Ref: w.spec.Routes[0], UID: "route-1", Rules: []string{"main"}, Split: split, Accepted: release.AcceptedYes}}
	w.states = []release.RouteState{{Ref: w.spec.Routes[0], UID: "route-1", Split: release.Known(split, now), Marked: release.Known("", now)}}
}

// second adds a second route with weights of its own.
func (w *world) second(p release.Pair) {
	ref := release.RouteRef{Kind: "HTTPRoute", Namespace: "shop", Name: "mesh"}
	w.spec.Routes = append(w.spec.Routes, ref)
	w.routes = append(w.routes, release.BoundRoute{Ref: ref, UID: "route-2", Split: []release.Pair{p}})
	w.states = append(w.states, release.RouteState{Ref: ref, UID: "route-2", Split: release.Known([]release.Pair{p}, now)})
}

func (w *world) size(primary, canary int) {
	for t, n := range []int{primary, canary} {
		w.tracks[t].Replicas = n
		w.pods[t] = release.TrackState{
			UID: w.tracks[t].UID, Desired: release.Known(n, now), Ready: release.Known(n, now), Endpoints: release.Known(n, now),
			Pods: release.Known([]string{fmt.Sprint("pod-", t)}, now),
		}
	}
}

// serves sets the traffic, split as the route says.
func (w *world) serves(rps, bad float64) {
	share := w.routes[0].Split[0].Share(release.Primary) / 100
	counts := func(share float64) analysis.Counts {
		return analysis.Counts{Requests: 60 * rps * share, Bad: 60 * rps * share * bad}
	}
	w.reading = release.Reading{Asked: now, At: now.Add(-5 * time.Second), Scrape: 15 * time.Second, Windows: []release.TrackWindow{{
		Metric: analysis.MetricErrors, From: now.Add(-65 * time.Second), To: now.Add(-5 * time.Second),
		Counts: [2]analysis.Counts{counts(share), counts(1 - share)},
	}}}
}

type routes struct{ *world }

func (w routes) Resolve(ctx context.Context, _ string, _ release.Spec) ([]release.BoundRoute, error) {
	w.calls = append(w.calls, "Routes.Resolve")
	if w.hang {
		<-ctx.Done()
		return nil, fmt.Errorf("%w: %w", release.ErrUnavailable, ctx.Err())
	}
	return w.routes, w.routeErr
}

func (w routes) Read(context.Context, release.Binding) ([]release.RouteState, error) {
	w.calls = append(w.calls, "Routes.Read")
	return w.states, w.readErr
}

type workloads struct{ *world }

func (w workloads) Resolve(context.Context, string, release.Spec) ([2]release.BoundTrack, error) {
	w.calls = append(w.calls, "Workloads.Resolve")
	return w.tracks, w.trackErr
}

func (w workloads) Read(context.Context, release.Binding) ([2]release.TrackState, error) {
	w.calls = append(w.calls, "Workloads.Read")
	return w.pods, nil
}

func (w workloads) Promotable(context.Context, release.Binding) error {
	w.calls = append(w.calls, "Workloads.Promotable")
	return w.promoteErr
}

func (w *world) Scrape(release.MetricsRef) (time.Duration, string, error) {
	return 15 * time.Second, "envoy", w.scrape
}

func (w *world) Look(_ context.Context, a release.Ask) (release.Reading, error) {
	w.calls = append(w.calls, "Look")
	w.asked = a
	return w.reading, w.lookErr
}

func (w *world) Sight(release.MetricsRef) (release.Sight, error) { return w.sight, nil }

func (w *world) LookBack(_ context.Context, _ release.Ask, of release.Track, share float64) (release.Past, error) {
	w.calls = append(w.calls, "LookBack")
	w.asks = append(w.asks, fmt.Sprintf("%s %g", of, share))
	return w.past, w.pastErr
}

func (w *world) plan(t *testing.T) (release.Forecast, error) {
	t.Helper()
	p := New(Config{
		Routes: routes{w}, Workloads: workloads{w}, Telemetry: w, CallTimeout: 50 * time.Millisecond,
		Clock: func() time.Time { return now }, UID: func() string { return "uid-1" },
	})
	return p.Plan(t.Context(), key, w.spec, "alice")
}

func (w *world) mustPlan(t *testing.T) release.Forecast {
	t.Helper()
	f, err := w.plan(t)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestASoundReleaseIsPlannedWithItsCourse(t *testing.T) {
	w := sound()
	f := w.mustPlan(t)
	if len(f.Findings)+len(f.Warnings) > 0 {
		t.Errorf("findings %v, warnings %v", f.Findings, f.Warnings)
	}
	var shares []float64
	var sizes [][2]int
	var took time.Duration
	for _, s := range f.Steps {
		shares, sizes = append(shares, s.Share), append(sizes, s.Replicas)
		took += s.Time
		if !s.Certifiable || s.Control != (s.Share < 100) || s.Requests < 300 || s.Time < w.spec.WithDefaults().Gate.Soak {
			t.Errorf("step %+v", s)
		}
	}
	if want := []float64{10, 25, 50, 100}; !slices.Equal(shares, want) {
		t.Errorf("steps %v", shares)
	}
	// The canary is one passed step behind.
	if want := [][2]int{{4, 4}, {4, 4}, {4, 3}, {4, 2}}; !slices.Equal(sizes, want) {
		t.Errorf("replicas %v, want %v", sizes, want)
	}
	if f.PeakPods != 8 || f.Total <= took || f.Total > took+2*time.Minute {
		t.Errorf("%d pods, %s of which %s in steps", f.PeakPods, f.Total, took)
	}
	if !f.Rate.Ok() || f.Rate.Val != 200 || !f.Rate.At.Equal(w.reading.At) {
		t.Errorf("rate %+v", f.Rate)
	}
	want := []string{"Routes.Resolve", "Workloads.Resolve", "Routes.Read", "Workloads.Read", "Look", "LookBack"}
	if !slices.Equal(w.calls, want) {
		t.Errorf("asked %v, want each once: %v", w.calls, want)
	}
}

func TestThePlannedReleaseIsBoundToWhatWasFound(t *testing.T) {
	w := sound()
	w.size(3, 5)
	r := w.mustPlan(t).Release
	b := r.Binding
	if r.Key != key || r.UID != "uid-1" || r.Subject != "alice" || r.Phase != release.Pending || !r.Created.Equal(now) {
		t.Errorf("release %s %s by %s in %s", r.Key, r.UID, r.Subject, r.Phase)
	}
	if b.Key != key || b.Full != 5 || b.Scrape != 15*time.Second || b.Metrics != (release.MetricsRef{Source: "default", Provider: "envoy"}) {
		t.Errorf("binding %+v", b)
	}
	if b.Routes[0].UID != "route-1" || b.Tracks[release.Canary].UID != "track-1" || r.Suspect != "v2-0" {
		t.Errorf("bound to %v, suspect %s", b.Locks(), r.Suspect)
	}
	a := w.asked
	if a.Binding.Scrape != b.Scrape || a.Binding.Metrics != b.Metrics || !a.Now.Equal(now) || now.Sub(a.Since) != 2*time.Minute || a.Pods[1][0] != "pod-1" {
		t.Errorf("the telemetry was asked %+v", a)
	}
}

func TestEachThingThatIsWrongIsFoundAndNamed(t *testing.T) {
	refused := release.TroubleTerminal
	for _, c := range []struct {
		sentence string
		change   func(*world)
		code     string
		pointer  string
		says     string
		warns    bool
	}{
		{"a route without a UID", func(w *world) { w.routes[0].UID = "" }, "notIdentified", "/routes/0", "checkout", false},
		{"two routes that are one object", func(w *world) {
			w.second(release.Pair{Primary: 0, Canary: 100})
			w.routes[1].UID = "route-1"
		}, "duplicate", "/routes/1", "one object", false},
		{"a Deployment without a template hash", func(w *world) { w.tracks[1].Template.Hash = "" }, "notIdentified", "/canary/deployment", "c", false},
		{"two tracks that are one Deployment", func(w *world) { w.tracks[1].UID = w.tracks[0].UID }, "sameTrack", "/canary/deployment", "both tracks", false},
		{"a route that another release has marked", func(w *world) { w.states[0].Marked = release.Known("other", now) }, "marked", "/routes/0", "release other", false},
		{"a route without a rule for both tracks", func(w *world) { w.routes[0].Split = nil }, "noSplit", "/routes/0", "no rule", false},
		{"weights that are no split", func(w *world) { w.routes[0].Split[0] = release.Pair{} }, "splitUnreadable", "/routes/0", `"main"`, false},
		{"weights that cannot be read", func(w *world) { w.states[0].Split = release.Unseen[[]release.Pair]("the route is gone") }, "splitUnreadable", "/routes/0", "gone", false},
		{"a second route at another share", func(w *world) { w.second(release.Pair{Primary: 20, Canary: 80}) }, "splitsDiffer", "/routes/1", "20 %", false},
		{"a controller that refuses the route already", func(w *world) { w.routes[0].Accepted = release.AcceptedRefused }, "notAccepted", "/routes/0", "refuses", true},
		{"weights that cannot express a step", func(w *world) { w.second(release.Pair{Primary: 0, Canary: 4}) }, "notRepresentable", "/steps/0", "0:4", false},
		{"a target that is met already", func(w *world) { w.present(100); w.serves(200, 0) }, "alreadyThere", "/steps", "already has 100", false},
		{"steps that are met already", func(w *world) { w.present(30); w.serves(200, 0) }, "stepsMet", "/steps", "steps 10, 25 are skipped", true},
		{"no step with a control", func(w *world) { w.spec.Steps = []float64{50, 100}; w.spec.Steps = []float64{100} }, "noControl", "/steps", "control", false},
		{"a serving track without pods", func(w *world) { w.size(4, 0) }, "servesNothing", "/canary/deployment", "no ready pod", false},
		{"a serving track whose pods are not ready", func(w *world) { w.pods[1].Ready = release.Known(0, now) }, "servesNothing", "/canary/deployment", "100 %", false},
		{"a serving track without endpoints", func(w *world) { w.pods[1].Endpoints = release.Known(0, now) }, "servesNothing", "/canary/deployment", "100 %", false},
		{"a serving track whose pods cannot be seen", func(w *world) { w.pods[1].Ready = release.Unseen[int]("forbidden") }, "notReadable", "/canary/deployment", "forbidden", false},
		{"a serving track that is short of pods", func(w *world) { w.pods[1].Ready = release.Known(3, now) }, "servesShort", "/canary/deployment", "3 of the 4", true},
		{"pods that cannot start", func(w *world) {
			w.pods[0].Trouble = []release.Trouble{{Kind: refused, Reason: "ImagePullBackOff", Pod: "p-1", Template: "v2-0"}}
		}, "podsCannotStart", "/primary/deployment", "ImagePullBackOff", false},
		{"no way back", func(w *world) { w.tracks[0].UndoTo = nil }, "noUndoTarget", "/primary/deployment", "p", false},
		{"a way back that leads nowhere", func(w *world) { w.tracks[0].UndoTo = &w.tracks[0].Template }, "noUndoTarget", "/primary/deployment", "v2-0", false},
		{"tracks with different images", func(w *world) { w.tracks[1].Template.Images = map[string]string{"app": "app:3"} }, "versionsDiffer", "/stages", "app:2 and app:3", false},
		{"a metrics source that is not configured", func(w *world) { w.scrape = errors.New(`metrics source "default" is not known`) }, "metricsUnknown", "/metrics", "default", false},
		{"telemetry in trouble", func(w *world) { w.reading = release.Reading{Trouble: "503 from Prometheus"} }, "telemetryUnavailable", "/metrics", "503", false},
		{"telemetry that cannot be asked", func(w *world) { w.lookErr = errors.New("no answer in time") }, "telemetryUnavailable", "/metrics", "no answer", false},
		{"telemetry without data", func(w *world) { w.reading = release.Reading{Asked: now} }, "telemetryUnavailable", "/metrics", "no data", false},
		{"telemetry with old data", func(w *world) { w.reading.At = now.Add(-3 * time.Minute) }, "telemetryUnavailable", "/metrics", "3m0s old", false},
		{"traffic at another split than the routes'", func(w *world) { w.present(50); w.serves(200, 0); w.present(0) }, "trafficMismatch", "/metrics", "50 %", true},
		{"no traffic", func(w *world) { w.serves(0, 0) }, "uncertain", "", "no managed request", false},
		{"traffic that was not counted yet", func(w *world) { w.reading.Windows = nil }, "uncertain", "", "no managed request", false},
		{"too little traffic for a step", func(w *world) { w.serves(1, 0) }, "uncertain", "/steps/0", "10 %", false},
		{"so many failures that a step takes too long", func(w *world) { w.serves(3, 0.05) }, "uncertain", "/steps/0", "fail", false},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			w := sound()
			c.change(w)
			f := w.mustPlan(t)
			where := f.Findings
			if c.warns {
				where = f.Warnings
			}
			i := slices.IndexFunc(where, func(f release.Finding) bool { return f.Code == c.code && f.Pointer == c.pointer })
			if i < 0 {
				t.Fatalf("findings %+v\nwarnings %+v", f.Findings, f.Warnings)
			}
			if !strings.Contains(where[i].Message, c.says) || !c.warns && where[i].Fix == "" && !strings.Contains(where[i].Message, ": ") {
				t.Errorf("it says %q and %q", where[i].Message, where[i].Fix)
			}
			if c.warns && len(f.Findings) > 0 {
				t.Errorf("it refuses: %v", f.Findings)
			}
		})
	}
}

func TestARiskThatIsAcceptedByNameIsAWarning(t *testing.T) {
	for _, c := range []struct {
		code   string
		allow  release.Allow
		change func(*world)
	}{
		{"uncertain", release.AllowUncertain, func(w *world) { w.serves(1, 0) }},
		{"uncertain", release.AllowUncertain, func(w *world) { w.serves(0, 0) }},
		{"noControl", release.AllowNoControl, func(w *world) { w.spec.Steps = []float64{100} }},
		{"alreadyThere", release.AllowNoControl, func(w *world) { w.present(100); w.serves(200, 0) }},
	} {
		w := sound()
		c.change(w)
		if f := w.mustPlan(t); !slices.ContainsFunc(f.Findings, func(f release.Finding) bool { return f.Code == c.code }) {
			t.Errorf("%s is not refused: %v", c.code, f.Findings)
		}
		w.spec.Allow = []release.Allow{c.allow}
		f := w.mustPlan(t)
		if len(f.Findings) > 0 {
			t.Errorf("%s is allowed, and refused: %v", c.code, f.Findings)
		}
		if !slices.ContainsFunc(f.Warnings, func(f release.Finding) bool { return f.Code == c.code && strings.Contains(f.Message, string(c.allow)) }) {
			t.Errorf("%s is not warned of: %v", c.code, f.Warnings)
		}
		if len(f.Steps) == 0 {
			t.Errorf("%s: no steps are planned", c.code)
		}
	}
}

func TestAnUncertainStepComesWithAWayOutThatWorks(t *testing.T) {
	w := sound()
	w.serves(1, 0)
	f := w.mustPlan(t)
	i := slices.IndexFunc(f.Findings, func(f release.Finding) bool { return f.Code == "uncertain" })
	if i < 0 {
		t.Fatalf("findings %v", f.Findings)
	}
	fix := f.Findings[i].Fix
	if !strings.Contains(fix, "maxWindow") || !strings.Contains(fix, `"uncertain"`) {
		t.Errorf("the way out: %s", fix)
	}
	longest := time.Duration(0)
	for _, s := range f.Steps {
		longest = max(longest, s.Time)
	}
	w.spec.Gate = analysis.Defaults()
	w.spec.Gate.MaxWindow = longest
	if f := w.mustPlan(t); len(f.Findings) > 0 {
		t.Errorf("with a window of %s: %v", longest, f.Findings)
	}
}

func TestStepsThatAreMetAreSkippedAndThePresentShareIsJudged(t *testing.T) {
	w := sound()
	w.present(30)
	w.serves(200, 0)
	f := w.mustPlan(t)
	var shares []float64
	for _, s := range f.Steps {
		shares = append(shares, s.Share)
	}
	if want := []float64{30, 50, 100}; !slices.Equal(shares, want) || !f.Release.Plan[0].Present {
		t.Errorf("steps %v", shares)
	}
	if f.Steps[0].Replicas != [2]int{4, 3} {
		t.Errorf("replicas at the present share: %v", f.Steps[0].Replicas)
	}
}

func TestTheSizesFollowTheShrinkPolicy(t *testing.T) {
	for shrink, want := range map[release.Shrink][][2]int{
		release.ShrinkBehind:     {{4, 4}, {4, 4}, {4, 3}, {4, 2}},
		release.ShrinkAfterShown: {{4, 4}, {4, 3}, {4, 2}, {4, 2}},
		release.ShrinkAtEnd:      {{4, 4}, {4, 4}, {4, 4}, {4, 4}},
	} {
		w := sound()
		w.spec.Shrink = shrink
		var got [][2]int
		for _, s := range w.mustPlan(t).Steps {
			got = append(got, s.Replicas)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", shrink, got, want)
		}
	}
}

func TestTheIncomingTrackGrowsBeforeTheOtherShrinks(t *testing.T) {
	w := sound()
	w.size(0, 8)
	f := w.mustPlan(t)
	var got [][2]int
	for _, s := range f.Steps {
		got = append(got, s.Replicas)
	}
	if want := [][2]int{{1, 8}, {2, 8}, {4, 6}, {8, 4}}; !slices.Equal(got, want) {
		t.Errorf("replicas %v, want %v", got, want)
	}
	if f.PeakPods != 14 { // 8 beside the 6 that are not gone yet
		t.Errorf("peak of %d pods", f.PeakPods)
	}
}

func TestABadRequestIsAnsweredWithoutLookingAtTheWorld(t *testing.T) {
	w := sound()
	w.spec.Steps = []float64{50, 10, 100}
	f := w.mustPlan(t)
	if len(f.Findings) != 1 || f.Findings[0].Code != "stepsNotRising" || len(w.calls) > 0 {
		t.Errorf("findings %v after %v", f.Findings, w.calls)
	}
}

func TestFindingsOfAllAdaptersComeBackTogether(t *testing.T) {
	w := sound()
	a := release.Finding{Pointer: "/routes/0/name", Code: "routeNotFound", Message: "no route"}
	b := release.Finding{Pointer: "/primary/deployment", Code: "deploymentNotFound", Message: "no primary"}
	c := release.Finding{Pointer: "/canary/deployment", Code: "deploymentNotFound", Message: "no canary"}
	w.routeErr = fmt.Errorf("resolving the routes: %w", a)
	w.trackErr = fmt.Errorf("resolving the tracks: %w", errors.Join(b, fmt.Errorf("and: %w", c)))
	f := w.mustPlan(t)
	if !slices.Equal(f.Findings, []release.Finding{a, b, c}) {
		t.Errorf("findings %v", f.Findings)
	}
	if slices.Contains(w.calls, "Look") || slices.Contains(w.calls, "Routes.Read") {
		t.Errorf("asked %v about objects that are not there", w.calls)
	}
}

func TestAWorldThatDoesNotAnswerIsAnErrorAndNoFinding(t *testing.T) {
	down := fmt.Errorf("get route: %w", release.ErrUnavailable)
	for sentence, change := range map[string]func(*world){
		"binding the routes":          func(w *world) { w.routeErr = down },
		"binding the tracks":          func(w *world) { w.trackErr = down },
		"reading the routes":          func(w *world) { w.readErr = down },
		"a finding and a broken port": func(w *world) { w.routeErr = errors.Join(release.Finding{Code: "x"}, down) },
		"a call that hangs":           func(w *world) { w.hang = true },
	} {
		w := sound()
		change(w)
		if _, err := w.plan(t); !errors.Is(err, release.ErrUnavailable) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
	w := sound()
	w.states = nil
	if _, err := w.plan(t); err == nil {
		t.Error("an answer without some of the routes is taken for one")
	}
}

func TestRatesAreAddedOverStrataOfDifferentLength(t *testing.T) {
	w := sound()
	at := w.reading.At
	w.reading.Windows = []release.TrackWindow{
		{Metric: analysis.MetricErrors, Stratum: "a", From: at.Add(-60 * time.Second), To: at, Counts: [2]analysis.Counts{{}, {Requests: 6000, Bad: 60}}},
		{Metric: analysis.MetricErrors, Stratum: "b", From: at.Add(-10 * time.Second), To: at, Counts: [2]analysis.Counts{{}, {Requests: 500}}},
		{Metric: "latency", Stratum: "a", From: at.Add(-60 * time.Second), To: at, Counts: [2]analysis.Counts{{}, {Requests: 6000}}},
		{Metric: analysis.MetricErrors, Stratum: "c", From: at, To: at, Counts: [2]analysis.Counts{{}, {Requests: 5}}},
	}
	if f := w.mustPlan(t); f.Rate.Val != 150 {
		t.Errorf("rate %v", f.Rate)
	}
}

func TestEachPlanHasAnIdentityOfItsOwn(t *testing.T) {
	w := sound()
	seen := map[string]bool{}
	for range 100 {
		p := New(Config{Routes: routes{w}, Workloads: workloads{w}, Telemetry: w})
		f, err := p.Plan(t.Context(), key, w.spec, "alice")
		if err != nil {
			t.Fatal(err)
		}
		u := f.Release.UID
		if len(u) != 36 || u[14] != '4' || seen[u] {
			t.Fatalf("identity %q", u)
		}
		seen[u] = true
	}
}

func TestTheChecksAreNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range chain() {
		if c.name == "" || seen[c.name] || c.look == nil {
			t.Errorf("check %q", c.name)
		}
		seen[c.name] = true
	}
}

func TestDurationsAreReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1500 * time.Millisecond: "1.5s", 90 * time.Second: "1m30s", 30 * time.Minute: "30m", 2 * time.Hour: "2h",
		40 * 24 * time.Hour: "more than 30 days",
	} {
		if got := readable(d); got != want {
			t.Errorf("%s is written %q, want %q", d, got, want)
		}
	}
}
