package routing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/routing"
	"github.com/shifter-dev/shifter/internal/sandbox/contract"
)

var (
	_ engine.Router  = (*routing.Routes)(nil)
	_ engine.Watcher = (*routing.Routes)(nil)

	httpRoutes      = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	grpcRoutes      = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "grpcroutes"}
	grants          = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1beta1", Resource: "referencegrants"}
	virtualServices = schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}
)

const httpRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: app, namespace: demo}
spec:
  parentRefs: [{name: gw}]
  rules:
  - name: live
    timeouts: {request: 15s}
    backendRefs:
    - {group: "", kind: Service, name: app-stable, port: 80, weight: 0}
    - {group: "", kind: Service, name: app-canary, port: 80, weight: 100}
`

const virtualService = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: app, namespace: demo}
spec:
  hosts: [app]
  http:
  - route:
    - destination: {host: app-stable}
    - destination: {host: app-canary}
      weight: 100
`

var (
	none = release.Pair{Primary: 0, Canary: 100}
	ten  = release.Pair{Primary: 10, Canary: 90}
	half = release.Pair{Primary: 50, Canary: 50}
)

func request(kind string) release.Spec {
	return release.Spec{
		Routes: []release.RouteRef{{Kind: kind, Name: "app"}},
		Tracks: [2]release.TrackSpec{{Service: "app-stable", Port: 80, Deployment: "p"}, {Service: "app-canary", Port: 80, Deployment: "c"}},
	}
}

// cluster is an API server with the routes' CRDs and a controller that accepts
// every generation at once.
func cluster(t *testing.T, objects ...string) *kubetest.Server {
	t.Helper()
	s := kubetest.New(t, httpRoutes, grpcRoutes, grants, virtualServices)
	s.Admit = func(o kubetest.Object) []metav1.StatusCause {
		accept(o)
		return wrongWeights(o)
	}
	for _, text := range objects {
		put(t, s, "kubectl", text)
	}
	return s
}

func put(t *testing.T, s *kubetest.Server, manager, text string) {
	t.Helper()
	o := kubetest.YAML(t, text)
	r := map[any]schema.GroupVersionResource{"HTTPRoute": httpRoutes, "GRPCRoute": grpcRoutes, "VirtualService": virtualServices, "ReferenceGrant": grants}[o["kind"]]
	s.Put(manager, r, o)
}

// accept sets the status of a Gateway API route.
func accept(o kubetest.Object) {
	parents, ok, _ := unstructured.NestedSlice(o, "spec", "parentRefs")
	if !ok || o["status"] != nil && kubetest.In(o, "status")["frozen"] != nil {
		return
	}
	var out []any
	for _, p := range parents {
		cond := func(kind string) any {
			return kubetest.Object{
				"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-11-01T00:00:00Z",
				"observedGeneration": kubetest.In(o, "metadata")["generation"],
			}
		}
		out = append(out, kubetest.Object{
			"parentRef": p, "controllerName": "example.com/gateway",
			"conditions": []any{cond("Accepted"), cond("ResolvedRefs")},
		})
	}
	o["status"] = kubetest.Object{"parents": out}
}

// wrongWeights is what the schema has against weights.
func wrongWeights(o kubetest.Object) []metav1.StatusCause {
	for at, w := range weights(&unstructured.Unstructured{Object: o}, "rules", "backendRefs") {
		if n, ok := w.(int64); ok && (n < 0 || n > 1_000_000) {
			return []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: at, Message: "should be from 0 to 1000000"}}
		}
	}
	return nil
}

func routes(t *testing.T, s *kubetest.Server, cfg routing.Config) *routing.Routes {
	t.Helper()
	c, err := routing.NewClient(s.Config(), s.HTTP())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Mirrors.Linger = -1 // all watches end with their test
	return routing.New(c, cfg)
}

// admit binds a release to the route app.
func admit(t *testing.T, r *routing.Routes, kind string) release.Binding {
	t.Helper()
	bound, err := r.Resolve(t.Context(), "demo", request(kind))
	if err != nil {
		t.Fatal(err)
	}
	b := release.Binding{Key: release.Key{Namespace: "demo", Name: "r1"}, Routes: bound}
	for i, tr := range request(kind).Tracks {
		b.Tracks[i] = release.BoundTrack{Namespace: "demo", Service: tr.Service, Port: tr.Port}
	}
	return b
}

func share(b release.Binding, from, to release.Pair) release.SetShare {
	return release.SetShare{Route: b.Routes[0].Ref, UID: b.Routes[0].UID, From: []release.Pair{from}, To: []release.Pair{to}}
}

// look reads the one route of a release.
func look(t *testing.T, r *routing.Routes, b release.Binding) release.RouteState {
	t.Helper()
	states, err := r.Read(t.Context(), b)
	if err != nil || len(states) != 1 {
		t.Fatalf("read %v, %v", states, err)
	}
	return states[0]
}

// setWeights is how somebody else changes the pair of the first rule.
func setWeights(o kubetest.Object, p release.Pair) {
	list, backends := "rules", "backendRefs"
	if o["kind"] == "VirtualService" {
		list, backends = "http", "route"
	}
	rule := kubetest.In(o, "spec", list, 0)
	for i := range kubetest.Items(rule, backends) {
		kubetest.In(rule, backends, i)["weight"] = int64(p.Of(release.Track(i)))
	}
}

func TestRoutesKeepTheContract(t *testing.T) {
	for kind, r := range map[string]schema.GroupVersionResource{"HTTPRoute": httpRoutes, "GRPCRoute": grpcRoutes} {
		for how, mirrored := range map[string]bool{"live": false, "mirrored": true} {
			t.Run(kind+" "+how, func(t *testing.T) {
				contract.Router(t, func(t *testing.T) contract.RouterWorld {
					s := cluster(t, strings.ReplaceAll(httpRoute, "HTTPRoute", kind))
					rs := routes(t, s, routing.Config{})
					b := admit(t, rs, kind)
					if mirrored {
						watch(t, rs, b)
					}
					return contract.RouterWorld{
						Router: rs, Watcher: rs, Binding: b,
						Foreign: func(ctx context.Context, p release.Pair) error {
							s.Edit("kubectl", r, "demo", "app", func(o kubetest.Object) { setWeights(o, p) })
							return heard(ctx, s, rs, b)
						},
					}
				})
			})
		}
	}
}

// watch watches a binding until the test ends.
func watch(t *testing.T, rs *routing.Routes, b release.Binding) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := rs.Watch(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		ended(t, ch)
	})
	return ch
}

// heard waits until what is read is what a live look shows.
func heard(ctx context.Context, s *kubetest.Server, rs *routing.Routes, b release.Binding) error {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		live, err := rs.ReadLive(ctx, b)
		if err != nil {
			return err
		}
		got, err := rs.Read(ctx, b)
		if err != nil {
			return err
		}
		if reflect.DeepEqual(timeless(live), timeless(got)) {
			return nil
		}
	}
	return fmt.Errorf("at version %d a mirror differs from a live look", s.Version())
}

// timeless are states without the times of their facts.
func timeless(states []release.RouteState) []release.RouteState {
	for i := range states {
		s := &states[i]
		for _, at := range []*time.Time{&s.Split.At, &s.Accepted.At, &s.Epoch.At, &s.Marked.At} {
			if !at.IsZero() {
				*at = time.Unix(1, 0)
			}
		}
	}
	return states
}

// liveReads counts the reads of single routes.
func liveReads(s *kubetest.Server) int {
	return len(slices.DeleteFunc(s.Asked(http.MethodGet), func(r kubetest.Request) bool { return r.Query.Has("fieldSelector") }))
}

func TestReadIsAnsweredFromTheMirrorWhileItIsCurrent(t *testing.T) {
	s := cluster(t, httpRoute)
	rs := routes(t, s, routing.Config{})
	b := admit(t, rs, "HTTPRoute")
	watch(t, rs, b)
	before := liveReads(s)
	for range 100 {
		if got := look(t, rs, b); got.Split.Val[0] != none || time.Since(got.Split.At) > patience {
			t.Fatalf("read %+v", got)
		}
	}
	if n := liveReads(s) - before; n != 0 {
		t.Errorf("%d live reads", n)
	}
	if _, err := rs.ReadLive(t.Context(), b); err != nil || liveReads(s) != before+1 {
		t.Errorf("a live look is %d reads, %v", liveReads(s)-before, err)
	}
	for from, to := range map[release.Pair]release.Pair{none: ten} {
		if _, err := rs.SetShare(t.Context(), share(b, from, to), fence()); err != nil {
			t.Fatal(err)
		}
		if got := look(t, rs, b); got.Split.Val[0] != to {
			t.Fatalf("after our write to %v it reads %+v", to, got.Split)
		}
	}
	if n := liveReads(s) - before; n != 2 {
		t.Errorf("%d live reads, want that of ReadLive and that of the write", n)
	}
}

// TestOurOwnWriteIsSeenAlthoughTheWatchIsBehind writes, with and without an
// answer, while no event comes.
func TestOurOwnWriteIsSeenAlthoughTheWatchIsBehind(t *testing.T) {
	s := cluster(t, httpRoute)
	rs := routes(t, s, routing.Config{Mirrors: kube.MirrorsConfig{Patience: 20 * time.Millisecond}})
	b := admit(t, rs, "HTTPRoute")
	watch(t, rs, b)
	if err := heard(t.Context(), s, rs, b); err != nil {
		t.Fatal(err)
	}
	s.Hold()
	if _, err := rs.SetShare(t.Context(), share(b, none, ten), fence()); err != nil {
		t.Fatal(err)
	}
	if got := look(t, rs, b); got.Split.Val[0] != ten {
		t.Errorf("read %+v", got.Split)
	}
	if err := heard(t.Context(), s, rs, b); err != nil {
		t.Fatal(err)
	}
	s.Intercept = func(w http.ResponseWriter, r *http.Request) bool { // it is taken, and its answer is lost
		if r.Method != http.MethodPatch || r.Header.Get("Again") != "" {
			return false
		}
		body := s.Asked(http.MethodPatch)
		again := r.Clone(r.Context())
		again.Header.Set("Again", "1")
		again.Body = io.NopCloser(strings.NewReader(body[len(body)-1].Body))
		s.ServeHTTP(httptest.NewRecorder(), again)
		kubetest.Refuse(w, http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "no answer", nil)
		return true
	}
	if _, err := rs.SetShare(t.Context(), share(b, ten, half), fence()); !errors.Is(err, release.ErrUnavailable) {
		t.Fatal(err)
	}
	if got := look(t, rs, b); got.Split.Val[0] != half {
		t.Errorf("read %+v", got.Split)
	}
}

// TestAMirrorShowsWhatALiveLookDoes edits a route in all the ways that matter.
func TestAMirrorShowsWhatALiveLookDoes(t *testing.T) {
	s := cluster(t, httpRoute, virtualService)
	rs := routes(t, s, routing.Config{})
	for kind, r := range map[string]schema.GroupVersionResource{"HTTPRoute": httpRoutes, "VirtualService": virtualServices} {
		b := admit(t, rs, kind)
		watch(t, rs, b)
		for what, edit := range map[string]func(){
			"nothing": func() {},
			"weights": func() { s.Edit("kubectl", r, "demo", "app", func(o kubetest.Object) { setWeights(o, ten) }) },
			"notes": func() {
				s.Edit("argocd", r, "demo", "app", func(o kubetest.Object) {
					m := kubetest.In(o, "metadata")
					m["annotations"] = kubetest.Object{"kubectl.kubernetes.io/last-applied-configuration": "{}", routing.EpochAnnotation: "x"}
					m["labels"] = kubetest.Object{routing.ProgressLabel: "other"}
				})
			},
			"ours": func() {
				s.Edit("shifter", r, "demo", "app", func(o kubetest.Object) { setWeights(o, half) })
			},
			"deletion": func() {
				o := s.Get(r, "demo", "app")
				s.Delete(r, "demo", "app")
				if err := heard(t.Context(), s, rs, b); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
				s.Put("kubectl", r, o)
			},
		} {
			edit()
			if err := heard(t.Context(), s, rs, b); err != nil {
				t.Errorf("%s, %s: %v", kind, what, err)
			}
		}
	}
}

func BenchmarkReadOfAMirror(b *testing.B) {
	s := kubetest.New(b, httpRoutes)
	s.Put("kubectl", httpRoutes, kubetest.YAML(b, httpRoute))
	c, err := routing.NewClient(s.Config(), s.HTTP())
	if err != nil {
		b.Fatal(err)
	}
	rs := routing.New(c, routing.Config{Mirrors: kube.MirrorsConfig{Linger: -1}})
	uid := kubetest.Text(s.Get(httpRoutes, "demo", "app"), "metadata", "uid")
	binding := release.Binding{
		Routes: []release.BoundRoute{{Ref: release.RouteRef{Kind: "HTTPRoute", Namespace: "demo", Name: "app"}, UID: uid}},
		Tracks: [2]release.BoundTrack{{Namespace: "demo", Service: "app-stable", Port: 80}, {Namespace: "demo", Service: "app-canary", Port: 80}},
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	if _, err := rs.Watch(ctx, binding); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if got, err := rs.Read(ctx, binding); err != nil || !got[0].Split.Ok() {
			b.Fatal(got, err)
		}
	}
}

func TestAVirtualServiceIsMovedByItsDestinations(t *testing.T) {
	s := cluster(t, virtualService)
	rs := routes(t, s, routing.Config{})
	b := admit(t, rs, "VirtualService")
	if got := look(t, rs, b); !slices.Equal(got.Split.Val, []release.Pair{none}) || got.Accepted.Val != release.AcceptedUnknown {
		t.Fatalf("read %+v: an absent weight is 0 here, and there is no status", got)
	}
	if _, err := rs.SetShare(t.Context(), share(b, none, ten), fence()); err != nil {
		t.Fatal(err)
	}
	s.Edit("pilot", virtualServices, "demo", "app", func(o kubetest.Object) { // a typed writer drops zeros
		setWeights(o, none)
		delete(kubetest.In(o, "spec", "http", 0, "route", 0), "weight")
	})
	if got := look(t, rs, b); got.Foreign != "pilot" || got.Split.Val[0] != none {
		t.Fatalf("read %+v", got)
	}
	if _, err := rs.SetShare(t.Context(), share(b, none, half), fence()); err != nil {
		t.Fatal(err)
	}
	if got := look(t, rs, b); got.Split.Val[0] != half || got.Foreign != "" {
		t.Fatalf("read %+v", got)
	}
}

func TestAWriteIsOnePatchWithOurNameAndStrict(t *testing.T) {
	s := cluster(t, httpRoute)
	rs := routes(t, s, routing.Config{})
	b := admit(t, rs, "HTTPRoute")
	if _, err := rs.SetShare(t.Context(), share(b, none, ten), fence()); err != nil {
		t.Fatal(err)
	}
	asked := s.Asked(http.MethodPatch)
	if len(asked) != 1 || asked[0].Query.Get("fieldManager") != "shifter" || asked[0].Query.Get("fieldValidation") != "Strict" {
		t.Fatalf("asked %+v", asked)
	}
	if n := len(s.Asked(http.MethodPut)) + len(s.Asked(http.MethodPost)); n != 1 { // the review at admission
		t.Errorf("%d other writes", n)
	}
	m := kubetest.In(s.Get(httpRoutes, "demo", "app"), "metadata", "annotations")
	if m[routing.ReleaseAnnotation] != "demo/r1" || m[routing.EpochAnnotation] != "7" || m[routing.StepAnnotation] != "1" || m[routing.SafeAnnotation] != "primary" {
		t.Errorf("the fence is %v", m)
	}
}

// between runs something right before the first patch reaches the server, after
// the route was read for it.
func between(s *kubetest.Server, do func()) {
	var once atomic.Bool
	s.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && once.CompareAndSwap(false, true) {
			do()
		}
		return false
	}
}

func TestAConflictLeavesTheRouteAloneAndTheNextTryKeepsWhatOthersWrote(t *testing.T) {
	addRule := func(o kubetest.Object) {
		spec := kubetest.In(o, "spec")
		spec["rules"] = append([]any{kubetest.Object{"name": "theirs"}}, kubetest.Items(spec, "rules")...)
	}
	for name, c := range map[string]struct {
		edit func(o kubetest.Object)
		from release.Pair // what the next look shows
	}{
		"a rule is added": {addRule, none},
		"weights change":  {func(o kubetest.Object) { setWeights(o, ten) }, ten},
		"both": {func(o kubetest.Object) {
			setWeights(o, ten)
			addRule(o)
		}, ten},
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster(t, httpRoute)
			rs := routes(t, s, routing.Config{})
			b := admit(t, rs, "HTTPRoute")
			look(t, rs, b)
			between(s, func() { s.Edit("kubectl", httpRoutes, "demo", "app", c.edit) })
			_, err := rs.SetShare(t.Context(), share(b, none, half), fence())
			if !errors.Is(err, release.ErrConflict) {
				t.Fatalf("got %v, want a conflict", err)
			}
			if got := look(t, rs, b); got.Split.Val[0] != c.from || got.Foreign != "kubectl" || got.Epoch.Val != 0 {
				t.Fatalf("after the conflict the route is %+v", got)
			}
			if n := len(s.Asked(http.MethodPatch)); n != 1 {
				t.Fatalf("%d patches for one action", n)
			}
			if _, err := rs.SetShare(t.Context(), share(b, c.from, half), fence()); err != nil {
				t.Fatal(err)
			}
			rules, _, _ := unstructured.NestedSlice(s.Get(httpRoutes, "demo", "app"), "spec", "rules")
			want := 1
			if strings.Contains(name, "rule") || name == "both" {
				want = 2
			}
			if got := look(t, rs, b); got.Split.Val[0] != half || len(rules) != want {
				t.Fatalf("the route is %+v with rules %v", got, rules)
			}
		})
	}
}

func TestANewerWriterFencesOffBetweenReadingAndWriting(t *testing.T) {
	s := cluster(t, httpRoute)
	rs := routes(t, s, routing.Config{})
	b := admit(t, rs, "HTTPRoute")
	look(t, rs, b)
	between(s, func() {
		s.Edit("shifter", httpRoutes, "demo", "app", func(o kubetest.Object) {
			kubetest.In(o, "metadata")["annotations"] = kubetest.Object{routing.EpochAnnotation: "8"}
		})
	})
	for _, want := range []error{release.ErrConflict, release.ErrFenced} {
		if _, err := rs.SetShare(t.Context(), share(b, none, ten), fence()); !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
	if got := look(t, rs, b); got.Split.Val[0] != none || got.Epoch.Val != 8 {
		t.Fatalf("the route is %+v", got)
	}
}

func TestARecreatedRouteIsNotWritten(t *testing.T) {
	s := cluster(t, httpRoute)
	rs := routes(t, s, routing.Config{})
	b := admit(t, rs, "HTTPRoute")
	look(t, rs, b)
	between(s, func() {
		s.Delete(httpRoutes, "demo", "app")
		put(t, s, "kubectl", httpRoute)
	})
	for _, want := range []error{release.ErrConflict, release.ErrNotFound} {
		if _, err := rs.SetShare(t.Context(), share(b, none, ten), fence()); !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
	if got := look(t, rs, b); got.Split.Ok() || got.UID == b.Routes[0].UID || got.UID == "" || !strings.Contains(got.Split.Why, "another object") {
		t.Fatalf("the route is read as %+v", got)
	}
	s.Delete(httpRoutes, "demo", "app")
	if got := look(t, rs, b); got.Split.Ok() || got.Epoch.Ok() || got.Split.Why == "" || got.UID != "" {
		t.Fatalf("a deleted route is read as %+v", got)
	}
}

func TestARouteThatNobodyHasReadIsNotWritten(t *testing.T) {
	s := cluster(t, httpRoute)
	b := admit(t, routes(t, s, routing.Config{}), "HTTPRoute")
	fresh := routes(t, s, routing.Config{})
	if _, err := fresh.SetShare(t.Context(), share(b, none, ten), fence()); !errors.Is(err, release.ErrConflict) {
		t.Fatalf("got %v: the next look tells what the tracks are", err)
	}
	look(t, fresh, b)
	if _, err := fresh.SetShare(t.Context(), share(b, none, ten), fence()); err != nil {
		t.Fatal(err)
	}
}

func TestAPlanForOtherTracksDoesNotChangeWhatTheReleaseMeans(t *testing.T) {
	s := cluster(t, strings.Replace(httpRoute, "    - {group: \"\", kind: Service, name: app-canary", "    - {name: app-next, port: 80, weight: 100}\n    - {group: \"\", kind: Service, name: app-canary", 1))
	rs := routes(t, s, routing.Config{})
	b := admit(t, rs, "HTTPRoute")
	look(t, rs, b)
	other := request("HTTPRoute")
	other.Tracks[release.Canary].Service = "app-next"
	if _, err := rs.Resolve(t.Context(), "demo", other); err != nil {
		t.Fatal(err)
	}
	if _, err := rs.SetShare(t.Context(), share(b, none, ten), fence()); err != nil {
		t.Fatal(err)
	}
	if got := look(t, rs, b); got.Split.Val[0] != ten {
		t.Fatalf("read %+v", got)
	}
}

func TestAStructureThatIsGoneIsUnknownAndAConflict(t *testing.T) {
	s := cluster(t, httpRoute)
	rs := routes(t, s, routing.Config{})
	b := admit(t, rs, "HTTPRoute")
	s.Edit("kubectl", httpRoutes, "demo", "app", func(o kubetest.Object) {
		rule := kubetest.In(o, "spec", "rules", 0)
		rule["backendRefs"] = kubetest.Items(rule, "backendRefs")[:1]
	})
	got := look(t, rs, b)
	if got.Split.Ok() || !strings.Contains(got.Split.Why, "no rule holds both") || !got.Epoch.Ok() || !got.Accepted.Ok() {
		t.Fatalf("read %+v", got)
	}
	if _, err := rs.SetShare(t.Context(), share(b, none, ten), fence()); !errors.Is(err, release.ErrConflict) {
		t.Fatalf("got %v", err)
	}
}

// TestEveryAnswerHasItsKind answers to the patch of weights as API servers do.
func TestEveryAnswerHasItsKind(t *testing.T) {
	status := func(code int32, reason metav1.StatusReason, details *metav1.StatusDetails) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "1")
			}
			kubetest.Refuse(w, code, reason, "because", details)
		}
	}
	object := &metav1.StatusDetails{Name: "app", Group: "gateway.networking.k8s.io", Kind: "httproutes"}
	causes := &metav1.StatusDetails{Name: "app", Causes: []metav1.StatusCause{{Field: "spec", Message: "wrong"}}}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		want   error
	}{
		"a version conflict":             {status(409, metav1.StatusReasonConflict, object), release.ErrConflict},
		"a test that failed":             {status(422, metav1.StatusReasonInvalid, &metav1.StatusDetails{}), release.ErrConflict},
		"the schema":                     {status(422, metav1.StatusReasonInvalid, causes), release.ErrRefused},
		"strict decoding":                {status(400, metav1.StatusReasonBadRequest, nil), release.ErrRefused},
		"a webhook that denies":          {status(403, "", nil), release.ErrRefused},
		"a webhook that cannot be asked": {status(500, metav1.StatusReasonInternalError, causes), release.ErrUnavailable},
		"no right":                       {status(403, metav1.StatusReasonForbidden, object), release.ErrForbidden},
		"no credentials":                 {status(401, metav1.StatusReasonUnauthorized, nil), release.ErrForbidden},
		"deleted":                        {status(404, metav1.StatusReasonNotFound, object), release.ErrNotFound},
		"the kind is gone":               {func(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) }, release.ErrNotFound},
		"too many requests":              {status(429, metav1.StatusReasonTooManyRequests, nil), release.ErrUnavailable},
		"not ready":                      {status(503, metav1.StatusReasonServiceUnavailable, nil), release.ErrUnavailable},
		"a server timeout":               {status(504, metav1.StatusReasonTimeout, nil), release.ErrUnavailable},
		"a proxy in the way":             {func(w http.ResponseWriter) { http.Error(w, "<html>", http.StatusBadGateway) }, release.ErrUnavailable},
		"a cut connection": {func(w http.ResponseWriter) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
		}, release.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster(t, httpRoute)
			rs := routes(t, s, routing.Config{})
			b := admit(t, rs, "HTTPRoute")
			look(t, rs, b)
			s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPatch {
					c.answer(w)
				}
				return r.Method == http.MethodPatch
			}
			_, err := rs.SetShare(t.Context(), share(b, none, ten), fence())
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), "HTTPRoute demo/app") {
				t.Errorf("SetShare: %v, want %v", err, c.want)
			}
			err = rs.Mark(t.Context(), release.Mark{Route: b.Routes[0].Ref, UID: b.Routes[0].UID, On: true}, fence())
			if !errors.Is(err, c.want) {
				t.Errorf("Mark: %v, want %v", err, c.want)
			}
			if n := len(s.Asked(http.MethodPatch)); n != 2 {
				t.Errorf("%d patches for two actions: none is tried again", n)
			}
		})
	}
}

func TestACallThatHangsEndsAtItsOwnDeadline(t *testing.T) {
	s := cluster(t, httpRoute)
	b := admit(t, routes(t, s, routing.Config{}), "HTTPRoute")
	s.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
	rs := routes(t, s, routing.Config{Timeout: 50 * time.Millisecond})
	if _, err := rs.Read(t.Context(), b); !errors.Is(err, release.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if _, err := rs.SetShare(t.Context(), share(b, none, ten), fence()); !errors.Is(err, release.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestReadingTellsRefusalFromAbsence(t *testing.T) {
	s := cluster(t, httpRoute)
	rs := routes(t, s, routing.Config{})
	b := admit(t, rs, "HTTPRoute")
	s.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		kubetest.Refuse(w, 403, metav1.StatusReasonForbidden, "no", &metav1.StatusDetails{Name: "app", Kind: "httproutes"})
		return true
	}
	if _, err := rs.Read(t.Context(), b); !errors.Is(err, release.ErrForbidden) {
		t.Errorf("got %v", err)
	}
	s.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return true
	}
	if got := look(t, rs, b); got.Split.Ok() || !strings.Contains(got.Split.Why, "does not serve HTTPRoute") {
		t.Errorf("without its CRD the route is read as %+v", got)
	}
}

func TestEpochsAndMarksThatCannotBeRead(t *testing.T) {
	s := cluster(t, httpRoute)
	rs := routes(t, s, routing.Config{})
	b := admit(t, rs, "HTTPRoute")
	s.Edit("x", httpRoutes, "demo", "app", func(o kubetest.Object) {
		m := kubetest.In(o, "metadata")
		m["annotations"] = kubetest.Object{routing.EpochAnnotation: "-1", routing.ReleaseAnnotation: "prod/r1"}
		m["labels"] = kubetest.Object{routing.ProgressLabel: "r1"}
	})
	if got := look(t, rs, b); got.Epoch.Ok() || got.Epoch.Why == "" || got.Marked.Val != "prod/r1" {
		t.Errorf("read %+v: the mark is that of another namespace's r1", got)
	}
	if _, err := rs.SetShare(t.Context(), share(b, none, ten), fence()); !errors.Is(err, release.ErrRefused) {
		t.Errorf("got %v", err)
	}
	_, err := rs.Resolve(t.Context(), "demo", request("HTTPRoute"))
	wantFindings(t, err, "/routes/0 epochUnreadable")
}

func wantFindings(t *testing.T, err error, want ...string) {
	t.Helper()
	var got []string
	for _, f := range findings(err) {
		if f.Message == "" {
			t.Errorf("finding %+v says nothing", f)
		}
		got = append(got, fmt.Sprintf("%s %s", f.Pointer, f.Code))
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v: %v", got, want, err)
	}
}

func BenchmarkPatchOfSixteenRules(b *testing.B) {
	rule := "  - name: rule-%d\n    matches: [{path: {type: PathPrefix, value: /a}}, {headers: [{name: x, value: y}]}]\n    backendRefs:\n    - {name: app-stable, port: 80, weight: 90}\n    - {name: app-canary, port: 80, weight: 10}\n"
	var text strings.Builder
	text.WriteString("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: app, namespace: demo, uid: u}\nspec:\n  rules:\n")
	for i := range 16 {
		fmt.Fprintf(&text, rule, i)
	}
	o := &unstructured.Unstructured{Object: kubetest.YAML(b, text.String())}
	want := routing.Want{Tracks: [2]routing.Backend{{Namespace: "demo", Service: "app-stable", Port: 80}, {Namespace: "demo", Service: "app-canary", Port: 80}}}
	for b.Loop() {
		s, err := routing.Find(o, want)
		if err != nil {
			b.Fatal(err)
		}
		to := s.Pairs()
		for i := range to {
			to[i] = to[i].At(release.Canary, 25)
		}
		if _, err := s.SetShare(to, fence()); err != nil {
			b.Fatal(err)
		}
	}
}
