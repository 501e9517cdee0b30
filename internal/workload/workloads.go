package workload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/release"
)

// Manager is the field manager of every write.
const Manager = "shifter"

// Config is what a cluster may need to have said. The zero value is good.
type Config struct {
	// Timeout bounds each call, within its caller's deadline; zero means 10 s.
	Timeout time.Duration
	// Mirrors says how long what Watch follows is kept, and what is waited for; its
	// Timeout, Strip and Logger are ours.
	Mirrors kube.MirrorsConfig
	// Logger is told of what is not worth an error; nil discards.
	Logger *slog.Logger
}

// Workloads reads and changes Deployments in a cluster.
type Workloads struct {
	client  dynamic.Interface
	cfg     Config
	mirrors *kube.Mirrors

	mu sync.Mutex
	// names are the Deployments that releases were bound to, by UID: an action
	// names the UID only. It has an entry for each Deployment that was ever bound,
	// so it is as large as the cluster at most.
	names map[string]name
}

type name struct{ namespace, deployment string }

func (n name) String() string { return fmt.Sprintf("Deployment %s/%s", n.namespace, n.deployment) }

// New makes Workloads on a client.
func New(client dynamic.Interface, cfg Config) *Workloads {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Mirrors.Timeout, cfg.Mirrors.Strip, cfg.Mirrors.Logger = cfg.Timeout, strip, cfg.Logger
	return &Workloads{client: client, cfg: cfg, mirrors: kube.NewMirrors(client, cfg.Mirrors), names: map[string]name{}}
}

func (w *Workloads) remember(uid string, n name) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[uid] = n
}

// named finds the Deployment that an action means.
func (w *Workloads) named(uid string) (name, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.names[uid]
	if !ok {
		return n, fmt.Errorf("%w: the Deployment with UID %s was not read before", release.ErrConflict, uid)
	}
	return n, nil
}

// Read looks at both Deployments at once. One that is gone, or another object by
// UID, has unknown facts with the reason.
//
// While a Watch of them lasts, whatever has a mirror that is current (see
// [kube.Mirrors]) is read from there and costs no call; the rest is read live. A
// fact is as old as the look in both: a mirror that is current would have heard of
// a change, so what it shows is so now, however long ago it last changed. The four
// reads of a track are not of one moment, live or not: the Deployment comes first,
// so what belongs to it may be newer, and with mirrors older by what they lag.
// Counts then are those of a moment before, as they are when a controller lags.
//
// That is good enough for a look right before an effect. A size is written to the
// version that was read live for it, so that nobody has touched the Deployment in
// between, and not where it is another one than the mirror shows; and an undo is one patch that tests the UID and the version of a
// Deployment that was read live, with its ReplicaSets, and whose template was the
// one to go. What a mirror shows is never older than what this process last wrote
// to the Deployment. What the API server cannot test for us, with a live look
// neither, is what another object says: that the pods of a track are ready and its
// template is the judged one when a route's weight for it is raised, and a route's
// weights when a track is made smaller (see Read in package routing). Pods die
// between any look and its effect; a look that lags costs as much more as
// [kube.Mirrors] says, and the next turn goes back on what it sees then.
func (w *Workloads) Read(ctx context.Context, b release.Binding) ([2]release.TrackState, error) {
	if err := kube.Ended(ctx); err != nil {
		return [2]release.TrackState{}, fmt.Errorf("reading the Deployments: %w", err)
	}
	src := source{w, w.mirrors.Patience()}
	var out [2]release.TrackState
	var errs [2]error
	var both sync.WaitGroup
	for i, t := range b.Tracks {
		both.Go(func() { out[i], errs[i] = w.look(ctx, src, t) })
	}
	both.Wait()
	if err := errors.Join(errs[0], errs[1]); err != nil {
		return [2]release.TrackState{}, err
	}
	return out, nil
}

func (w *Workloads) look(ctx context.Context, src source, t release.BoundTrack) (release.TrackState, error) {
	n := name{t.Namespace, t.Deployment}
	w.remember(t.UID, n)
	obj, now, err := src.one(ctx, n)
	switch {
	case errors.Is(err, release.ErrNotFound):
		return unseen(fmt.Sprintf("%s does not exist", n)), nil
	case err != nil:
		return release.TrackState{}, err
	case string(obj.GetUID()) != t.UID:
		s := unseen(another(n, obj, t.UID))
		s.UID = string(obj.GetUID())
		return s, nil
	}
	snap, err := src.snapshot(ctx, obj, t.Service, now)
	if err != nil {
		return release.TrackState{}, err
	}
	return snap.state(), nil
}

func unseen(why string) release.TrackState {
	n := release.Unseen[int](why)
	return release.TrackState{
		Desired: n, Ready: n, Endpoints: n, Leaving: n, Stale: n, Floor: n,
		Pods: release.Unseen[[]string](why), Template: release.Unseen[release.Template](why),
	}
}

func another(n name, obj *unstructured.Unstructured, uid string) string {
	return fmt.Sprintf("%s is another object: its UID is %s, not %s", n, obj.GetUID(), uid)
}

// source is where a look reads: mirrors while they are current, for which it waits
// until a time, or always the API server where that is zero.
type source struct {
	w     *Workloads
	until time.Time
}

// one reads a Deployment, and says of what time that is.
func (s source) one(ctx context.Context, n name) (*unstructured.Unstructured, time.Time, error) {
	if !s.until.IsZero() {
		seen, current := s.w.mirrors.Read(ctx, ofName(n), s.until)
		switch {
		case !current:
		case len(seen.Objects) == 0:
			return nil, seen.At, kube.Explain(apierrors.NewNotFound(deployments.GroupResource(), n.deployment))
		default:
			return seen.Objects[0], seen.At, nil
		}
	}
	now := time.Now() // what is seen is at least as new
	obj, err := s.w.get(ctx, deployments, n.namespace, n.deployment)
	if err == nil { // no mirror shows an older one from now on
		s.w.mirrors.Floor(ofName(n), obj.GetResourceVersion())
	}
	return obj, now, err
}

// all reads what a selection reaches.
func (s source) all(ctx context.Context, what kube.Selection) ([]*unstructured.Unstructured, error) {
	if !s.until.IsZero() {
		if seen, current := s.w.mirrors.Read(ctx, what, s.until); current {
			return seen.Objects, nil
		}
	}
	found, err := s.w.list(ctx, what.Resource, what.Namespace, what.Labels)
	if err != nil {
		return nil, err
	}
	out := make([]*unstructured.Unstructured, len(found))
	for i := range found {
		out[i] = &found[i]
		s.w.mirrors.Floor(what, found[i].GetResourceVersion())
	}
	return out, nil
}

// snapshot reads what belongs to a Deployment.
func (s source) snapshot(ctx context.Context, obj *unstructured.Unstructured, service string, now time.Time) (snapshot, error) {
	snap := snapshot{at: now}
	var err error
	if snap.deployment, err = readDeployment(obj); err != nil {
		return snap, err
	}
	d := snap.deployment
	if snap.sets, err = s.owned(ctx, d); err != nil {
		return snap, err
	}
	found, err := s.all(ctx, ofSelector(pods, d))
	if err != nil {
		return snap, err
	}
	for _, obj := range found {
		if err := snap.addPod(obj); err != nil {
			return snap, err
		}
	}
	if found, err = s.all(ctx, ofService(d.Metadata.Namespace, service)); err != nil {
		return snap, err
	}
	for _, obj := range found {
		if err := snap.addEndpoints(obj); err != nil {
			return snap, err
		}
	}
	return snap, nil
}

// owned lists the ReplicaSets that the Deployment controls.
func (s source) owned(ctx context.Context, d deployment) ([]replicaSet, error) {
	found, err := s.all(ctx, ofSelector(replicaSets, d))
	if err != nil {
		return nil, err
	}
	var out []replicaSet
	for _, obj := range found {
		set, err := readReplicaSet(obj)
		if err != nil {
			return nil, err
		}
		if controlledBy(set.Metadata) == d.Metadata.UID {
			out = append(out, set)
		}
	}
	return out, nil
}
