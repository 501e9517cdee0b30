package workload

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shifter-dev/shifter/internal/release"
)

// snapshot is a Deployment and what belongs to it, as it was read at one time.
// Its facts are pure.
type snapshot struct {
	at         time.Time
	deployment deployment
	sets       []replicaSet // owned, in any order
	pods       []pod        // of the owned sets, without those that are over
	endpoints  map[types.UID]bool
}

// pod is what is read of a pod.
type pod struct {
	podFields

	set replicaSet
}

type podFields struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   corev1.PodStatus  `json:"status"`
}

// addPod takes a pod in that one of the owned sets controls. Others that the
// selector reaches are somebody else's, and a pod that has ended serves nobody.
func (s *snapshot) addPod(obj *unstructured.Unstructured) error {
	var p pod
	if err := decode(obj, &p.podFields); err != nil {
		return err
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	by := controlledBy(p.Metadata)
	i := slices.IndexFunc(s.sets, func(r replicaSet) bool { return r.Metadata.UID == by })
	if i < 0 {
		return nil
	}
	p.set = s.sets[i]
	s.pods = append(s.pods, p)
	return nil
}

// addEndpoints takes the pods in that a slice says can be sent requests. One pod
// may stand in several slices.
func (s *snapshot) addEndpoints(obj *unstructured.Unstructured) error {
	var slice struct {
		Endpoints []discoveryv1.Endpoint `json:"endpoints"`
	}
	if err := decode(obj, &slice); err != nil {
		return err
	}
	if s.endpoints == nil {
		s.endpoints = map[types.UID]bool{}
	}
	for _, e := range slice.Endpoints {
		c := e.Conditions
		ready := c.Ready == nil || *c.Ready // absent counts as ready
		leaving := c.Terminating != nil && *c.Terminating
		if ready && !leaving && e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
			s.endpoints[e.TargetRef.UID] = true
		}
	}
	return nil
}

func (p pod) leaving() bool { return p.Metadata.DeletionTimestamp != nil }

func (p pod) condition(kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func (p pod) ready() bool {
	return !p.leaving() && p.condition(corev1.PodReady).Status == corev1.ConditionTrue
}

// state is what the snapshot says of the track.
func (s snapshot) state() release.TrackState {
	live, known := s.deployment.live(s.sets)
	var ready, endpoints, leaving, stale int
	names := make([]string, 0, len(s.pods))
	for _, p := range s.pods {
		names = append(names, p.Metadata.Name)
		if p.leaving() {
			leaving++
			continue
		}
		if p.ready() {
			ready++
		}
		if s.endpoints[p.Metadata.UID] {
			endpoints++
		}
		if !known || p.set.Metadata.UID != live.Metadata.UID {
			stale++
		}
	}
	out := release.TrackState{
		UID:       string(s.deployment.Metadata.UID),
		Desired:   release.Known(s.deployment.replicas(), s.at),
		Ready:     release.Known(ready, s.at),
		Endpoints: release.Known(endpoints, s.at),
		Leaving:   release.Known(leaving, s.at),
		Stale:     release.Known(stale, s.at),
		// Resolve refuses tracks with an autoscaler. One that comes later shows
		// itself by the replicas that it writes.
		Floor:    release.Known(-1, s.at),
		Pods:     release.Known(names, s.at),
		Template: release.Unseen[release.Template]("the Deployment controller has not made the ReplicaSet of its template yet"),
		Trouble:  s.trouble(),
	}
	if known {
		out.Template = release.Known(live.asTemplate(), s.at)
	}
	for _, r := range newestFirst(s.sets) {
		out.History = append(out.History, r.asTemplate())
	}
	return out
}
