package workload

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/shifter-dev/shifter/internal/kube"
)

// The resources that are read. The last four are of tools that a cluster may
// have.
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

// pageSize is how many objects one answer holds at most.
const pageSize = 500

// get reads one object.
func (w *Workloads) get(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	ctx, cancel, err := kube.Within(ctx, w.cfg.Timeout)
	if err != nil {
		return nil, err
	}
	defer cancel()
	obj, err := w.client.Resource(r).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", r.Resource, namespace, name, kube.Explain(err))
	}
	unmanage(obj)
	return obj, nil
}

// list reads all objects that a selector reaches, page by page.
func (w *Workloads) list(ctx context.Context, r schema.GroupVersionResource, namespace, selector string) ([]unstructured.Unstructured, error) {
	ctx, cancel, err := kube.Within(ctx, w.cfg.Timeout)
	if err != nil {
		return nil, err
	}
	defer cancel()
	var out []unstructured.Unstructured
	opts := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		page, err := w.in(r, namespace).List(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("listing %s in namespace %s: %w", r.GroupResource(), namespace, kube.Explain(err))
		}
		for i := range page.Items {
			unmanage(&page.Items[i])
		}
		out = append(out, page.Items...)
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			return out, nil
		}
	}
}

// unmanage drops the managed fields, which are large and nobody's business here.
func unmanage(obj *unstructured.Unstructured) {
	unstructured.RemoveNestedField(obj.Object, "metadata", "managedFields")
}

func (w *Workloads) in(r schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	return w.client.Resource(r).Namespace(namespace)
}

// decode reads what a narrow type asks for of an object, which may be a mirror's
// and stays as it is.
func decode(obj *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
		return fmt.Errorf("%s %s/%s cannot be read: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
	}
	return nil
}
