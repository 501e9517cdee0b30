package kube

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Right is what this process may be allowed to do with one object.
type Right struct {
	Verb            string
	Resource        schema.GroupVersionResource
	Subresource     string
	Namespace, Name string
}

// Denied asks the API server whether it denies this process a right. An error is
// no answer, and so is an answer that cannot be read: neither is a denial, as the
// first use of the right will show it.
func Denied(ctx context.Context, client dynamic.Interface, timeout time.Duration, r Right) (bool, error) {
	ctx, cancel, err := Within(ctx, timeout)
	if err != nil {
		return false, err
	}
	defer cancel()
	attributes := map[string]any{
		"verb": r.Verb, "group": r.Resource.Group, "version": r.Resource.Version, "resource": r.Resource.Resource,
		"namespace": r.Namespace, "name": r.Name,
	}
	if r.Subresource != "" {
		attributes["subresource"] = r.Subresource
	}
	reviews := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
	said, err := client.Resource(reviews).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": attributes},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	allowed, known, err := unstructured.NestedBool(said.Object, "status", "allowed")
	return err == nil && known && !allowed, nil
}
