package sandbox_test

import (
	"context"
	"testing"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/sandbox"
	"github.com/shifter-dev/shifter/internal/sandbox/contract"
)

var (
	_ engine.Router    = (*sandbox.Routes)(nil)
	_ engine.Workloads = (*sandbox.Workloads)(nil)
	_ engine.Watcher   = (*sandbox.Routes)(nil)
	_ engine.Watcher   = (*sandbox.Workloads)(nil)
	_ engine.Watcher   = (*sandbox.World)(nil)
)

func TestRoutesKeepTheContract(t *testing.T) {
	contract.Router(t, func(t *testing.T) contract.RouterWorld {
		cfg := quick()
		cfg.Replicas = 1
		w := start(t, cfg)
		return contract.RouterWorld{
			Router: w.Routes(), Watcher: w.Routes(), Binding: bind(t, w),
			Foreign: func(_ context.Context, p release.Pair) error {
				w.WriteForeign("kubectl", p)
				return nil
			},
		}
	})
}

func TestWorkloadsKeepTheContract(t *testing.T) {
	contract.Workloads(t, func(t *testing.T) contract.WorkloadsWorld {
		w := start(t, quick())
		return contract.WorkloadsWorld{Workloads: w.Workloads(), Watcher: w.Workloads(), Binding: bind(t, w)}
	})
}
