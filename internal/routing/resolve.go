package routing

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/release"
)

// missing reports that the object or its kind is not there.
func missing(err error) bool { return errors.Is(err, release.ErrNotFound) }

// Resolve binds the routes of a request to what is there. What is missing or
// does not fit comes back as release.Finding, joined.
func (r *Routes) Resolve(ctx context.Context, namespace string, spec release.Spec) ([]release.BoundRoute, error) {
	var wrong []error
	out := make([]release.BoundRoute, 0, len(spec.Routes))
	for i, ref := range spec.Routes {
		if ref.Namespace == "" {
			ref.Namespace = namespace
		}
		b, err := r.bind(ctx, fmt.Sprintf("/routes/%d", i), ref, namespace, spec)
		var f release.Finding
		switch {
		case err == nil:
			out = append(out, b)
		case errors.As(err, &f):
			wrong = append(wrong, err)
		default:
			return nil, fmt.Errorf("resolving %s: %w", ref, err)
		}
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("resolving the routes: %w", errors.Join(wrong...))
	}
	return out, nil
}

func (r *Routes) bind(ctx context.Context, at string, ref release.RouteRef, namespace string, spec release.Spec) (release.BoundRoute, error) {
	k, obj, err := r.get(ctx, ref)
	if err != nil {
		return release.BoundRoute{}, unreadable(err, at, ref, k)
	}
	split, err := Find(obj, Want{Tracks: backends(namespace, spec.Tracks), Rules: ref.Rules, Domain: r.cfg.Domain, At: at})
	if err != nil {
		return release.BoundRoute{}, err
	}
	n, err := epoch(obj)
	if err != nil {
		err = release.Finding{Pointer: at, Code: "epochUnreadable", Message: fmt.Sprintf("%s: %v", ref, err)}
	}
	if err := errors.Join(err, split.Refuse(spec.Allows), r.mayWrite(ctx, at, ref, k), r.mayRefer(ctx, at, ref, k, namespace, spec)); err != nil {
		return release.BoundRoute{}, err
	}
	r.remember(string(obj.GetUID()), backends(namespace, spec.Tracks), false)
	accepted, _ := acceptance(obj, k)
	return release.BoundRoute{
		Ref: ref, UID: string(obj.GetUID()), Rules: split.Rules(), Split: split.Pairs(),
		Accepted: accepted, Epoch: n, Timeout: split.Timeout(),
	}, nil
}

// unreadable turns the failure to read a route into a finding, where somebody
// can do something about it.
func unreadable(err error, at string, ref release.RouteRef, k kind) error {
	f := release.Finding{Pointer: at + "/name"}
	var unserved unknownKind
	switch {
	case errors.As(err, &unserved):
		f.Pointer, f.Code, f.Message = at+"/kind", "kindNotServed", fmt.Sprintf("%s: the cluster does not serve %s (%s)", ref, k.name, k.resource.GroupVersion())
		f.Fix = k.install
	case k.name == "":
		f.Pointer, f.Code, f.Message = at+"/kind", "routeKind", fmt.Sprintf("kind %q cannot be shifted", ref.Kind)
		f.Fix = "use HTTPRoute, GRPCRoute or VirtualService"
	case errors.Is(err, release.ErrNotFound):
		f.Code, f.Message = "routeNotFound", fmt.Sprintf("%s does not exist", ref)
		f.Fix = "correct the name or the namespace, or create the route first"
	case errors.Is(err, release.ErrForbidden):
		f.Code, f.Message = "forbidden", fmt.Sprintf("%s may not be read: %v", ref, err)
		f.Fix = grant("get, list, watch, patch", k.resource, ref.Namespace)
	default:
		return err
	}
	return f
}

func grant(verbs string, r schema.GroupVersionResource, namespace string) string {
	return fmt.Sprintf("grant shifter's service account %s on %s in namespace %s", verbs, r.GroupResource(), namespace)
}

// mayWrite asks whether the weights may be patched. No answer is no refusal: the
// first write will show it.
func (r *Routes) mayWrite(ctx context.Context, at string, ref release.RouteRef, k kind) error {
	denied, err := kube.Denied(ctx, r.client, r.cfg.Timeout, kube.Right{Verb: "patch", Resource: k.resource, Namespace: ref.Namespace, Name: ref.Name})
	if err != nil {
		r.cfg.Logger.Debug("the right to patch could not be asked for", "route", ref.String(), "err", err)
	}
	if !denied {
		return nil
	}
	return release.Finding{
		Pointer: at, Code: "forbidden", Message: fmt.Sprintf("shifter has no right to patch %s", ref),
		Fix: grant("patch", k.resource, ref.Namespace),
	}
}

// mayRefer asks for the ReferenceGrant that a route in another namespace needs
// to name the tracks' Services. Where grants cannot be listed, the route's status
// is what tells.
func (r *Routes) mayRefer(ctx context.Context, at string, ref release.RouteRef, k kind, namespace string, spec release.Spec) error {
	if !k.gateway() || ref.Namespace == namespace {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	// v1beta1 is what is stored, and all that older clusters serve.
	grants := schema.GroupVersionResource{Group: gatewayGroup, Version: "v1beta1", Resource: "referencegrants"}
	list, err := r.client.Resource(grants).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 500})
	if err != nil {
		r.cfg.Logger.Debug("the reference grants could not be listed", "namespace", namespace, "err", err)
		return nil
	}
	var wrong []error
	for i, t := range spec.Tracks {
		if !slices.ContainsFunc(list.Items, func(g unstructured.Unstructured) bool { return granted(g, k, ref.Namespace, t.Service) }) {
			wrong = append(wrong, release.Finding{
				Pointer: at, Code: "referenceGrant",
				Message: fmt.Sprintf("%s names Service %s/%s of the %s, and no ReferenceGrant in namespace %s allows it", ref, namespace, t.Service, release.Track(i), namespace),
				Fix:     fmt.Sprintf("create a ReferenceGrant in namespace %s from %s in namespace %s to Service %s", namespace, k.name, ref.Namespace, t.Service),
			})
		}
	}
	return errors.Join(wrong...)
}

// grantSpec is a ReferenceGrant's.
type grantSpec struct {
	From []struct {
		Group     string `json:"group"`
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
	} `json:"from"`
	To []struct {
		Group string  `json:"group"`
		Kind  string  `json:"kind"`
		Name  *string `json:"name"`
	} `json:"to"`
}

// granted reports whether a grant lets routes of a namespace name a Service.
func granted(g unstructured.Unstructured, k kind, from, service string) bool {
	var spec grantSpec
	raw, _ := g.Object["spec"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec); err != nil {
		return false
	}
	for _, f := range spec.From {
		if f.Group != k.resource.Group || f.Kind != k.name || f.Namespace != from {
			continue
		}
		for _, t := range spec.To {
			if t.Group == "" && t.Kind == "Service" && (t.Name == nil || *t.Name == service) {
				return true
			}
		}
	}
	return false
}
