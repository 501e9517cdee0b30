package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/routing"
	"github.com/shifter-dev/shifter/internal/workload"
)

const clusterOfTwo = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: app, namespace: demo}
spec:
  rules:
  - backendRefs: [{name: app-primary, port: 80, weight: 0}, {name: app-canary, port: 80, weight: 100}]
`

const track = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app-%[1]s, namespace: demo, uid: d-%[1]s}
spec: {replicas: 1, selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: app, image: "a:2"}]}}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: app-%[1]s-1
  namespace: demo
  uid: r-%[1]s
  labels: {app: %[1]s, pod-template-hash: "1"}
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: app-%[1]s, uid: d-%[1]s, controller: true}]
spec: {template: {metadata: {labels: {app: %[1]s, pod-template-hash: "1"}}, spec: {containers: [{name: app, image: "a:2"}]}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: app-%[1]s-1-a
  namespace: demo
  labels: {app: %[1]s}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: app-%[1]s-1, uid: r-%[1]s, controller: true}]
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: app-%[1]s-s, namespace: demo, labels: {kubernetes.io/service-name: app-%[1]s}}
endpoints: []
`

// shift is a release's two hands on a cluster.
type shift struct {
	*kubetest.Server

	t         *testing.T
	routes    *routing.Routes
	workloads *workload.Workloads
	binding   release.Binding
	looks     int
}

func newShift(t *testing.T) *shift {
	t.Helper()
	resources := map[any]schema.GroupVersionResource{
		"HTTPRoute":     {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
		"Deployment":    {Group: "apps", Version: "v1", Resource: "deployments"},
		"ReplicaSet":    {Group: "apps", Version: "v1", Resource: "replicasets"},
		"Pod":           {Version: "v1", Resource: "pods"},
		"EndpointSlice": {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	}
	var serves []schema.GroupVersionResource
	for _, r := range resources {
		serves = append(serves, r)
	}
	s := &shift{Server: kubetest.New(t, serves...), t: t}
	for _, text := range append(strings.Split(fmt.Sprintf(track, "primary"), "\n---\n"), append(strings.Split(fmt.Sprintf(track, "canary"), "\n---\n"), clusterOfTwo)...) {
		o := kubetest.YAML(t, text)
		s.Put("kubectl", resources[o["kind"]], o)
	}
	c, err := routing.NewClient(s.Config(), s.HTTP())
	if err != nil {
		t.Fatal(err)
	}
	mirrors := kube.MirrorsConfig{Linger: -1, Patience: patience}
	s.routes = routing.New(c, routing.Config{Mirrors: mirrors})
	s.workloads = workload.New(c, workload.Config{Mirrors: mirrors})
	uid := kubetest.Text(s.Get(resources["HTTPRoute"], "demo", "app"), "metadata", "uid")
	s.binding = release.Binding{
		Key:    release.Key{Namespace: "demo", Name: "r1"},
		Routes: []release.BoundRoute{{Ref: release.RouteRef{Kind: "HTTPRoute", Namespace: "demo", Name: "app"}, UID: uid}},
	}
	for i := range s.binding.Tracks {
		at := "app-" + release.Track(i).String()
		s.binding.Tracks[i] = release.BoundTrack{Namespace: "demo", Deployment: at, UID: "d-" + release.Track(i).String(), Service: at, Port: 80}
	}
	return s
}

// watch follows everything until the test ends.
func (s *shift) watch() {
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel)
	for _, watch := range []func(context.Context, release.Binding) (<-chan struct{}, error){s.routes.Watch, s.workloads.Watch} {
		ch, err := watch(ctx, s.binding)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() {
			cancel() // all of them end
			for range ch {
				continue // until it is closed
			}
		})
	}
}

// look is what a turn reads, and what is read again right before an action.
func (s *shift) look(want release.Pair, replicas int) {
	s.t.Helper()
	s.looks++
	routes, err := s.routes.Read(s.t.Context(), s.binding)
	if err != nil || !routes[0].Split.Ok() || routes[0].Split.Val[0] != want {
		s.t.Fatalf("read %+v, %v", routes, err)
	}
	tracks, err := s.workloads.Read(s.t.Context(), s.binding)
	if err != nil || tracks[0].Desired.Val != replicas || tracks[1].Ready.Val != 1 || !tracks[1].Template.Ok() {
		s.t.Fatalf("read %+v, %v", tracks, err)
	}
}

func (s *shift) calls() (n int) {
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodPost} {
		for _, r := range s.Asked(method) {
			if r.Query.Get("watch") == "" {
				n++
			}
		}
	}
	return n
}

// TestAShiftCostsAFewCalls takes the looks and writes of a shift in four steps: a
// list for each of nine mirrors (the route, and of each track the Deployment, its
// ReplicaSets, pods and endpoints), and two calls for each write, which reads live
// what it writes. Nothing is asked while it idles.
func TestAShiftCostsAFewCalls(t *testing.T) {
	s := newShift(t)
	s.watch()
	fence := release.Fence{Key: s.binding.Key, Epoch: 1}
	route := s.binding.Routes[0]
	at, replicas := release.Pair{Canary: 100}, 1
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	scale := func(n int) {
		s.look(at, replicas)
		must(s.workloads.Scale(t.Context(), release.Scale{UID: s.binding.Tracks[0].UID, Replicas: n}))
		replicas = n
		s.look(at, replicas)
	}
	mark := func(on bool) {
		s.look(at, replicas)
		must(s.routes.Mark(t.Context(), release.Mark{Route: route.Ref, UID: route.UID, On: on}, fence))
	}
	mark(true)
	scale(2)
	for _, share := range []int32{25, 50, 75, 100} {
		to := release.Pair{Primary: share, Canary: 100 - share}
		s.look(at, replicas)
		_, err := s.routes.SetShare(t.Context(), release.SetShare{Route: route.Ref, UID: route.UID, From: []release.Pair{at}, To: []release.Pair{to}}, fence)
		must(err)
		for at = to; s.looks%20 != 0; {
			s.look(at, replicas)
		}
	}
	scale(1)
	scale(3)
	mark(false)
	for s.looks < 100 {
		s.look(at, replicas)
	}
	if n := s.calls(); n != 9+2*9 {
		t.Errorf("%d calls for %d looks and 9 writes, want 27", n, s.looks)
	}
	before := s.calls()
	for range 100 {
		s.look(at, replicas)
	}
	if n := s.calls() - before; n != 0 {
		t.Errorf("%d calls for 100 idle looks", n)
	}
	if r, err := s.routes.Read(t.Context(), s.binding); err != nil || time.Since(r[0].Split.At) > patience {
		t.Errorf("a fact is of %s, %v", r[0].Split.At, err)
	}
}
