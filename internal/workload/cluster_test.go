package workload_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/workload"
)

var (
	deployments    = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	replicaSets    = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	pods           = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	services       = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	endpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	autoscalers    = schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	scaledObjects  = schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}
	canaries       = schema.GroupVersionResource{Group: "flagger.app", Version: "v1beta1", Resource: "canaries"}
	rollouts       = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"}
)

// cluster is an API server with a controller of Deployments, which takes one step
// each time that a Deployment is read.
type cluster struct {
	*kubetest.Server

	t  testing.TB
	mu sync.Mutex
	// leaving counts the steps since a pod began to terminate.
	leaving map[string]int
	born    int
	idle    bool // the controller does nothing
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{
		Server: kubetest.New(t, deployments, replicaSets, pods, services, endpointSlices, autoscalers, scaledObjects, canaries, rollouts),
		t:      t, leaving: map[string]int{},
	}
	c.BeforeRead = func(path string) {
		if dir, name, ok := strings.Cut(path, "/deployments/"); ok && !strings.Contains(name, "/") {
			c.step(dir[strings.LastIndex(dir, "/")+1:], name)
		}
	}
	return c
}

func (c *cluster) workloads(cfg workload.Config) *workload.Workloads {
	c.t.Helper()
	client, err := dynamic.NewForConfigAndClient(c.Config(), c.HTTP())
	if err != nil {
		c.t.Fatal(err)
	}
	cfg.Mirrors.Linger = -1 // all watches end with their test
	return workload.New(client, cfg)
}

// put stores objects from YAML documents.
func (c *cluster) put(text string) {
	c.t.Helper()
	kinds := map[any]schema.GroupVersionResource{
		"Deployment": deployments, "ReplicaSet": replicaSets, "Pod": pods, "Service": services, "EndpointSlice": endpointSlices,
		"HorizontalPodAutoscaler": autoscalers, "ScaledObject": scaledObjects, "Canary": canaries, "Rollout": rollouts,
	}
	for _, doc := range strings.Split(text, "\n---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		o := kubetest.YAML(c.t, doc)
		kubetest.In(o, "metadata")["namespace"] = "demo"
		r, ok := kinds[o["kind"]]
		if !ok {
			c.t.Fatalf("no resource for %v", o["kind"])
		}
		c.Put("kubectl", r, o)
	}
}

// deploy makes a Deployment with its Service, of an image.
func (c *cluster) deploy(name, image string, replicas int) {
	c.t.Helper()
	c.put(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: app, image: "%[2]s"}]}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: %[1]s}, ports: [{port: 80}]}
`, name, image, replicas))
}

// edit changes a Deployment as kubectl would.
func (c *cluster) edit(name string, edit func(o kubetest.Object)) {
	c.t.Helper()
	c.Edit("kubectl", deployments, "demo", name, edit)
}

func (c *cluster) image(name, image string) {
	c.t.Helper()
	c.edit(name, func(o kubetest.Object) {
		kubetest.In(template(o), "spec", "containers", 0)["image"] = image
	})
}

// settle lets the controller work until there is nothing left to do.
func (c *cluster) settle(name string) {
	for still := 0; still < 4; still++ { // a pod that leaves takes three steps
		before := c.Version()
		c.step("demo", name)
		if c.Version() != before {
			still = 0
		}
	}
}

func template(o kubetest.Object) kubetest.Object {
	return kubetest.In(o, "spec", "template")
}

func meta(o kubetest.Object) kubetest.Object { return kubetest.In(o, "metadata") }

// step is one step of the Deployment controller and of all that follow it.
func (c *cluster) step(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.Get(deployments, namespace, name)
	if d == nil || c.idle {
		return
	}
	sets := c.ownedBy(replicaSets, d)
	live := c.liveSet(d, sets)
	var mine []kubetest.Object
	for _, s := range c.ownedBy(replicaSets, d) {
		mine = append(mine, c.ownedBy(pods, s)...)
	}
	mine = c.live(mine)
	c.roll(d, live, mine)
	c.slice(d, live)
}

func (c *cluster) ownedBy(r schema.GroupVersionResource, owner kubetest.Object) []kubetest.Object {
	return slices.DeleteFunc(c.List(r), func(o kubetest.Object) bool {
		refs, _, _ := unstructured.NestedSlice(o, "metadata", "ownerReferences")
		return len(refs) == 0 || kubetest.In(refs, 0)["uid"] != meta(owner)["uid"]
	})
}

func owned(by kubetest.Object) []any {
	return []any{kubetest.Object{"apiVersion": "apps/v1", "kind": by["kind"], "name": meta(by)["name"], "uid": meta(by)["uid"], "controller": true}}
}

// plain is a template without the hash that the controller adds.
func plain(o kubetest.Object) kubetest.Object {
	t := runtime.DeepCopyJSON(template(o))
	delete(kubetest.In(t, "metadata", "labels"), "pod-template-hash")
	return t
}

// liveSet finds or makes the ReplicaSet of the template, with the newest
// revision.
func (c *cluster) liveSet(d kubetest.Object, sets []kubetest.Object) kubetest.Object {
	newest := 0
	var live kubetest.Object
	revision := func(s kubetest.Object) int {
		v, _, _ := unstructured.NestedString(s, "metadata", "annotations", "deployment.kubernetes.io/revision")
		n, _ := strconv.Atoi(v)
		return n
	}
	for _, s := range sets {
		newest = max(newest, revision(s))
		if reflect.DeepEqual(plain(s), plain(d)) {
			live = s
		}
	}
	if live != nil && revision(live) == newest {
		return live
	}
	if live == nil {
		b, err := json.Marshal(plain(d))
		if err != nil {
			c.t.Error(err)
		}
		h := fnv.New32a()
		h.Write(b)
		hash := fmt.Sprintf("%x", h.Sum32())
		t := plain(d)
		kubetest.In(t, "metadata", "labels")["pod-template-hash"] = hash
		labels := maps.Clone(kubetest.In(t, "metadata", "labels"))
		live = kubetest.Object{
			"apiVersion": "apps/v1", "kind": "ReplicaSet",
			"metadata": kubetest.Object{"namespace": "demo", "name": fmt.Sprintf("%s-%s", meta(d)["name"], hash), "labels": labels, "ownerReferences": owned(d)},
			"spec":     kubetest.Object{"template": t},
		}
	}
	annotations, _, _ := unstructured.NestedMap(d, "metadata", "annotations")
	if annotations == nil {
		annotations = kubetest.Object{}
	}
	annotations["deployment.kubernetes.io/revision"] = strconv.Itoa(newest + 1)
	meta(live)["annotations"] = annotations
	c.Put("kube-controller-manager", replicaSets, live)
	return c.Get(replicaSets, "demo", kubetest.Text(meta(live), "name"))
}

// live moves pods on: new ones become ready, leaving ones go after three steps.
func (c *cluster) live(all []kubetest.Object) []kubetest.Object {
	var out []kubetest.Object
	for _, p := range all {
		name := kubetest.Text(meta(p), "name")
		switch {
		case meta(p)["deletionTimestamp"] != nil:
			if c.leaving[name]++; c.leaving[name] > 2 {
				c.Delete(pods, "demo", name)
			}
			continue
		case !isReady(p):
			setReady(p, true)
			c.Put("kubelet", pods, p)
		}
		out = append(out, p)
	}
	return out
}

func isReady(p kubetest.Object) bool {
	conds, _, _ := unstructured.NestedSlice(p, "status", "conditions")
	return len(conds) > 0 && kubetest.In(conds, 0)["status"] == "True"
}

func setReady(p kubetest.Object, ready bool) {
	status := "False"
	if ready {
		status = "True"
	}
	p["status"] = kubetest.Object{"phase": "Running", "conditions": []any{kubetest.Object{"type": "Ready", "status": status}}}
}

// roll takes one step of a rolling update with maxSurge 1 and maxUnavailable 0.
func (c *cluster) roll(d, live kubetest.Object, all []kubetest.Object) {
	replicas, _, _ := unstructured.NestedInt64(d, "spec", "replicas")
	want := int(replicas)
	var now, old []kubetest.Object
	ready := 0
	for _, p := range all {
		if kubetest.In(p, "metadata", "ownerReferences", 0)["uid"] == meta(live)["uid"] {
			now = append(now, p)
		} else {
			old = append(old, p)
		}
		if isReady(p) {
			ready++
		}
	}
	cost := func(p kubetest.Object) string {
		v, _, _ := unstructured.NestedString(p, "metadata", "annotations", "controller.kubernetes.io/pod-deletion-cost")
		return v
	}
	slices.SortFunc(now, func(a, b kubetest.Object) int { // the first to go comes first
		return cmp.Or(cmp.Compare(cost(a), cost(b)), cmp.Compare(kubetest.Text(meta(b), "name"), kubetest.Text(meta(a), "name")))
	})
	for len(now) > want {
		c.terminate(now[0])
		now = now[1:]
	}
	for len(now) < want && len(now)+len(old) <= want {
		c.create(live)
		now = append(now, nil)
	}
	if len(old) > 0 && ready > want {
		c.terminate(old[0])
	}
}

func (c *cluster) terminate(p kubetest.Object) {
	meta(p)["deletionTimestamp"] = "2026-11-01T01:00:00Z"
	setReady(p, false)
	c.Put("kube-controller-manager", pods, p)
}

func (c *cluster) create(set kubetest.Object) {
	c.born++
	p := kubetest.Object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": kubetest.Object{
			"namespace": "demo", "name": fmt.Sprintf("%s-%03d", meta(set)["name"], c.born),
			"labels": maps.Clone(kubetest.In(meta(set), "labels")), "ownerReferences": owned(set),
		},
		"spec": kubetest.Object{},
	}
	setReady(p, false)
	c.Put("kube-controller-manager", pods, p)
}

// slice writes the endpoints of the Deployment's Service.
func (c *cluster) slice(d, _ kubetest.Object) {
	var points []any
	for _, set := range c.ownedBy(replicaSets, d) {
		for _, p := range c.ownedBy(pods, set) {
			leaving := meta(p)["deletionTimestamp"] != nil
			points = append(points, kubetest.Object{
				"addresses":  []any{"10.0.0.1"},
				"conditions": kubetest.Object{"ready": isReady(p) && !leaving, "serving": true, "terminating": leaving},
				"targetRef":  kubetest.Object{"kind": "Pod", "name": meta(p)["name"], "uid": meta(p)["uid"]},
			})
		}
	}
	name := kubetest.Text(meta(d), "name")
	next := kubetest.Object{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata":  kubetest.Object{"namespace": "demo", "name": name, "labels": kubetest.Object{"kubernetes.io/service-name": name}},
		"endpoints": points,
	}
	if was := c.Get(endpointSlices, "demo", name); was == nil || !reflect.DeepEqual(was["endpoints"], next["endpoints"]) {
		c.Put("kube-controller-manager", endpointSlices, next)
	}
}

func request() release.Spec {
	return release.Spec{Tracks: [2]release.TrackSpec{
		{Service: "app", Port: 80, Deployment: "app"}, {Service: "app-canary", Port: 80, Deployment: "app-canary"},
	}}
}

// pair is the usual two Deployments: the primary was on v1 before v2. What the
// controller made of them is made once and put into every cluster.
func pair(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	resources := []schema.GroupVersionResource{deployments, replicaSets, pods, services, endpointSlices}
	usual.once.Do(func() {
		first := newCluster(t)
		first.deploy("app", "shop/app:1", 2)
		first.settle("app")
		first.image("app", "shop/app:2")
		first.deploy("app-canary", "shop/app:2", 2)
		first.settle("app")
		first.settle("app-canary")
		usual.born = first.born
		for _, r := range resources {
			usual.objects = append(usual.objects, first.List(r))
		}
	})
	c.born = usual.born
	for i, r := range resources {
		for _, o := range usual.objects[i] {
			c.Put("kubectl", r, o)
		}
	}
	return c
}

var usual struct {
	once    sync.Once
	objects [][]kubetest.Object
	born    int
}

// admit binds the usual two.
func admit(t *testing.T, w *workload.Workloads) release.Binding {
	t.Helper()
	tracks, err := w.Resolve(t.Context(), "demo", request())
	if err != nil {
		t.Fatal(err)
	}
	return release.Binding{Key: release.Key{Namespace: "demo", Name: "r1"}, Tracks: tracks}
}

func look(t *testing.T, w *workload.Workloads, b release.Binding) [2]release.TrackState {
	t.Helper()
	s, err := w.Read(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
