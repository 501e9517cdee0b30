//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The Deployments of a scene, by which the client and the API server tell the
// tracks apart.
const (
	primary = "checkout"
	canary  = "checkout-canary"
)

// full is how many pods each track has at the start.
const full = 4

// routeKind is a kind of route, with the release's view of it.
type routeKind struct {
	name     string // as in a request
	manifest string
	resource string
	path     string // of its API group
	subsets  bool   // one Service with subsets, not two Services
}

var (
	httpRoute      = routeKind{name: "HTTPRoute", manifest: "httproute", resource: "httproutes", path: "/apis/gateway.networking.k8s.io/v1"}
	virtualService = routeKind{name: "VirtualService", manifest: "virtualservice", resource: "virtualservices", path: "/apis/networking.istio.io/v1", subsets: true}
)

// list is the path of the routes in a namespace.
func (k routeKind) list(ns string) string {
	return k.path + "/namespaces/" + ns + "/" + k.resource
}

// request asks to move the scene's route.
func (k routeKind) request(name string) request {
	q := request{
		Name:    name,
		Routes:  []routeRef{{Kind: k.name, Name: "checkout"}},
		Primary: trackRef{Service: "checkout", Port: 80, Deployment: primary},
		Canary:  trackRef{Service: "checkout-canary", Port: 80, Deployment: canary},
		Stages:  []string{"shift"},
		Size:    map[string]any{"headroom": 1.0, "minReplicas": 1},
		// The scenarios share two cores, on which latency says more about the
		// neighbours than about the version: these are about errors.
		Gates: map[string]any{"soak": "20s", "maxWindow": "90s", "telemetryGrace": "20s", "maxSlowShareDelta": 0, "maxSlowShareRatio": 0},
		Deadlines: map[string]string{
			"preflight": "30s", "grow": "60s", "settle": "10s", "shown": "60s", "write": "30s",
			"drain": "90s", "request": "30s", "undo": "90s", "confirm": "60s", "exposure": "20m",
		},
		Preset: "prod",
		Holds:  "30s",
	}
	if k.subsets {
		q.Primary.Subset = "primary"
		q.Canary.Service, q.Canary.Subset = "checkout", "canary"
	}
	return q
}

// namespace makes an empty namespace, and takes care that it goes with the test.
func namespace(t *testing.T, name string) {
	t.Helper()
	path := "/api/v1/namespaces/" + name
	if err := suite.api.do(t.Context(), "DELETE", path, "", nil); err != nil && !isMissing(err) {
		t.Fatal(err) // what an earlier run left
	}
	until(t, 3*time.Minute, "the end of an older namespace "+name, func(ctx context.Context) (bool, string) {
		gone, err := suite.api.missing(ctx, path)
		return gone, fmt.Sprint(err)
	})
	t.Cleanup(func() {
		ctx, cancel := lately(t, time.Minute)
		defer cancel()
		suite.mu.Lock()
		suite.left[name] = true // TestMain waits until it is gone
		suite.mu.Unlock()
		if err := suite.api.do(ctx, "DELETE", path, "", nil); err != nil && !isMissing(err) {
			t.Errorf("namespace %s could not be deleted: %v", name, err)
		}
	})
	if err := suite.api.do(t.Context(), "POST", "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, name), nil); err != nil {
		t.Fatal(err)
	}
}

// manifest is one of the lab's.
func manifest(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(suite.root, "test", "lab", "manifests", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func apply(t *testing.T, ns string, manifests ...string) {
	t.Helper()
	if _, err := suite.kube(t.Context(), strings.Join(manifests, "\n---\n"), "apply", "-n", ns, "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// edit changes a manifest; what it looks for must be there.
func edit(t *testing.T, text, from, to string) string {
	t.Helper()
	if !strings.Contains(text, from) {
		t.Fatalf("the manifest of the tracks has no %q any more: tell this test what to change", from)
	}
	return strings.ReplaceAll(text, from, to)
}

// firstVersion is the primary on v1 and without pods: the revision that an undo
// goes back to.
func firstVersion(t *testing.T, tracks string) string {
	t.Helper()
	first, _, _ := strings.Cut(tracks, "\n---")
	return edit(t, edit(t, first, "go-api:v2", "go-api:v1"), "replicas: 4", "replicas: 0")
}

// scene fills a namespace as `lab.sh scene` does: both tracks on v2 with four
// pods each, the primary with v1 in its history, all traffic on the canary, and
// a client that sends nothing yet.
func scene(t *testing.T, ns string, kind routeKind, change ...func(t *testing.T, tracks string) string) {
	t.Helper()
	tracks := manifest(t, "tracks")
	for _, c := range change {
		tracks = c(t, tracks)
	}
	apply(t, ns, firstVersion(t, tracks))
	until(t, time.Minute, "a first revision of Deployment "+primary, func(ctx context.Context) (bool, string) {
		d, err := deploymentNow(ctx, ns, primary)
		return err == nil && d.Metadata.Annotations[revisionAnnotation] == "1", fmt.Sprintf("%+v %v", d.Metadata.Annotations, err)
	})
	apply(t, ns, manifest(t, "gateway"), tracks, manifest(t, kind.manifest), manifest(t, "hit"))
	settled(t, ns)
}

// oldScene fills a namespace as a whole release finds it: all traffic on the
// primary, which has v1 and never had anything else, and v2 in a canary without
// pods.
func oldScene(t *testing.T, ns string) {
	t.Helper()
	first, second, _ := strings.Cut(manifest(t, "tracks"), "\n---")
	route := edit(t, manifest(t, httpRoute.manifest), "weight: 100", "weight: all")
	route = edit(t, edit(t, route, "weight: 0", "weight: 100"), "weight: all", "weight: 0")
	apply(t, ns, manifest(t, "gateway"), edit(t, first, "go-api:v2", "go-api:v1"), edit(t, second, "replicas: 4", "replicas: 0"), route, manifest(t, "hit"))
	settled(t, ns)
}

// settled waits until a scene's gateway serves and all pods are ready.
func settled(t *testing.T, ns string) {
	t.Helper()
	until(t, 2*time.Minute, "a Gateway that is programmed", func(ctx context.Context) (bool, string) {
		var g struct {
			Status struct {
				Conditions []condition `json:"conditions"`
			} `json:"status"`
		}
		err := suite.api.do(ctx, "GET", httpRoute.path+"/namespaces/"+ns+"/gateways/gw", "", &g)
		return err == nil && holds(g.Status.Conditions, "Programmed"), fmt.Sprintf("%+v %v", g.Status.Conditions, err)
	})
	for _, name := range []string{primary, canary, "gw-istio", "hit"} {
		until(t, 3*time.Minute, "all pods of Deployment "+name, func(ctx context.Context) (bool, string) {
			d, err := deploymentNow(ctx, ns, name)
			return err == nil && d.rolledOut(), fmt.Sprintf("%+v %v", d.Status, err)
		})
	}
}

func deploymentNow(ctx context.Context, ns, name string) (d deploymentObject, err error) {
	err = suite.api.do(ctx, "GET", "/apis/apps/v1/namespaces/"+ns+"/deployments/"+name, "", &d)
	return d, err
}

// podsOf lists the pods of a track that are not leaving.
func podsOf(ctx context.Context, ns, deployment string) (names []string, err error) {
	var list struct {
		Items []podObject `json:"items"`
	}
	if err := suite.api.do(ctx, "GET", "/api/v1/namespaces/"+ns+"/pods?labelSelector=app=checkout", "", &list); err != nil {
		return nil, err
	}
	for _, p := range list.Items {
		if p.track() == deployment && p.Metadata.Deletion == nil {
			names = append(names, p.Metadata.Name)
		}
	}
	return names, nil
}

// misbehave sets the faults of every pod that a track has now. A pod that is
// made later has none.
func misbehave(t *testing.T, ns, deployment string, faults map[string]any) {
	t.Helper()
	pods, err := podsOf(t.Context(), ns, deployment)
	if err != nil {
		t.Fatal(err)
	}
	if len(pods) == 0 {
		t.Fatalf("%s has no pods to set faults in", deployment)
	}
	b, err := json.Marshal(faults)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if err := suite.api.do(t.Context(), "PUT", faultsOf(ns, pod), string(b), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// faultsOf is the way to a pod's faults, by way of the API server: so it is the
// same on any cluster.
func faultsOf(ns, pod string) string {
	return "/api/v1/namespaces/" + ns + "/pods/" + pod + ":8080/proxy/admin/faults"
}

// client is the scene's client, by way of the API server.
type client struct{ ns string }

func (c client) do(ctx context.Context, method, path, body string, into any) error {
	return suite.api.do(ctx, method, "/api/v1/namespaces/"+c.ns+"/services/hit:http/proxy"+path, body, into)
}

func (c client) report(ctx context.Context) (r traffic, err error) {
	err = c.do(ctx, "GET", "/report", "", &r)
	return r, err
}

// send has the client send at a rate, waits until all is answered well, and
// counts anew from then on.
func (c client) send(t *testing.T, rps int) {
	t.Helper()
	if err := c.do(t.Context(), "POST", "/rate", fmt.Sprintf(`{"rps":%d}`, rps), nil); err != nil {
		t.Fatal(err)
	}
	const calm = 3 // seconds
	until(t, 90*time.Second, "answers without a failure", func(ctx context.Context) (bool, string) {
		asked := time.Now()
		r, err := c.report(ctx)
		if err != nil {
			return false, err.Error()
		}
		if off := max(asked.Sub(r.Now), time.Until(r.Now)); off > time.Second {
			t.Fatalf("the cluster's clock is %s off from here: what is seen here and there could not be compared", off)
		}
		good := 0
		for _, s := range r.Paced.Timeline {
			if s.Failed+s.Bad > 0 || s.Answered == 0 {
				good = 0
				continue
			}
			good++
		}
		return good > calm, fmt.Sprintf("%d good seconds; codes %v, failures %v", good, r.Paced.ByCode, r.Paced.Failures)
	})
	if err := c.do(t.Context(), "POST", "/reset", "", nil); err != nil {
		t.Fatal(err)
	}
}

// rest stops the client, waits for the last answer, and returns its report.
func (c client) rest(t *testing.T) (r traffic) {
	t.Helper()
	for _, wish := range [][2]string{{"/rate", `{"rps":0}`}, {"/long", `{"n":0}`}} {
		if err := c.do(t.Context(), "POST", wish[0], wish[1], nil); err != nil {
			t.Fatal(err)
		}
	}
	until(t, time.Minute, "the client's last answer", func(ctx context.Context) (bool, string) {
		var err error
		r, err = c.report(ctx)
		inFlight := r.Paced.InFlight + r.Long.InFlight
		return err == nil && inFlight == 0, fmt.Sprintf("%d in flight, %v", inFlight, err)
	})
	return r
}

// patient gives the pods a lame duck that is longer than a slow mesh needs to
// hear of their end: how long they have to serve on is theirs to know.
func patient(t *testing.T, tracks string) string {
	t.Helper()
	tracks = edit(t, tracks, "GO_API_LAME_DUCK, value: 5s", "GO_API_LAME_DUCK, value: 15s")
	return edit(t, tracks, "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 45")
}
