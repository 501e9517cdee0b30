package routing

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/release"
)

// Watch tells that one of the routes may have changed. For as long as it lasts a
// mirror of each is kept, which Read is answered from. The channel is closed when
// ctx ends.
func (r *Routes) Watch(ctx context.Context, b release.Binding) (<-chan struct{}, error) {
	if err := kube.Ended(ctx); err != nil {
		return nil, fmt.Errorf("watching the routes: %w", err)
	}
	changed := make(chan struct{}, 1)
	ring := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	var stops []func()
	for _, br := range b.Routes {
		if k, ok := kindOf(br.Ref.Kind); ok {
			stops = append(stops, r.mirrors.Follow(ctx, selection(k, br.Ref), ring))
		}
	}
	go func() {
		<-ctx.Done()
		for _, stop := range stops {
			stop()
		}
		close(changed)
	}()
	return changed, nil
}

// selection is the one route of a name.
func selection(k kind, ref release.RouteRef) kube.Selection {
	return kube.Selection{Resource: k.resource, Namespace: ref.Namespace, Name: ref.Name}
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// strip takes from a route what nobody reads: of the managed fields only who owns
// the rules is left.
func strip(_ schema.GroupVersionResource, obj *unstructured.Unstructured) {
	if a := field(obj, "annotations"); a != nil {
		delete(a, lastApplied)
	}
	k, ok := kindOf(obj.GetKind())
	list, _ := nested(obj, "metadata", "managedFields").([]any)
	var owners []any
	for i := range list {
		if e := at(list, i); ok && owns(e, k.rules) {
			e["fieldsV1"] = map[string]any{"f:spec": map[string]any{"f:" + k.rules: map[string]any{}}}
			owners = append(owners, e)
		}
	}
	m, _ := obj.Object["metadata"].(map[string]any)
	delete(m, "managedFields")
	if len(owners) > 0 {
		m["managedFields"] = owners
	}
}
