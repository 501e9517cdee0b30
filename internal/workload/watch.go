package workload

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/release"
)

// Watch tells that something of the tracks may have changed: the Deployments,
// their ReplicaSets and pods, and the endpoints of their Services. For as long as
// it lasts a mirror of each is kept, which Read is answered from. The channel is
// closed when ctx ends.
func (w *Workloads) Watch(ctx context.Context, b release.Binding) (<-chan struct{}, error) {
	if err := kube.Ended(ctx); err != nil {
		return nil, err
	}
	f := following{w: w, changed: make(chan struct{}, 1), followed: map[kube.Selection]bool{}}
	for _, t := range b.Tracks {
		n := name{t.Namespace, t.Deployment}
		f.follow(ctx, ofService(t.Namespace, t.Service), f.ring)
		f.follow(ctx, ofName(n), func() {
			f.followOwned(ctx, n)
			f.ring()
		})
	}
	go func() {
		<-ctx.Done()
		f.end()
		close(f.changed)
	}()
	return f.changed, nil
}

func ofName(n name) kube.Selection {
	return kube.Selection{Resource: deployments, Namespace: n.namespace, Name: n.deployment}
}

func ofService(namespace, service string) kube.Selection {
	return kube.Selection{Resource: endpointSlices, Namespace: namespace, Labels: "kubernetes.io/service-name=" + service}
}

// ofSelector is what a Deployment's own selector reaches. It never changes.
func ofSelector(r schema.GroupVersionResource, d deployment) kube.Selection {
	return kube.Selection{Resource: r, Namespace: d.Metadata.Namespace, Labels: d.selector.String()}
}

// following is what one Watch follows.
type following struct {
	w       *Workloads
	changed chan struct{}

	mu       sync.Mutex
	followed map[kube.Selection]bool
	stops    []func()
	over     bool
}

func (f *following) ring() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// follow follows a selection once: both tracks may be subsets of one Service.
func (f *following) follow(ctx context.Context, s kube.Selection, told func()) {
	f.mu.Lock()
	had := f.followed[s] || f.over
	f.followed[s] = true
	f.mu.Unlock()
	if had {
		return
	}
	stop := f.w.mirrors.Follow(ctx, s, told)
	f.mu.Lock()
	over := f.over
	f.stops = append(f.stops, stop)
	f.mu.Unlock()
	if over {
		stop()
	}
}

// followOwned follows the ReplicaSets and pods of a Deployment, once its mirror has
// it and so its selector. That is before Read is shown the Deployment.
func (f *following) followOwned(ctx context.Context, n name) {
	for _, obj := range f.w.mirrors.Peek(ofName(n)) {
		d, err := readDeployment(obj)
		if err != nil {
			f.w.cfg.Logger.Debug("the pods are not followed", "deployment", n.String(), "err", err)
			continue
		}
		f.follow(ctx, ofSelector(replicaSets, d), f.ring)
		f.follow(ctx, ofSelector(pods, d), f.ring)
	}
}

// end stops everything; nothing rings after it.
func (f *following) end() {
	f.mu.Lock()
	f.over = true
	stops := f.stops
	f.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// strip takes from an object what a snapshot does not read.
func strip(r schema.GroupVersionResource, obj *unstructured.Unstructured) {
	unstructured.RemoveNestedField(obj.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", lastApplied)
	switch r {
	case pods:
		delete(obj.Object, "spec")
		only(obj.Object, "status", "phase", "conditions", "initContainerStatuses", "containerStatuses")
	case deployments:
		only(obj.Object, "spec", "replicas", "paused", "selector", "revisionHistoryLimit", "template")
		only(obj.Object, "status", "conditions")
	case replicaSets:
		only(obj.Object, "spec", "template")
		only(obj.Object, "status", "conditions")
	case endpointSlices:
		delete(obj.Object, "ports")
		points, _ := obj.Object["endpoints"].([]any)
		for i := range points {
			point, _ := points[i].(map[string]any)
			points[i] = kept(point, "conditions", "targetRef")
		}
	}
}

// only leaves some fields of a part of an object.
func only(obj map[string]any, part string, fields ...string) {
	if m, ok := obj[part].(map[string]any); ok {
		obj[part] = kept(m, fields...)
	}
}

func kept(m map[string]any, fields ...string) map[string]any {
	out := make(map[string]any, len(fields))
	for _, k := range fields {
		if v, ok := m[k]; ok {
			out[k] = v
		}
	}
	return out
}
