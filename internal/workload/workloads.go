package workload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/shifter-dev/shifter/internal/release"
)

// Manager is the field manager of every write.
const Manager = "shifter"

// Config is what a cluster may need to have said. The zero value is good.
type Config struct {
	// Timeout bounds each call, within its caller's deadline; zero means 10 s.
	Timeout time.Duration
	// Logger is told of what is not worth an error; nil discards.
	Logger *slog.Logger
}

// Workloads reads and changes Deployments in a cluster.
type Workloads struct {
	client dynamic.Interface
	cfg    Config

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
	return &Workloads{client: client, cfg: cfg, names: map[string]name{}}
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
func (w *Workloads) Read(ctx context.Context, b release.Binding) ([2]release.TrackState, error) {
	var out [2]release.TrackState
	var errs [2]error
	var both sync.WaitGroup
	for i, t := range b.Tracks {
		both.Go(func() { out[i], errs[i] = w.look(ctx, t) })
	}
	both.Wait()
	if err := errors.Join(errs[0], errs[1]); err != nil {
		return [2]release.TrackState{}, err
	}
	return out, nil
}

func (w *Workloads) look(ctx context.Context, t release.BoundTrack) (release.TrackState, error) {
	n := name{t.Namespace, t.Deployment}
	w.remember(t.UID, n)
	now := time.Now() // what is seen is at least as new
	obj, err := w.get(ctx, deployments, t.Namespace, t.Deployment)
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
	snap, err := w.snapshot(ctx, obj, t.Service, now)
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

// snapshot reads what belongs to a Deployment.
func (w *Workloads) snapshot(ctx context.Context, obj *unstructured.Unstructured, service string, now time.Time) (snapshot, error) {
	s := snapshot{at: now}
	var err error
	if s.deployment, err = readDeployment(obj); err != nil {
		return s, err
	}
	if s.sets, err = w.owned(ctx, s.deployment); err != nil {
		return s, err
	}
	found, err := w.list(ctx, pods, s.deployment.Metadata.Namespace, s.deployment.selector.String())
	if err != nil {
		return s, err
	}
	for i := range found {
		if err := s.addPod(&found[i]); err != nil {
			return s, err
		}
	}
	found, err = w.list(ctx, endpointSlices, s.deployment.Metadata.Namespace, "kubernetes.io/service-name="+service)
	if err != nil {
		return s, err
	}
	for i := range found {
		if err := s.addEndpoints(&found[i]); err != nil {
			return s, err
		}
	}
	return s, nil
}

// owned lists the ReplicaSets that the Deployment controls.
func (w *Workloads) owned(ctx context.Context, d deployment) ([]replicaSet, error) {
	found, err := w.list(ctx, replicaSets, d.Metadata.Namespace, d.selector.String())
	if err != nil {
		return nil, err
	}
	var out []replicaSet
	for i := range found {
		s, err := readReplicaSet(&found[i])
		if err != nil {
			return nil, err
		}
		if controlledBy(s.Metadata) == d.Metadata.UID {
			out = append(out, s)
		}
	}
	return out, nil
}
