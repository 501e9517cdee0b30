package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// manager is the name under which the Lease is written.
const manager = "shifter"

// calls are the requests of an election, each with its deadline.
type calls struct {
	api             dynamic.ResourceInterface
	namespace, name string
	duration        time.Duration
	timeout         time.Duration
}

// A call may take less than a third of the deadline, so that a renewal whose
// connection is dead is tried again on another one.
func newCalls(client dynamic.Interface, c Config) calls {
	return calls{client.Resource(leases).Namespace(c.Namespace), c.Namespace, c.Name, c.Duration, 3 * c.Deadline / 10}
}

// held is a Lease as this process wrote it.
type held struct {
	lease *unstructured.Unstructured // nil before there is one
	// since is when the last write that was done was sent.
	since time.Time
	// tried is when the last write was sent.
	tried time.Time
}

// get returns the Lease, nil where there is none.
func (c calls) get(ctx context.Context) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	o, err := c.api.Get(ctx, c.name, metav1.GetOptions{})
	switch {
	case err == nil:
		return o, nil
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, nil
	}
	return nil, c.explain("get", err)
}

// write makes the Lease a holder's, over the version that h has. It is not ended
// by ctx: what was sent may be done, and nobody would know.
func (c calls) write(ctx context.Context, h *held, holder string) error {
	began := time.Now()
	h.tried = began
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	var err error
	verb, o := "update", next(h.lease, holder, c.duration, began)
	if h.lease == nil {
		verb = "create"
		o.SetNamespace(c.namespace)
		o.SetName(c.name)
		o, err = c.api.Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
	} else {
		o, err = c.api.Update(ctx, o, metav1.UpdateOptions{FieldManager: manager})
	}
	if err != nil {
		return c.explain(verb, err)
	}
	h.lease, h.since = o, began
	return nil
}

// release leaves the Lease to whoever comes next, if it is still h's holder's.
func (c calls) release(ctx context.Context, h *held) error {
	own := holderOf(h.lease)
	err := c.write(ctx, h, "")
	for try := 0; taken(err) && try < 3; try++ {
		var o *unstructured.Unstructured
		if o, err = c.get(ctx); err != nil {
			return err
		}
		if o == nil || holderOf(o) != own {
			return nil
		}
		h.lease = o
		err = c.write(ctx, h, "")
	}
	return err
}

// taken reports that another version is there than the one written over.
func taken(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s) && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && !namespaceGone(s))
}

func namespaceGone(s apierrors.APIStatus) bool {
	d := s.Status().Details
	return d == nil || d.Kind == "namespaces"
}

// explain says what was asked of what, and what to do where a person must.
func (c calls) explain(verb string, err error) error {
	what := fmt.Sprintf("%s Lease %s/%s", verb, c.namespace, c.name)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: shifter's account may not %s leases (coordination.k8s.io) in namespace %s: grant it get, create and update there: %w",
			what, verb, c.namespace, err)
	case verb == "create" && apierrors.IsNotFound(err):
		return fmt.Errorf("%s: there is no namespace %s, `kubectl create namespace %s` makes it: %w", what, c.namespace, c.namespace, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
