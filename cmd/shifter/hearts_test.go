package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/lease"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/routing"
	"github.com/shifter-dev/shifter/internal/store"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	httpRoutes = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	leases     = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// written is a request that would change something, with who sent it when.
type written struct {
	at    time.Time
	who   string
	path  string
	epoch uint64 // of a route's fence; 0 elsewhere
}

// scene is an API server with one route, and what was written there.
type scene struct {
	*kubetest.Server

	net *http.Transport
	mu  sync.Mutex
	log []written
}

const sceneRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: shop, uid: route-1}
spec:
  rules:
  - backendRefs:
    - {name: shop-p, port: 80, weight: 0}
    - {name: shop-c, port: 80, weight: 100}
`

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Server: kubetest.New(t, configMaps, httpRoutes, leases), net: &http.Transport{MaxIdleConnsPerHost: 32}}
	t.Cleanup(s.net.CloseIdleConnections)
	s.Put("kubectl", httpRoutes, kubetest.YAML(t, sceneRoute))
	s.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.log = append(s.log, written{at: time.Now(), who: r.UserAgent(), path: r.URL.Path, epoch: epochOf(s.Server, r)})
		return false
	}
	return s
}

// fenceOf finds the epoch among all annotations, and as one of its own.
var fenceOf = regexp.MustCompile(`"shifter\.dev/epoch":"(\d+)"|"op":"add","path":"/metadata/annotations/shifter\.dev~1epoch","value":"(\d+)"`)

// epochOf reads the fence that a patch of a route writes, from the last body that
// the server got for its path.
func epochOf(s *kubetest.Server, r *http.Request) uint64 {
	if r.Method != http.MethodPatch {
		return 0
	}
	for _, x := range slices.Backward(s.Asked(http.MethodPatch)) {
		if x.Path == r.URL.Path {
			for _, m := range fenceOf.FindAllStringSubmatch(x.Body, -1) {
				if n, err := strconv.ParseUint(strings.Join(m[1:], ""), 10, 64); err == nil {
					return n
				}
			}
		}
	}
	return 0
}

// writes are what a process sent, without what it did for the Lease.
func (s *scene) writes(keep func(written) bool) (out []written) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.log {
		if !strings.Contains(w.path, "/leases") && keep(w) {
			out = append(out, w)
		}
	}
	return out
}

// process is a heart with its own way to the scene.
type process struct {
	*heart

	way   *gate
	store *store.ConfigMaps
	ended chan error
}

// gate is a way that can be cut, for all or for some requests.
type gate struct {
	who string
	net http.RoundTripper
	mu  sync.Mutex
	cut func(*http.Request) bool
}

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	cut := g.cut
	g.mu.Unlock()
	if cut != nil && cut(r) {
		return nil, errors.New("cut off")
	}
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", g.who)
	return g.net.RoundTrip(r)
}

func (g *gate) close(cut func(*http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = cut
}

func everything(*http.Request) bool { return true }

func theLease(r *http.Request) bool { return strings.Contains(r.URL.Path, "/leases") }

// haste is how much shorter the times of a Lease are here.
const haste = 3

// begin starts a process.
func (s *scene) begin(t *testing.T, who string) *process {
	t.Helper()
	p := &process{way: &gate{who: who, net: s.net}, ended: make(chan error, 1)}
	client, err := dynamic.NewForConfigAndClient(s.Config(), &http.Client{Transport: p.way})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil)).With("process", who)
	election, err := lease.New(client, lease.Config{
		Namespace: "shifter", Name: leaseName, Identity: who, Logger: log,
		Duration: lease.Duration / haste, Deadline: lease.Deadline / haste, Retry: lease.Retry / haste,
	})
	if err != nil {
		t.Fatal(err)
	}
	eyes, err := telemetry.New([]telemetry.Source{{Name: "default", URL: "http://127.0.0.1:9", Provider: "envoy", Scrape: time.Second}}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(eyes.Close)
	p.store = store.NewConfigMaps(client, store.ConfigMapsConfig{Namespace: "shifter", Logger: log})
	p.heart = &heart{
		hands: hands{
			journal: p.store, router: routing.New(client, routing.Config{Logger: log}), workloads: healthy{}, election: election,
		},
		eyes: eyes, views: engine.NewViews(), log: log, failed: func(err error) { p.ended <- err }, unready: errStarting,
	}
	if err := p.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *process) leads() bool {
	return p.hands.election.State().Leading && p.ready(context.Background()) == nil
}

// healthy are two Deployments that are as they should be.
type healthy struct{}

func (healthy) Read(_ context.Context, b release.Binding) (out [2]release.TrackState, err error) {
	now := time.Now()
	for tr, x := range b.Tracks {
		pods := []string{x.UID + "-0", x.UID + "-1"}
		out[tr] = release.TrackState{
			UID: x.UID, Desired: release.Known(2, now), Ready: release.Known(2, now), Endpoints: release.Known(2, now),
			Leaving: release.Known(0, now), Stale: release.Known(0, now), Floor: release.Known(-1, now),
			Pods: release.Known(pods, now), Template: release.Known(x.Template, now), History: []release.Template{x.Template, *x.UndoTo},
		}
	}
	return out, nil
}

func (healthy) Scale(context.Context, release.Scale) error             { return nil }
func (healthy) SetTemplate(context.Context, release.SetTemplate) error { return nil }
func (healthy) Promote(context.Context, release.Promote) error         { return nil }
func (healthy) SetFloor(context.Context, release.SetFloor) error       { return nil }

// admitted is a release of the scene's route.
func admitted() release.Release {
	k := release.Key{Namespace: "shop", Name: "r"}
	s := release.Spec{
		Routes: []release.RouteRef{{Kind: "HTTPRoute", Namespace: "shop", Name: "shop"}},
		Tracks: [2]release.TrackSpec{{Service: "shop-p", Deployment: "shop-p"}, {Service: "shop-c", Deployment: "shop-c"}},
		Size:   release.Size{Headroom: 1, MinReplicas: 1}, Gate: analysis.Defaults(),
	}.WithDefaults()
	b := release.Binding{Key: k, Full: 2, Scrape: time.Second, Metrics: release.MetricsRef{Source: "default", Provider: "envoy"}, Routes: []release.BoundRoute{{
		Ref: s.Routes[0], UID: "route-1", Rules: []string{"0"}, Split: []release.Pair{{Primary: 0, Canary: 100}}, Accepted: release.AcceptedYes,
	}}}
	v1 := release.Template{Hash: "v1", Revision: 1, Images: map[string]string{"app": "app:1"}}
	v2 := release.Template{Hash: "v2", Revision: 2, Images: map[string]string{"app": "app:2"}}
	for tr, x := range s.Tracks {
		b.Tracks[tr] = release.BoundTrack{
			Namespace: "shop", Deployment: x.Deployment, UID: fmt.Sprint("deployment-", tr), Replicas: 2, Template: v2, UndoTo: &v1,
			Service: x.Service, Port: 80,
		}
	}
	return release.New(k, "release-1", s, b, "alice", time.Now())
}

// eventually waits for something that should be soon.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// share is the primary's weight on the scene's route.
func (s *scene) share() any {
	o := s.Get(httpRoutes, "shop", "shop")
	return kubetest.In(kubetest.Items(o, "spec", "rules", 0, "backendRefs")[0])["weight"]
}

func TestAnotherHeartGoesOnWithTheReleaseOfOneThatIsCutOff(t *testing.T) {
	for name, cut := range map[string]func(*http.Request) bool{"from everything": everything, "from the Lease alone": theLease} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			a := s.begin(t, "a")
			eventually(t, "a leads", a.leads)
			b := s.begin(t, "b")
			eventually(t, "b stands by", func() bool { return b.ready(t.Context()) == nil })
			r := admitted()
			if err := b.store.Create(t.Context(), r); err != nil { // a standby takes wishes
				t.Fatal(err)
			}
			eventually(t, "a moves the first share", func() bool { return s.share() == int64(10) })
			if _, ok := b.views.Get(r.Key); ok || len(s.writes(func(w written) bool { return w.who == "b" && w.epoch > 0 })) > 0 {
				t.Error("the standby runs the release, too")
			}

			a.way.close(cut)
			began := time.Now()
			select {
			case err := <-a.ended:
				if !errors.Is(err, lease.ErrLost) {
					t.Errorf("a ended with %v", err)
				}
			case <-time.After(patience):
				t.Fatal("a did not end")
			}
			ended := time.Now()
			// A wish of which nobody hears until b leads.
			if _, err := b.store.Append(t.Context(), r.Key, release.Command{Verb: release.VerbAbort, Subject: "bob", At: time.Now()}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "b leads", b.leads)
			taken := time.Now()
			eventually(t, "b brings the traffic back", func() bool { return s.share() == int64(0) })
			rec, err := b.store.Load(t.Context(), r.Key)
			if err != nil || rec.Release.UID != r.UID || rec.Release.Epoch < 2 {
				t.Errorf("the record is of %s, epoch %d: %v", rec.Release.UID, rec.Release.Epoch, err)
			}
			t.Logf("of a Lease of %s: a had ended after %s, b led after %s", lease.Duration/haste, ended.Sub(began), taken.Sub(began))
			checkFence(t, s, ended)
		})
	}
}

// checkFence checks what was written: no route write of a after it ended, and
// epochs that never fall.
func checkFence(t *testing.T, s *scene, ended time.Time) {
	t.Helper()
	var last written
	who := map[string]int{}
	for _, w := range s.writes(func(w written) bool { return strings.Contains(w.path, "/httproutes/") }) {
		who[w.who]++
		if w.epoch == 0 || w.epoch < last.epoch {
			t.Errorf("%s wrote epoch %d after %s's %d", w.who, w.epoch, last.who, last.epoch)
		}
		if w.who == "a" && (last.who == "b" || w.at.After(ended)) {
			t.Errorf("a wrote %s after it had ended", w.path)
		}
		last = w
	}
	if who["a"] == 0 || who["b"] == 0 {
		t.Errorf("route writes: %v", who)
	}
	if o := s.Get(httpRoutes, "shop", "shop"); kubetest.Text(o, "metadata", "annotations", "shifter.dev/epoch") != "2" {
		t.Errorf("the route has %v", kubetest.In(o, "metadata", "annotations"))
	}
}
