package workload_test

import (
	"testing"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/sandbox/contract"
	"github.com/shifter-dev/shifter/internal/workload"
)

var (
	_ engine.Workloads = (*workload.Workloads)(nil)
	_ engine.Watcher   = (*workload.Workloads)(nil)
)

func TestWorkloadsKeepTheContract(t *testing.T) {
	contract.Workloads(t, func(t *testing.T) contract.WorkloadsWorld {
		w := pair(t).workloads(workload.Config{})
		return contract.WorkloadsWorld{Workloads: w, Watcher: w, Binding: admit(t, w)}
	})
}
