package workload

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shifter-dev/shifter/internal/release"
)

const (
	hashLabel           = appsv1.DefaultDeploymentUniqueLabelKey
	revisionAnnotation  = "deployment.kubernetes.io/revision"
	restartedAnnotation = "kubectl.kubernetes.io/restartedAt"
)

// podTemplate is a pod template as it lies in the API.
type podTemplate map[string]any

// deployment is what is read of a Deployment.
type deployment struct {
	deploymentFields

	selector labels.Selector
	template podTemplate
}

type deploymentFields struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Replicas             *int32                `json:"replicas"`
		Paused               bool                  `json:"paused"`
		Selector             *metav1.LabelSelector `json:"selector"`
		RevisionHistoryLimit *int32                `json:"revisionHistoryLimit"`
	} `json:"spec"`
	Status struct {
		Conditions []appsv1.DeploymentCondition `json:"conditions"`
	} `json:"status"`
}

func (d deployment) replicas() int {
	if d.Spec.Replicas == nil {
		return 1 // the default of the API
	}
	return int(*d.Spec.Replicas)
}

func readDeployment(obj *unstructured.Unstructured) (deployment, error) {
	var d deployment
	if err := decode(obj, &d.deploymentFields); err != nil {
		return d, err
	}
	var err error
	if d.selector, err = metav1.LabelSelectorAsSelector(d.Spec.Selector); err != nil {
		return d, fmt.Errorf("the selector of Deployment %s/%s cannot be read: %w", d.Metadata.Namespace, d.Metadata.Name, err)
	}
	if d.selector.Empty() || d.selector.String() == "" { // it would list the whole namespace
		return d, fmt.Errorf("the Deployment %s/%s has no selector", d.Metadata.Namespace, d.Metadata.Name)
	}
	d.template = templateOf(obj)
	return d, nil
}

// replicaSet is what is read of a ReplicaSet.
type replicaSet struct {
	replicaSetFields

	template podTemplate
}

type replicaSetFields struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		Conditions []appsv1.ReplicaSetCondition `json:"conditions"`
	} `json:"status"`
}

func readReplicaSet(obj *unstructured.Unstructured) (replicaSet, error) {
	var s replicaSet
	if err := decode(obj, &s.replicaSetFields); err != nil {
		return s, err
	}
	s.template = templateOf(obj)
	return s, nil
}

func templateOf(obj *unstructured.Unstructured) podTemplate {
	v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "template")
	t, _ := v.(map[string]any)
	return t
}

// hash names the set's template.
func (s replicaSet) hash() string {
	if h := s.Metadata.Labels[hashLabel]; h != "" {
		return h
	}
	return s.Metadata.Name
}

func (s replicaSet) revision() int64 {
	n, err := strconv.ParseInt(s.Metadata.Annotations[revisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (s replicaSet) asTemplate() release.Template {
	return release.Template{Hash: s.hash(), UID: string(s.Metadata.UID), Revision: s.revision(), Images: s.template.images()}
}

// controlledBy is the UID of an object's controller, empty without one.
func controlledBy(m metav1.ObjectMeta) types.UID {
	if c := metav1.GetControllerOfNoCopy(&m); c != nil {
		return c.UID
	}
	return ""
}

// labels are those of the pods.
func (t podTemplate) labels() labels.Set {
	m, _, _ := unstructured.NestedStringMap(t, "metadata", "labels")
	return m
}

// images are the images of all containers, by container.
func (t podTemplate) images() map[string]string {
	out := map[string]string{}
	for _, list := range []string{"initContainers", "containers"} {
		cs, _, _ := unstructured.NestedFieldNoCopy(t, "spec", list)
		items, _ := cs.([]any)
		for _, c := range items {
			c, _ := c.(map[string]any)
			name, _ := c["name"].(string)
			image, _ := c["image"].(string)
			out[name] = image
		}
	}
	return out
}

// bare is the template without what a controller adds to it, and without some
// annotations. It shares everything else.
func (t podTemplate) bare(annotations ...string) podTemplate {
	out := maps.Clone(t)
	meta, _ := t["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	for field, keys := range map[string][]string{"labels": {hashLabel}, "annotations": annotations} {
		m, _ := meta[field].(map[string]any)
		m = maps.Clone(m)
		for _, k := range keys {
			delete(m, k)
		}
		if len(m) == 0 {
			delete(meta, field)
			continue
		}
		meta[field] = m
	}
	if meta["creationTimestamp"] == nil {
		delete(meta, "creationTimestamp")
	}
	if len(meta) == 0 {
		delete(out, "metadata")
		return out
	}
	out["metadata"] = meta
	return out
}

// same reports whether two templates are one to the Deployment controller.
func (t podTemplate) same(o podTemplate) bool { return reflect.DeepEqual(t.bare(), o.bare()) }

// sameVersion reports whether two templates differ in nothing but a restart:
// going back to one of them brings nothing back.
func (t podTemplate) sameVersion(o podTemplate) bool {
	return reflect.DeepEqual(t.bare(restartedAnnotation), o.bare(restartedAnnotation))
}

// live is the set that has the Deployment's template: of several, the oldest, as
// the Deployment controller takes it. There is none until that has made it.
func (d deployment) live(sets []replicaSet) (replicaSet, bool) {
	var out replicaSet
	found := false
	for _, s := range sets {
		older := s.Metadata.CreationTimestamp.Before(&out.Metadata.CreationTimestamp)
		if s.template.same(d.template) && (!found || older) {
			out, found = s, true
		}
	}
	return out, found
}

// newestFirst sorts sets by revision.
func newestFirst(sets []replicaSet) []replicaSet {
	return slices.SortedFunc(slices.Values(sets), func(a, b replicaSet) int { return cmp.Compare(b.revision(), a.revision()) })
}

// undoTo is the newest older set with another version, if an undo would still
// find it: a Deployment that keeps no history will lose it.
func (d deployment) undoTo(sets []replicaSet, live replicaSet) *release.Template {
	if l := d.Spec.RevisionHistoryLimit; l != nil && *l == 0 {
		return nil
	}
	for _, s := range newestFirst(sets) {
		if s.revision() < live.revision() && !s.template.sameVersion(live.template) {
			t := s.asTemplate()
			return &t
		}
	}
	return nil
}
