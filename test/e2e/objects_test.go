//go:build e2e

package e2e

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// What is read of the cluster's objects, and no more.

type meta struct {
	Name            string            `json:"name"`
	ResourceVersion string            `json:"resourceVersion"`
	Generation      int64             `json:"generation"`
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
	Deletion        *time.Time        `json:"deletionTimestamp"`
	Owners          []struct {
		Name string `json:"name"`
	} `json:"ownerReferences"`
}

// version is the object's place in the order of all writes: the API server takes
// it from one counter for all that it keeps in one etcd, and so the order of
// writes to different objects is known exactly.
func (m meta) version() (int64, error) { return strconv.ParseInt(m.ResourceVersion, 10, 64) }

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

func holds(all []condition, kind string) bool {
	return slices.ContainsFunc(all, func(c condition) bool { return c.Type == kind && c.Status == "True" })
}

const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	hashLabel          = "pod-template-hash"
)

type podTemplate struct {
	Spec struct {
		Containers []struct {
			Image string `json:"image"`
		} `json:"containers"`
	} `json:"spec"`
}

func (p podTemplate) image() string {
	if len(p.Spec.Containers) == 0 {
		return ""
	}
	return p.Spec.Containers[0].Image
}

type deploymentObject struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Replicas int             `json:"replicas"`
		Template json.RawMessage `json:"template"`
	} `json:"spec"`
	Status struct {
		Observed  int64 `json:"observedGeneration"`
		Replicas  int   `json:"replicas"`
		Updated   int   `json:"updatedReplicas"`
		Ready     int   `json:"readyReplicas"`
		Available int   `json:"availableReplicas"`
	} `json:"status"`
}

// rolledOut reports that all pods have the template and are ready, and that no
// other pod is counted.
func (d deploymentObject) rolledOut() bool {
	s, n := d.Status, d.Spec.Replicas
	return s.Observed >= d.Metadata.Generation && s.Replicas == n && s.Updated == n && s.Ready == n && s.Available == n
}

type replicaSetObject struct {
	Metadata meta `json:"metadata"`
}

type podObject struct {
	Metadata meta `json:"metadata"`
	Status   struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

func (p podObject) track() string {
	switch p.Metadata.Labels["track"] {
	case "primary":
		return primary
	case "canary":
		return canary
	}
	return ""
}

func (p podObject) ready() bool {
	return p.Metadata.Deletion == nil && holds(p.Status.Conditions, "Ready")
}

// routeObject is a route of either kind.
type routeObject struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Rules []struct {
			Backends []struct {
				Name   string `json:"name"`
				Weight int    `json:"weight"`
			} `json:"backendRefs"`
		} `json:"rules"`
		HTTP []struct {
			Route []struct {
				Destination struct {
					Subset string `json:"subset"`
				} `json:"destination"`
				Weight int `json:"weight"`
			} `json:"route"`
		} `json:"http"`
	} `json:"spec"`
}

// weights are those of the tracks, in the first rule.
func (r routeObject) weights() (onPrimary, onCanary int) {
	add := func(isCanary bool, weight int) {
		if isCanary {
			onCanary += weight
			return
		}
		onPrimary += weight
	}
	if len(r.Spec.Rules) > 0 {
		for _, b := range r.Spec.Rules[0].Backends {
			add(b.Name == canary, b.Weight)
		}
	}
	if len(r.Spec.HTTP) > 0 {
		for _, d := range r.Spec.HTTP[0].Route {
			add(d.Destination.Subset == "canary", d.Weight)
		}
	}
	return onPrimary, onCanary
}
