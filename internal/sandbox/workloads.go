package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// Workloads reads and changes the World's Deployments. It fits
// engine.Workloads and engine.Watcher.
type Workloads struct{ c *cluster }

// Read looks at both Deployments. One that is another object by UID has unknown
// facts with the reason.
func (w *Workloads) Read(ctx context.Context, b release.Binding) ([2]release.TrackState, error) {
	var out [2]release.TrackState
	if err := answer(ctx); err != nil {
		return out, err
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for i, bound := range b.Tracks {
		d := w.c.deployments[i]
		if why := notBound(d, bound); why != "" {
			out[i] = unseenTrack(why)
			continue
		}
		out[i] = d.state(time.Now())
	}
	return out, nil
}

// notBound says why a Deployment is not the one that was admitted.
func notBound(d *deployment, bound release.BoundTrack) string {
	if bound.Namespace != Namespace || bound.Deployment != d.name {
		return fmt.Sprintf("Deployment %s/%s does not exist", bound.Namespace, bound.Deployment)
	}
	if bound.UID != d.uid {
		return fmt.Sprintf("Deployment %s/%s is another object: its UID is %s, not %s", Namespace, d.name, d.uid, bound.UID)
	}
	return ""
}

func unseenTrack(why string) release.TrackState {
	n := release.Unseen[int](why)
	return release.TrackState{
		Desired: n, Ready: n, Endpoints: n, Leaving: n, Stale: n, Floor: n,
		Pods: release.Unseen[[]string](why), Template: release.Unseen[release.Template](why),
	}
}

// state is the Deployment as a client of the API server sees it.
func (d *deployment) state(now time.Time) release.TrackState {
	live := d.live()
	var names []string
	ready, leaving, stale := 0, 0, 0
	for _, p := range d.pods {
		names = append(names, p.name)
		switch {
		case p.leaving:
			leaving++
			continue
		case p.ready:
			ready++
		}
		if p.set != live {
			stale++
		}
	}
	var history []release.Template
	for _, s := range d.history() {
		history = append(history, s.asTemplate())
	}
	return release.TrackState{
		UID:     d.uid,
		Desired: release.Known(d.replicas, now), Ready: release.Known(ready, now),
		Endpoints: release.Known(ready, now), Leaving: release.Known(leaving, now),
		Stale: release.Known(stale, now), Floor: release.Known(-1, now),
		Pods: release.Known(names, now), Template: release.Known(live.asTemplate(), now),
		History: history, Trouble: d.trouble(),
	}
}

// Scale sets a Deployment's replicas. When pods have to go, those named as
// spare go last.
func (w *Workloads) Scale(ctx context.Context, a release.Scale) error {
	return w.change(ctx, a, a.Track, a.UID, func(d *deployment) error {
		if a.Replicas < 0 || a.Replicas > maxReplicas {
			return fmt.Errorf("%w: replicas must be from 0 to %d", release.ErrRefused, maxReplicas)
		}
		d.replicas = a.Replicas
		d.spare = map[string]bool{}
		for _, name := range a.Spare {
			d.spare[name] = true
		}
		return nil
	})
}

// SetTemplate gives a Deployment a template of its own history; a rolling update
// follows. A live template equal to To means done, one that is neither From nor
// To is a conflict.
func (w *Workloads) SetTemplate(ctx context.Context, a release.SetTemplate) error {
	return w.change(ctx, a, a.Track, a.UID, func(d *deployment) error {
		live := d.live()
		if live.hash == a.To.Hash {
			return nil
		}
		if live.hash != a.From.Hash {
			return fmt.Errorf("%w: the live template is %s", release.ErrConflict, live.hash)
		}
		i := slices.IndexFunc(d.sets, func(s *replicaSet) bool {
			return s.hash == a.To.Hash && (a.To.UID == "" || a.To.UID == s.uid)
		})
		if i < 0 {
			return fmt.Errorf("%w: no ReplicaSet has template %s %s", release.ErrNotFound, a.To.Hash, a.To.UID)
		}
		d.template = d.sets[i].template
		return nil
	})
}

// Promote gives the containers of a Deployment other images; a rolling update
// follows. A template that has them means done, one that is not From is a conflict.
func (w *Workloads) Promote(ctx context.Context, a release.Promote) error {
	return w.change(ctx, a, a.Track, a.UID, func(d *deployment) error {
		image, ok := a.Images[container]
		if !ok || len(a.Images) != 1 {
			return fmt.Errorf("%w: the Deployment has the one container %q", release.ErrRefused, container)
		}
		live := d.live()
		switch {
		case live.template.Image == image:
			return nil
		case live.hash != a.From.Hash:
			return fmt.Errorf("%w: the live template is %s", release.ErrConflict, live.hash)
		}
		d.template = podTemplate{Labels: live.template.Labels, Image: image}
		return nil
	})
}

// Promotable finds nothing against a promote: images and labels are all that the
// templates here consist of, and every revision is kept.
func (w *Workloads) Promotable(ctx context.Context, _ release.Binding) error { return answer(ctx) }

// SetFloor answers ErrNotFound: nothing here has an autoscaler.
func (w *Workloads) SetFloor(ctx context.Context, a release.SetFloor) error {
	return w.change(ctx, a, a.Track, a.UID, func(*deployment) error {
		return fmt.Errorf("%w: the Deployment has no autoscaler", release.ErrNotFound)
	})
}

// change runs f on the Deployment with the UID and lets the controller work.
func (w *Workloads) change(ctx context.Context, a release.Action, t release.Track, uid string, f func(*deployment) error) error {
	if err := answer(ctx); err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	d := w.c.deployments[t]
	if uid != d.uid {
		return fmt.Errorf("%s: %w: Deployment %s/%s has UID %s, not %s", a, release.ErrNotFound, Namespace, d.name, d.uid, uid)
	}
	if w.c.closed {
		return fmt.Errorf("%s: %w: the sandbox is stopped", a, release.ErrUnavailable)
	}
	if err := f(d); err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	w.c.log.Info("a deployment was changed", "action", a.String())
	w.c.reconcile(d)
	return nil
}

// answer is the part of a call that can fail on the way to an API server.
func answer(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", release.ErrUnavailable, err)
	}
	return nil
}

// Watch tells that something in the World has changed.
func (w *Workloads) Watch(ctx context.Context, _ release.Binding) (<-chan struct{}, error) {
	return w.c.hub.listen(ctx), nil
}

// Resolve binds the tracks of a request to what is there. What is missing comes
// back as release.Finding, one for each track, joined.
func (w *Workloads) Resolve(ctx context.Context, namespace string, spec release.Spec) ([2]release.BoundTrack, error) {
	var out [2]release.BoundTrack
	if err := answer(ctx); err != nil {
		return out, err
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	var missing error
	for i, want := range spec.Tracks {
		d := w.c.deployments[i]
		if err := w.missing(namespace, d, want); err != nil {
			missing = errors.Join(missing, err)
			continue
		}
		out[i] = d.bind(want)
	}
	if missing != nil {
		return [2]release.BoundTrack{}, fmt.Errorf("resolving the tracks: %w", missing)
	}
	return out, nil
}

func (d *deployment) bind(want release.TrackSpec) release.BoundTrack {
	b := release.BoundTrack{
		Namespace: Namespace, Deployment: d.name, UID: d.uid, Replicas: d.replicas,
		Template: d.live().asTemplate(), Service: want.Service, Port: want.Port, Subset: want.Subset,
	}
	if s := d.undoTo(); s != nil {
		t := s.asTemplate()
		b.UndoTo = &t
	}
	return b
}

func (w *Workloads) missing(namespace string, d *deployment, want release.TrackSpec) error {
	at := "/" + d.track.String()
	if namespace != Namespace || want.Deployment != d.name {
		return release.Finding{
			Pointer: at + "/deployment", Code: "deploymentNotFound",
			Message: fmt.Sprintf("Deployment %s/%s does not exist", namespace, want.Deployment),
			Fix:     fmt.Sprintf("the sandbox's %s is %s/%s", d.track, Namespace, d.name),
		}
	}
	if want.Service != Service(d.track) {
		return release.Finding{
			Pointer: at + "/service", Code: "serviceNotFound",
			Message: fmt.Sprintf("Service %s/%s does not select the pods of Deployment %s", namespace, want.Service, d.name),
			Fix:     fmt.Sprintf("the sandbox's %s is %s/%s", d.track, Namespace, Service(d.track)),
		}
	}
	return nil
}

// deploy sets a track's image as another writer would, a pipeline for instance.
func (c *cluster) deploy(t release.Track, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.deployments[t]
	d.template = newTemplate(t, version)
	c.reconcile(d)
}
