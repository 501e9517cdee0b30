package routing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/shifter-dev/shifter/internal/release"
)

// Watch tells that one of the routes may have changed. It watches each of them
// alone, takes a watch that ends up again without haste, and tells then too,
// since something may have been missed. The channel is closed when ctx ends.
func (r *Routes) Watch(ctx context.Context, b release.Binding) (<-chan struct{}, error) {
	if err := answered(ctx); err != nil {
		return nil, fmt.Errorf("watching the routes: %w", err)
	}
	changed := make(chan struct{}, 1)
	var all sync.WaitGroup
	for _, br := range b.Routes {
		all.Go(func() { r.follow(ctx, br.Ref, changed) })
	}
	go func() {
		all.Wait()
		close(changed)
	}()
	return changed, nil
}

// The waits between two watches of one object. One that lasted steady ended
// because watches do end.
const (
	firstWait = 500 * time.Millisecond
	maxWait   = 30 * time.Second
	steady    = time.Minute
)

// follow keeps a watch on one route until ctx ends.
func (r *Routes) follow(ctx context.Context, ref release.RouteRef, changed chan<- struct{}) {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := r.watchOnce(ctx, ref, changed)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= steady {
			failures = 0
		}
		r.cfg.Logger.Debug("a watch has ended", "route", ref.String(), "err", err)
		pause(ctx, firstWait<<min(failures, 10))
		failures++
		ring(changed)
	}
}

func ring(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
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

// watchOnce rings for every event of one watch. A new watch begins with the
// object as it is.
func (r *Routes) watchOnce(ctx context.Context, ref release.RouteRef, changed chan<- struct{}) error {
	k, ok := kindOf(ref.Kind)
	if !ok {
		return fmt.Errorf("kind %q cannot be watched", ref.Kind)
	}
	w, err := r.client.Resource(k.resource).Namespace(ref.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + ref.Name})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-w.ResultChan():
			switch {
			case !open:
				return nil
			case e.Type == watch.Error:
				return apierrors.FromObject(e.Object)
			}
			ring(changed)
		}
	}
}
