package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/shifter-dev/shifter/internal/release"
)

// Watch tells that something of the tracks may have changed: the Deployments,
// their pods, and the endpoints of their Services, each watched by name or
// label. A watch that ends is taken up again without haste, and tells then too,
// since something may have been missed. The channel is closed when ctx ends.
func (w *Workloads) Watch(ctx context.Context, b release.Binding) (<-chan struct{}, error) {
	_, cancel, err := w.bounded(ctx)
	if err != nil {
		return nil, err
	}
	cancel()
	changed := make(chan struct{}, 1)
	var all sync.WaitGroup
	slices := map[string]bool{}
	for _, t := range b.Tracks {
		n := name{t.Namespace, t.Deployment}
		byName := metav1.ListOptions{FieldSelector: "metadata.name=" + n.deployment}
		all.Go(func() {
			w.follow(ctx, changed, func() error { return w.watchOnce(ctx, deployments, n.namespace, byName, changed) })
		})
		all.Go(func() {
			w.follow(ctx, changed, func() error { return w.watchPods(ctx, n, changed) })
		})
		if slices[t.Service] {
			continue // both tracks are subsets of it
		}
		slices[t.Service] = true
		ofService := metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + t.Service}
		all.Go(func() {
			w.follow(ctx, changed, func() error { return w.watchOnce(ctx, endpointSlices, n.namespace, ofService, changed) })
		})
	}
	go func() {
		all.Wait()
		close(changed)
	}()
	return changed, nil
}

// The waits between two watches. One that lasted steady ended because watches do
// end.
const (
	firstWait = 500 * time.Millisecond
	maxWait   = 30 * time.Second
	steady    = time.Minute
)

// follow keeps a watch until ctx ends.
func (w *Workloads) follow(ctx context.Context, changed chan<- struct{}, once func() error) {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := once()
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= steady {
			failures = 0
		}
		w.cfg.Logger.Debug("a watch has ended", "err", err)
		pause(ctx, firstWait<<min(failures, 10))
		failures++
		ring(changed)
	}
}

// pause waits, with a spread so that many do not come back at once.
func pause(ctx context.Context, d time.Duration) {
	d = min(d, maxWait)
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func ring(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// watchPods watches the pods that the Deployment selects now.
func (w *Workloads) watchPods(ctx context.Context, n name, changed chan<- struct{}) error {
	obj, err := w.get(ctx, deployments, n.namespace, n.deployment)
	if err != nil {
		return err
	}
	d, err := readDeployment(obj)
	if err != nil {
		return err
	}
	return w.watchOnce(ctx, pods, n.namespace, metav1.ListOptions{LabelSelector: d.selector.String()}, changed)
}

// watchOnce rings for every event of one watch.
func (w *Workloads) watchOnce(ctx context.Context, r schema.GroupVersionResource, namespace string, opts metav1.ListOptions, changed chan<- struct{}) error {
	in, err := w.in(r, namespace).Watch(ctx, opts)
	if err != nil {
		return err
	}
	defer in.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-in.ResultChan():
			switch {
			case !open:
				return errors.New("the API server has ended it")
			case e.Type == watch.Error:
				return apierrors.FromObject(e.Object)
			}
			ring(changed)
		}
	}
}
