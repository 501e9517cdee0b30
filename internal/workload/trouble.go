package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/shifter-dev/shifter/internal/release"
)

// The times after which waiting is taken as trouble of another kind.
const (
	// pullPatience is how long an image may fail to be pulled: a registry that is
	// away for a moment comes back, a wrong name does not.
	pullPatience = 2 * time.Minute
	// readyPatience is how long a pod whose containers all run may be unready
	// before that is called trouble.
	readyPatience = 20 * time.Second
	// maxTrouble bounds the list; the worst come first.
	maxTrouble = 10
)

// trouble lists why pods do not become ready, terminal reasons first. It goes by
// what the API server keeps in status, so that nothing is lost when events are.
func (s snapshot) trouble() []release.Trouble {
	var out []release.Trouble
	for _, r := range s.sets {
		out = append(out, r.trouble()...)
	}
	for _, p := range s.pods {
		if p.leaving() || p.ready() {
			continue
		}
		if t, bad := p.trouble(s.at); bad {
			t.Pod, t.Template = p.Metadata.Name, p.set.hash()
			out = append(out, t)
		}
	}
	out = append(out, s.deployment.trouble(s.sets)...)
	slices.SortStableFunc(out, func(a, b release.Trouble) int { return cmp.Compare(rank(a), rank(b)) })
	return out[:min(len(out), maxTrouble)]
}

func rank(t release.Trouble) int {
	if t.Kind == release.TroubleTerminal {
		return 0
	}
	return 1
}

// trouble of a ReplicaSet is that its pods cannot even be made: quota, limits,
// admission.
func (s replicaSet) trouble() []release.Trouble {
	var out []release.Trouble
	for _, c := range s.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			out = append(out, release.Trouble{Kind: refusalKind(c.Message), Reason: c.Reason, Message: c.Message, Template: s.hash()})
		}
	}
	return out
}

// refusalKind tells a refusal from a failure. The condition has the API server's
// words only, so this is the one place that reads words; when they are not known
// it is worth waiting.
func refusalKind(message string) release.TroubleKind {
	for _, words := range []string{"exceeded quota", "is forbidden", "denied the request", "is invalid"} {
		if strings.Contains(message, words) {
			return release.TroubleTerminal
		}
	}
	return release.TroubleRetryable
}

// trouble of a Deployment is that it gave up waiting for its live template.
func (d deployment) trouble(sets []replicaSet) []release.Trouble {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			t := release.Trouble{Kind: release.TroubleRetryable, Reason: c.Reason, Message: c.Message}
			if live, ok := d.live(sets); ok {
				t.Template = live.hash()
			}
			return []release.Trouble{t}
		}
	}
	return nil
}

// trouble of a pod: it has no place, a container does not start or does not
// stay, or it runs and is not ready.
func (p pod) trouble(now time.Time) (release.Trouble, bool) {
	if c := p.condition(corev1.PodScheduled); c.Status == corev1.ConditionFalse {
		return release.Trouble{Kind: release.TroubleRetryable, Reason: cmp.Or(c.Reason, corev1.PodReasonUnschedulable), Message: c.Message}, true
	}
	age := now.Sub(p.Metadata.CreationTimestamp.Time)
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if t, bad := containerTrouble(c, age); bad {
			return t, true
		}
	}
	return p.unready(now)
}

func containerTrouble(c corev1.ContainerStatus, age time.Duration) (release.Trouble, bool) {
	t := release.Trouble{Kind: release.TroubleRetryable}
	switch w, end := c.State.Waiting, c.State.Terminated; {
	case w != nil:
		kind, bad := waitingKind(w.Reason, age)
		if !bad {
			return t, false
		}
		t.Kind, t.Reason = kind, w.Reason
		t.Message = fmt.Sprintf("container %s: %s", c.Name, w.Message)
		if last := c.LastTerminationState.Terminated; last != nil {
			t.Message += "; it " + ended(last)
		}
	case end != nil && end.ExitCode != 0:
		t.Reason = cmp.Or(end.Reason, "Error")
		t.Message = fmt.Sprintf("container %s %s", c.Name, ended(end))
	default:
		return t, false
	}
	return t, true
}

// ended tells how a container ended, without its message: that may hold lines of
// its log.
func ended(t *corev1.ContainerStateTerminated) string {
	s := fmt.Sprintf("ended with exit code %d", t.ExitCode)
	if t.Reason != "" {
		s += " (" + t.Reason + ")"
	}
	return s
}

// waitingKind judges the reason for which a container waits. Those that every
// start goes through are none.
func waitingKind(reason string, age time.Duration) (kind release.TroubleKind, bad bool) {
	switch reason {
	case "", "ContainerCreating", "PodInitializing":
		return "", false
	case "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError":
		return release.TroubleTerminal, true
	case "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
		if age >= pullPatience {
			return release.TroubleTerminal, true
		}
	}
	return release.TroubleRetryable, true
}

// unready is trouble when all containers have run for a while.
func (p pod) unready(now time.Time) (release.Trouble, bool) {
	since := p.Metadata.CreationTimestamp.Time
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running == nil {
			return release.Trouble{}, false
		}
		if at := c.State.Running.StartedAt.Time; at.After(since) {
			since = at
		}
	}
	c := p.condition(corev1.PodReady)
	if c.Status != corev1.ConditionFalse || now.Sub(since) < readyPatience {
		return release.Trouble{}, false
	}
	return release.Trouble{Kind: release.TroubleRetryable, Reason: cmp.Or(c.Reason, "NotReady"), Message: c.Message}, true
}
