package routing

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/shifter-dev/shifter/internal/release"
)

// This file reads what a route says beside its split: who has written it, and
// what its controllers answered.

// epoch is that of the last writer; 0 when there was none. One that cannot be
// read is an error, since what it fences off is not known.
func epoch(obj *unstructured.Unstructured) (uint64, error) {
	v, ok := field(obj, "annotations")[EpochAnnotation]
	if !ok {
		return 0, nil
	}
	s, _ := v.(string)
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("its annotation %s is %q, which is no epoch; if no other shifter writes it, remove it", EpochAnnotation, fmt.Sprint(v))
	}
	return n, nil
}

// marked is the release that the in-progress label names, empty without. A label
// of the same name that another namespace's release has set is told apart by the
// fence.
func marked(obj *unstructured.Unstructured, by release.Key) string {
	name, _ := field(obj, "labels")[ProgressLabel].(string)
	if name != by.Name || name == "" {
		return name
	}
	writer, _ := field(obj, "annotations")[ReleaseAnnotation].(string)
	if ns, wrote, ok := strings.Cut(writer, "/"); ok && wrote == name && ns != by.Namespace {
		return writer
	}
	return name
}

// foreign is the manager that last wrote the rules, empty when we did. The rules
// are one atomic field, so whoever changes anything in them owns them from then
// on, and whoever writes the same owns them too.
func foreign(obj *unstructured.Unstructured, rules string) string {
	entries, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "managedFields")
	list, _ := entries.([]any)
	by, last := "", time.Time{}
	for i := range list {
		e := at(list, i)
		if sub, _ := e["subresource"].(string); sub != "" || !owns(e, rules) {
			continue
		}
		name, _ := e["manager"].(string)
		if name == Manager {
			return ""
		}
		stamp, _ := e["time"].(string)
		when, err := time.Parse(time.RFC3339, stamp)
		if by == "" || err == nil && !when.Before(last) {
			by, last = name, when
		}
	}
	return by
}

func owns(entry map[string]any, rules string) bool {
	_, ok, err := unstructured.NestedFieldNoCopy(entry, "fieldsV1", "f:spec", "f:"+rules)
	return ok && err == nil
}

// routeStatus is what the Gateway API says of acceptance.
type routeStatus struct {
	Spec struct {
		ParentRefs []gwapiv1.ParentReference `json:"parentRefs"`
	} `json:"spec"`
	Status struct {
		Parents []gwapiv1.RouteParentStatus `json:"parents"`
	} `json:"status"`
}

// acceptance folds the answers of the controllers about the present generation,
// for every parent of the spec: one refusal refuses, all confirmed confirms, and
// whatever is not said yet is unknown. A VirtualService has no such status.
func acceptance(obj *unstructured.Unstructured, k kind) (release.Acceptance, string) {
	if !k.gateway() {
		return release.AcceptedUnknown, ""
	}
	var in routeStatus
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{
		"spec":   map[string]any{"parentRefs": nested(obj, "spec", "parentRefs")},
		"status": map[string]any{"parents": nested(obj, "status", "parents")},
	}, &in)
	if err != nil || len(in.Spec.ParentRefs) == 0 {
		return release.AcceptedUnknown, ""
	}
	all := release.AcceptedYes
	var refusals []string
	for _, want := range in.Spec.ParentRefs {
		answered := false
		for _, p := range in.Status.Parents {
			if parent(p.ParentRef, obj.GetNamespace()) != parent(want, obj.GetNamespace()) {
				continue
			}
			answered = true
			said, refusal := answer(p.Conditions, obj.GetGeneration())
			if refusal != "" {
				refusals = append(refusals, fmt.Sprintf("%s, for %s %s: %s", p.ControllerName, kindName(want), want.Name, refusal))
			}
			if !said {
				all = release.AcceptedUnknown
			}
		}
		if !answered {
			all = release.AcceptedUnknown
		}
	}
	if len(refusals) > 0 {
		return release.AcceptedRefused, strings.Join(refusals, "; ")
	}
	return all, ""
}

func nested(obj *unstructured.Unstructured, fields ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, fields...)
	return v
}

// answer reads one controller's conditions. Those about an older generation say
// nothing of this one. PartiallyInvalid means that rules were dropped, or that
// an older state is served.
func answer(conds []metav1.Condition, generation int64) (said bool, refusal string) {
	yes := map[string]bool{}
	for _, c := range conds {
		if c.ObservedGeneration < generation {
			continue
		}
		switch c.Type {
		case string(gwapiv1.RouteConditionAccepted), string(gwapiv1.RouteConditionResolvedRefs):
			yes[c.Type] = c.Status == metav1.ConditionTrue
			if c.Status == metav1.ConditionFalse {
				refusal = fmt.Sprintf("%s: %s", c.Reason, c.Message)
			}
		case string(gwapiv1.RouteConditionPartiallyInvalid):
			if c.Status == metav1.ConditionTrue {
				refusal = fmt.Sprintf("%s: %s", c.Reason, c.Message)
			}
		}
	}
	return yes[string(gwapiv1.RouteConditionAccepted)] && yes[string(gwapiv1.RouteConditionResolvedRefs)], refusal
}

// parentID is a reference to a parent with its defaults filled in.
type parentID struct {
	group, kind, namespace, name, section string
	port                                  int32
}

func parent(ref gwapiv1.ParentReference, namespace string) parentID {
	id := parentID{group: gatewayGroup, kind: kindName(ref), namespace: namespace, name: string(ref.Name)}
	if ref.Group != nil {
		id.group = string(*ref.Group)
	}
	if ref.Namespace != nil {
		id.namespace = string(*ref.Namespace)
	}
	if ref.SectionName != nil {
		id.section = string(*ref.SectionName)
	}
	if ref.Port != nil {
		id.port = *ref.Port
	}
	return id
}

func kindName(ref gwapiv1.ParentReference) string {
	if ref.Kind != nil {
		return string(*ref.Kind)
	}
	return "Gateway"
}
