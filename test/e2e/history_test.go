//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// history is what was seen of a scene, state by state, each with the time when
// it was seen here and with its place in the order of writes. The objects are
// watched, so no state is missed; the release is asked for twice a second.
type history struct {
	mu          sync.Mutex
	routes      []routeState
	deployments map[string][]deploymentState
	sets        []setState
	pods        []podState
	release     release
	raw         []byte // the release as it was answered
	trouble     string // why the newest look at the release failed
	broken      error  // a watch that has ended for good
}

type routeState struct {
	at                  time.Time
	version             int64
	onPrimary, onCanary int
	labels, annotations map[string]string
}

type deploymentState struct {
	at       time.Time
	version  int64
	replicas int
	image    string
	template string // all of it
	revision string
	done     bool // rolled out
}

type setState struct {
	deployment, revision, hash string
}

type podState struct {
	version int64
	name    string
	track   string
	ready   bool
}

// observe begins a history of a scene. It ends with the test.
func observe(t *testing.T, ns string, kind routeKind) *history {
	t.Helper()
	h := &history{deployments: map[string][]deploymentState{}}
	var all sync.WaitGroup
	for path, take := range map[string]func(event, json.RawMessage) error{
		kind.list(ns): h.takeRoute,
		"/apis/apps/v1/namespaces/" + ns + "/deployments": h.takeDeployment,
		"/apis/apps/v1/namespaces/" + ns + "/replicasets": h.takeSet,
		"/api/v1/namespaces/" + ns + "/pods":              h.takePod,
	} {
		selector := "app=checkout"
		if path == kind.list(ns) {
			selector = ""
		}
		all.Go(func() {
			if err := suite.api.watch(t.Context(), path, selector, take); err != nil {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.broken = err
			}
		})
	}
	t.Cleanup(all.Wait)
	until(t, 30*time.Second, "a first look at route, Deployments and pods", func(context.Context) (bool, string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		pods := 0
		for _, all := range h.deployments {
			pods += all[len(all)-1].replicas
		}
		return len(h.routes) > 0 && len(h.deployments) == 2 && len(h.sets) >= 2 && pods >= full && len(h.pods) >= pods,
			fmt.Sprintf("%d routes, %d Deployments, %d ReplicaSets, %d pods, %v", len(h.routes), len(h.deployments), len(h.sets), len(h.pods), h.broken)
	})
	return h
}

// look asks a shifter for the release until the test ends.
func (h *history) look(t *testing.T, who func() *process, ns, name string) {
	t.Helper()
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			r, raw, err := who().read(t.Context(), ns, name)
			h.takeRelease(r, raw, err)
			select {
			case <-t.Context().Done():
				return
			case <-tick.C:
			}
		}
	})
	t.Cleanup(done.Wait)
}

func (h *history) takeRelease(r release, raw []byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.trouble = err.Error()
		return
	}
	h.release, h.raw, h.trouble = r, raw, ""
}

func (h *history) takeRoute(e event, raw json.RawMessage) error {
	var o routeObject
	if err := json.Unmarshal(raw, &o); err != nil || e == deleted || o.Metadata.Name != "checkout" {
		return err
	}
	v, err := o.Metadata.version()
	if err != nil {
		return err
	}
	s := routeState{at: time.Now(), version: v, labels: o.Metadata.Labels, annotations: o.Metadata.Annotations}
	s.onPrimary, s.onCanary = o.weights()
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.routes); n == 0 || h.routes[n-1].version < v {
		h.routes = append(h.routes, s)
	}
	return nil
}

func (h *history) takeDeployment(e event, raw json.RawMessage) error {
	var o deploymentObject
	if err := json.Unmarshal(raw, &o); err != nil || e == deleted {
		return err
	}
	v, err := o.Metadata.version()
	if err != nil {
		return err
	}
	var p podTemplate
	if err := json.Unmarshal(o.Spec.Template, &p); err != nil {
		return err
	}
	s := deploymentState{
		at: time.Now(), version: v, replicas: o.Spec.Replicas, image: p.image(), template: string(o.Spec.Template),
		revision: o.Metadata.Annotations[revisionAnnotation], done: o.rolledOut(),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	name := o.Metadata.Name
	if all := h.deployments[name]; len(all) == 0 || all[len(all)-1].version < v {
		h.deployments[name] = append(all, s)
	}
	return nil
}

func (h *history) takeSet(e event, raw json.RawMessage) error {
	var o replicaSetObject
	if err := json.Unmarshal(raw, &o); err != nil || e == deleted || len(o.Metadata.Owners) == 0 {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sets = append(h.sets, setState{o.Metadata.Owners[0].Name, o.Metadata.Annotations[revisionAnnotation], o.Metadata.Labels[hashLabel]})
	return nil
}

func (h *history) takePod(e event, raw json.RawMessage) error {
	var o podObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	v, err := o.Metadata.version()
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pods = append(h.pods, podState{v, o.Metadata.Name, o.track(), e != deleted && o.ready()})
	return nil
}

// now is the release as it was last seen.
func (h *history) now() (release, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.release, h.trouble
}

// route is the route as it was last seen.
func (h *history) route() routeState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.routes[len(h.routes)-1]
}

// moves are the states of the route in which the weights are new, the first one
// included.
func (h *history) moves() []routeState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.CompactFunc(slices.Clone(h.routes), func(a, b routeState) bool { return a.onPrimary == b.onPrimary && a.onCanary == b.onCanary })
}

// of are the states of a Deployment.
func (h *history) of(name string) []deploymentState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.deployments[name])
}

// sizes are the states of a Deployment in which its replicas are new.
func (h *history) sizes(name string) []deploymentState {
	return slices.CompactFunc(h.of(name), func(a, b deploymentState) bool { return a.replicas == b.replicas })
}

// hash is the pod-template-hash of a Deployment's state: that of the ReplicaSet
// with its revision.
func (h *history) hash(name string, s deploymentState) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, set := range slices.Backward(h.sets) {
		if set.deployment == name && set.revision == s.revision {
			return set.hash
		}
	}
	return ""
}

// readyBefore is how many pods of a track were ready when something was written.
func (h *history) readyBefore(version int64, track string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	newest := map[string]podState{}
	for _, p := range h.pods {
		if p.version < version && p.track == track && p.version >= newest[p.name].version {
			newest[p.name] = p
		}
	}
	n := 0
	for _, p := range newest {
		if p.ready {
			n++
		}
	}
	return n
}

// routeBefore is the route as it was when something else was written.
func (h *history) routeBefore(version int64) routeState {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, _ := slices.BinarySearchFunc(h.routes, version, func(s routeState, v int64) int { return cmp.Compare(s.version, v) })
	return h.routes[max(0, i-1)]
}

// catchUp waits until the history has seen what the API server has now.
func (h *history) catchUp(t *testing.T, ns string, kind routeKind) {
	t.Helper()
	until(t, 30*time.Second, "a history that is up to date", func(ctx context.Context) (bool, string) {
		for path, newest := range map[string]func() int64{
			kind.list(ns) + "/checkout":                                  func() int64 { return h.route().version },
			"/apis/apps/v1/namespaces/" + ns + "/deployments/" + primary: func() int64 { return newestOf(h.of(primary)) },
			"/apis/apps/v1/namespaces/" + ns + "/deployments/" + canary:  func() int64 { return newestOf(h.of(canary)) },
		} {
			var o struct {
				Metadata meta `json:"metadata"`
			}
			if err := suite.api.do(ctx, "GET", path, "", &o); err != nil {
				return false, err.Error()
			}
			if v, err := o.Metadata.version(); err != nil || newest() < v {
				return false, fmt.Sprintf("%s is at %d, seen was %d, %v", path, v, newest(), err)
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.broken != nil {
			t.Fatal(h.broken)
		}
		return true, ""
	})
}

func newestOf(all []deploymentState) int64 { return all[len(all)-1].version }
