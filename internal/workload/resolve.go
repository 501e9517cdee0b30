package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/release"
)

// Resolve binds the tracks of a request to what is there. What is missing or
// does not fit comes back as release.Finding, joined.
func (w *Workloads) Resolve(ctx context.Context, namespace string, spec release.Spec) ([2]release.BoundTrack, error) {
	r := resolver{w: w, namespace: namespace, spec: spec}
	for i := range spec.Tracks {
		if err := r.track(ctx, release.Track(i)); err != nil {
			return [2]release.BoundTrack{}, fmt.Errorf("resolving the tracks: %w", err)
		}
	}
	r.overlap()
	if err := r.others(ctx); err != nil {
		return [2]release.BoundTrack{}, fmt.Errorf("resolving the tracks: %w", err)
	}
	if len(r.found) > 0 {
		return [2]release.BoundTrack{}, fmt.Errorf("resolving the tracks: %w", errors.Join(r.found...))
	}
	return [2]release.BoundTrack{r.tracks[0].bind(spec.Tracks[0]), r.tracks[1].bind(spec.Tracks[1])}, nil
}

// resolver gathers what there is of both tracks, and what is wrong with it.
type resolver struct {
	w         *Workloads
	namespace string
	spec      release.Spec
	tracks    [2]candidate
	found     []error
}

// candidate is a track as it was found; known is false when it was not.
type candidate struct {
	snapshot

	service service
	known   bool
}

type service struct {
	Spec struct {
		Selector map[string]string    `json:"selector"`
		Ports    []corev1.ServicePort `json:"ports"`
	} `json:"spec"`
}

func (c candidate) bind(want release.TrackSpec) release.BoundTrack {
	d := c.deployment
	live, _ := d.live(c.sets)
	return release.BoundTrack{
		Namespace: d.Metadata.Namespace, Deployment: d.Metadata.Name, UID: string(d.Metadata.UID), Replicas: d.replicas(),
		Template: live.asTemplate(), UndoTo: d.undoTo(c.sets, live),
		Service: want.Service, Port: want.Port, Subset: want.Subset,
	}
}

// find adds a finding about a field of a track.
func (r *resolver) find(t release.Track, field, code, fix, format string, args ...any) {
	r.found = append(r.found, release.Finding{
		Pointer: fmt.Sprintf("/%s/%s", t, field), Code: code, Fix: fix, Message: fmt.Sprintf(format, args...),
	})
}

// unless turns an error that somebody can do something about into a finding,
// and returns any other.
func (r *resolver) unless(err error, t release.Track, field, code, what string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, release.ErrNotFound):
		r.find(t, field, code, "correct the name or the namespace, or create it first", "%s does not exist", what)
		return nil
	case errors.Is(err, release.ErrForbidden):
		r.find(t, field, "forbidden", "grant shifter's service account what its manifests list, in namespace "+r.namespace, "%s may not be read: %v", what, err)
		return nil
	}
	return err
}

// track gathers one track and judges it alone.
func (r *resolver) track(ctx context.Context, t release.Track) error {
	want := r.spec.Tracks[t]
	n := name{r.namespace, want.Deployment}
	live := source{w: r.w}
	obj, now, err := live.one(ctx, n)
	if err != nil {
		return r.unless(err, t, "deployment", "deploymentNotFound", n.String())
	}
	c := candidate{}
	if c.snapshot, err = live.snapshot(ctx, obj, want.Service, now); err != nil {
		return r.unless(err, t, "deployment", "deploymentNotFound", "what belongs to "+n.String())
	}
	what := fmt.Sprintf("Service %s/%s", r.namespace, want.Service)
	obj, err = r.w.get(ctx, services, r.namespace, want.Service)
	if err == nil {
		err = decode(obj, &c.service)
	}
	if err != nil {
		return r.unless(err, t, "service", "serviceNotFound", what)
	}
	c.known = true
	r.tracks[t] = c
	r.w.remember(string(c.deployment.Metadata.UID), n)
	r.deployment(t, n, c)
	r.service(t, what, n, c)
	return r.mayScale(ctx, t, n)
}

// deployment judges the Deployment itself.
func (r *resolver) deployment(t release.Track, n name, c candidate) {
	d := c.deployment
	if by := metav1.GetControllerOfNoCopy(&d.Metadata); by != nil {
		r.find(t, "deployment", "ownedByController", "name a Deployment that only its own pipeline writes, or take it out of that controller's hands",
			"%s is controlled by %s %s (%s), which would undo what shifter writes", n, by.Kind, by.Name, by.APIVersion)
	}
	if d.Spec.Paused {
		r.find(t, "deployment", "paused", fmt.Sprintf("kubectl rollout resume deployment/%s -n %s", n.deployment, n.namespace),
			"%s is paused, so its template could not be undone", n)
	}
	live, ok := d.live(c.sets)
	if !ok {
		r.find(t, "deployment", "templateUnknown", "wait until the Deployment controller has seen the last change, and look at its events if it does not",
			"%s has no ReplicaSet of its template yet", n)
		return
	}
	if r.spec.Preset == "dev" {
		return // what latest is may change under a developer's hands
	}
	back := d.undoTo(c.sets, live)
	if back == nil {
		return
	}
	now := live.template.images()
	for _, container := range sortedKeys(now) {
		was, kept := back.Images[container]
		if kept && was == now[container] {
			continue
		}
		for _, image := range []string{now[container], was} {
			if image != "" && floating(image) {
				r.find(t, "deployment", "latestImage", "deploy it by a tag of its own or by digest",
					"container %s of %s changes between %q and %q: what %q is, nobody can say afterwards", container, n, was, now[container], image)
				break
			}
		}
	}
}

// floating reports an image that may be another one tomorrow by its very name.
func floating(image string) bool {
	if strings.Contains(image, "@") {
		return false
	}
	base := image[strings.LastIndex(image, "/")+1:]
	_, tag, tagged := strings.Cut(base, ":")
	return !tagged || tag == "latest"
}

// service judges whether the track's traffic reaches its pods.
func (r *resolver) service(t release.Track, what string, n name, c candidate) {
	sel := c.service.Spec.Selector
	switch {
	case len(sel) == 0:
		r.find(t, "service", "serviceWithoutSelector", "name a Service that selects the pods", "%s has no selector, so its endpoints are not those of %s", what, n)
		return
	case !labels.SelectorFromSet(sel).Matches(c.deployment.template.labels()):
		r.find(t, "service", "serviceSelectsOthers", "correct the Service or the Deployment of the track",
			"%s (%s) does not select the pods of %s (%s)", what, labels.FormatLabels(sel), n, labels.FormatLabels(c.deployment.template.labels()))
		return
	}
	port := r.spec.Tracks[t].Port
	has := func(p corev1.ServicePort) bool { return p.Port == port }
	if port != 0 && !slices.ContainsFunc(c.service.Spec.Ports, has) {
		r.find(t, "port", "servicePort", "name a port of the Service", "%s has no port %d", what, port)
	}
}

// overlap judges the tracks against each other: a pod must be of one only.
func (r *resolver) overlap() {
	if !r.tracks[0].known || !r.tracks[1].known {
		return
	}
	for t := release.Primary; t <= release.Canary; t++ {
		c, o := r.tracks[t], r.tracks[t.Other()]
		other := o.deployment.template.labels()
		if c.deployment.selector.Matches(other) {
			r.find(t, "deployment", "selectorsOverlap", "give the pods of the two Deployments a label with different values, in selectors and templates",
				"the selector of Deployment %s (%s) also selects the pods of Deployment %s", c.deployment.Metadata.Name, c.deployment.selector, o.deployment.Metadata.Name)
		}
		// A subset narrows its Service down by the DestinationRule.
		if r.spec.Tracks[t].Subset == "" && len(c.service.Spec.Selector) > 0 && labels.SelectorFromSet(c.service.Spec.Selector).Matches(other) {
			r.find(t, "service", "serviceSelectsBoth", "give the Service a label that only the pods of its track have, or use subsets of a VirtualService",
				"Service %s/%s (%s) of the %s also selects the pods of the %s, so the weights would not split the traffic",
				r.namespace, r.spec.Tracks[t].Service, labels.FormatLabels(c.service.Spec.Selector), t, t.Other())
		}
	}
}

// writer is a kind of object that would write a Deployment which it names.
type writer struct {
	resource schema.GroupVersionResource
	path     []string // of the reference
	required bool     // to be known
	code     string
	says     string
	fix      string
}

func writers() []writer {
	const (
		sized  = "delete it for the time of the release and set the replicas by hand"
		undoes = ", which would undo what shifter writes"
	)
	return []writer{
		{autoscalers, []string{"spec", "scaleTargetRef"}, true, "autoscaler", "%s is sized by HorizontalPodAutoscaler %s, and this version does not steer autoscalers", sized},
		{scaledObjects, []string{"spec", "scaleTargetRef"}, false, "autoscaler", "%s is sized by KEDA's ScaledObject %s, and this version does not steer autoscalers", sized},
		{canaries, []string{"spec", "targetRef"}, false, "ownedByController", "%s is the target of Flagger's Canary %s" + undoes, "delete the Canary, or leave the release to Flagger"},
		{rollouts, []string{"spec", "workloadRef"}, false, "ownedByController", "%s is the workload of Argo's Rollout %s" + undoes, "name a Deployment without a Rollout, or leave the release to Argo Rollouts"},
	}
}

// others looks for who else would write the Deployments. A tool that is not
// installed, or whose objects may not be listed, is left out; its autoscalers are
// seen anyway, as HorizontalPodAutoscalers.
func (r *resolver) others(ctx context.Context) error {
	for _, o := range writers() {
		list, err := r.w.list(ctx, o.resource, r.namespace, "")
		switch {
		case err == nil:
		case errors.Is(err, release.ErrNotFound), errors.Is(err, release.ErrForbidden) && !o.required:
			continue
		default:
			if err := r.unless(err, release.Primary, "deployment", o.code, "the list of "+o.resource.GroupResource().String()); err != nil {
				return err
			}
		}
		for _, other := range list {
			for t := release.Primary; t <= release.Canary; t++ {
				if n := (name{r.namespace, r.spec.Tracks[t].Deployment}); refers(other, o.path, n.deployment) {
					r.find(t, "deployment", o.code, o.fix, o.says, n, other.GetName())
				}
			}
		}
	}
	return nil
}

// refers reports whether a reference names the Deployment; KEDA's need not say
// the kind.
func refers(o unstructured.Unstructured, path []string, deployment string) bool {
	v, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	ref, _ := v.(map[string]any)
	kind, _ := ref["kind"].(string)
	return (kind == "" || kind == "Deployment") && ref["name"] == deployment
}

// mayScale asks whether the Deployment may be sized. The right to undo is not
// asked for here, since a release without it is possible, and says so at its end.
func (r *resolver) mayScale(ctx context.Context, t release.Track, n name) error {
	denied, err := r.w.denied(ctx, n, "update", "scale")
	if denied {
		r.find(t, "deployment", "forbidden", "grant shifter's service account get and update on deployments/scale in namespace "+n.namespace,
			"shifter has no right to scale %s", n)
	}
	return err
}

// denied asks whether we are denied a right on a Deployment. No answer is no
// denial: the first write will show it.
func (w *Workloads) denied(ctx context.Context, n name, verb, subresource string) (bool, error) {
	if err := kube.Ended(ctx); err != nil {
		return false, err
	}
	denied, err := kube.Denied(ctx, w.client, w.cfg.Timeout, kube.Right{
		Verb: verb, Resource: deployments, Subresource: subresource, Namespace: n.namespace, Name: n.deployment,
	})
	if err != nil {
		w.cfg.Logger.Debug("a right could not be asked for", "verb", verb, "deployment", n.String(), "err", err)
	}
	return denied, nil
}
