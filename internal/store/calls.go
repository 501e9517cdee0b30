package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/release"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// calls are the requests that the store makes, each with its deadline. Their
// errors have the kinds of package release and say what was asked of what.
type calls struct {
	api       dynamic.ResourceInterface
	namespace string
	timeout   time.Duration
}

func newCalls(client dynamic.Interface, namespace string, timeout time.Duration) calls {
	return calls{client.Resource(configMaps).Namespace(namespace), namespace, timeout}
}

func (c calls) get(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	return c.one(ctx, "get", name, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.api.Get(ctx, name, metav1.GetOptions{})
	})
}

// create writes an object that is not there; ErrConflict when it is.
func (c calls) create(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return c.one(ctx, "create", o.GetName(), func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.api.Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
	})
}

// update writes an object over the version that it has; ErrConflict when another
// one is there now.
func (c calls) update(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return c.one(ctx, "update", o.GetName(), func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.api.Update(ctx, o, metav1.UpdateOptions{FieldManager: manager})
	})
}

// remove deletes an object as it was seen; ErrConflict when it has changed since.
func (c calls) remove(ctx context.Context, o *unstructured.Unstructured) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	_, err := c.one(ctx, "delete", o.GetName(), func(ctx context.Context) (*unstructured.Unstructured, error) {
		return nil, c.api.Delete(ctx, o.GetName(), metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		})
	})
	return err
}

func (c calls) one(ctx context.Context, verb, name string, call func(context.Context) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	ctx, cancel, err := kube.Within(ctx, c.timeout)
	if err != nil {
		return nil, err
	}
	defer cancel()
	o, err := call(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s ConfigMap %s/%s: %w", verb, c.namespace, name, c.explain(verb, err))
	}
	return o, nil
}

// pageSize is how many records one answer of a list holds; each has up to
// MaxRecord bytes.
const pageSize = 50

// each shows every ConfigMap of a selector, page by page. A list that took so
// long that the API server forgot its beginning begins anew, and then shows some
// of them again.
func (c calls) each(ctx context.Context, selector string, show func(*unstructured.Unstructured)) error {
	opts := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for again := 0; ; {
		page, err := c.list(ctx, opts)
		switch {
		case err == nil:
			for i := range page.Items {
				show(&page.Items[i])
			}
			if opts.Continue = page.GetContinue(); opts.Continue == "" {
				return nil
			}
		case opts.Continue != "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) && again < 3:
			opts.Continue = ""
			again++
		default:
			return err
		}
	}
}

func (c calls) list(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel, err := kube.Within(ctx, c.timeout)
	if err != nil {
		return nil, err
	}
	defer cancel()
	page, err := c.api.List(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("list ConfigMaps in namespace %s: %w", c.namespace, c.explain("list", err))
	}
	return page, nil
}

// explain gives an error its kind, and says what to do where a person must.
func (c calls) explain(verb string, err error) error {
	explained := kube.Explain(err)
	switch {
	case kube.NoNamespace(err):
		return fmt.Errorf("there is no namespace %s to keep the releases in, `kubectl create namespace %s` makes it: %w: %w",
			c.namespace, c.namespace, release.ErrUnavailable, err)
	case kube.NotServed(err), verb == "create" && errors.Is(explained, release.ErrNotFound):
		// Whoever answers for the path, or does not find what is to be made, says
		// nothing of what is there.
		return fmt.Errorf("%w: %w", release.ErrUnavailable, err)
	case errors.Is(explained, release.ErrForbidden) && !apierrors.IsUnauthorized(err):
		return fmt.Errorf("grant shifter's service account %s on configmaps in namespace %s: %w", verb, c.namespace, explained)
	case apierrors.IsRequestEntityTooLargeError(err):
		return fmt.Errorf("it is larger than the API server takes (%d): %w", http.StatusRequestEntityTooLarge, explained)
	}
	return explained
}

// The bounds of the wait before a write that lost is tried again.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// pause waits before a try, longer each time and with a spread, so that those who
// met once do not meet again.
func pause(ctx context.Context, try int) error {
	t := time.NewTimer(rand.N(min(firstPause<<min(try, 10), maxPause)))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return kube.Ended(ctx)
	case <-t.C:
		return nil
	}
}
