package engine

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// A thousand active releases: how long from the start of an engine until each
// has taken its first turn, and what memory they take (aims: 3 s and
// 40 MiB).
func BenchmarkRestartWithAThousandReleases(b *testing.B) {
	const releases = 1000
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	for range b.N {
		b.StopTimer()
		w := newWorld()
		w.mute = true // the log would be most of the memory
		for i := range releases {
			w.admit(b, fmt.Sprint("r", i))
		}
		e := w.engine(b)
		ctx := b.Context()
		before := heap()
		views := e.Views().Watch(ctx, release.Key{})
		b.StartTimer()
		stop := start(b, e)
		began := time.Now()
		acting := map[release.Key]bool{}
		for v := range views {
			if v.Live {
				acting[v.Release.Key] = true
			}
			if len(acting) == releases {
				break
			}
		}
		b.StopTimer()
		b.ReportMetric(time.Since(began).Seconds(), "s/restart")
		b.ReportMetric(heap()-before, "MiB/1000")
		stop()
	}
}
