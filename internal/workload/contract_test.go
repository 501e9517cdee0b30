package workload_test

import (
	"context"
	"testing"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/sandbox/contract"
	"github.com/shifter-dev/shifter/internal/workload"
)

var (
	_ engine.Workloads = (*workload.Workloads)(nil)
	_ engine.Watcher   = (*workload.Workloads)(nil)
)

func TestWorkloadsKeepTheContract(t *testing.T) {
	t.Run("live", func(t *testing.T) {
		contract.Workloads(t, func(t *testing.T) contract.WorkloadsWorld {
			w := pair(t).workloads(workload.Config{})
			return contract.WorkloadsWorld{Workloads: w, Watcher: w, Binding: admit(t, w)}
		})
	})
	t.Run("mirrored", func(t *testing.T) {
		contract.Workloads(t, func(t *testing.T) contract.WorkloadsWorld {
			c := pair(t)
			w := c.workloads(workload.Config{})
			b := admit(t, w)
			watch(t, w, b)
			return contract.WorkloadsWorld{Workloads: stepping{w, c}, Watcher: w, Binding: b}
		})
	})
}

// stepping lets the controller take a step with each look, as it does by itself
// when a Deployment is read live.
type stepping struct {
	*workload.Workloads

	c *cluster
}

// Read implements engine.Workloads.
func (s stepping) Read(ctx context.Context, b release.Binding) ([2]release.TrackState, error) {
	for _, t := range b.Tracks {
		s.c.step(t.Namespace, t.Deployment)
	}
	return s.Workloads.Read(ctx, b)
}

// watch watches a binding until the test ends.
func watch(t testing.TB, w *workload.Workloads, b release.Binding) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := w.Watch(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		ended(t, ch)
	})
}
