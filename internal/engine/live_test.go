package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/shifter-dev/shifter/internal/release"
)

// keeper is a router that answers Read from what it keeps, and counts how often
// it is asked to ask.
type keeper struct {
	router
	asked *atomic.Int32
}

func (k keeper) ReadLive(ctx context.Context, b release.Binding) ([]release.RouteState, error) {
	k.asked.Add(1)
	return k.Read(ctx, b)
}

func TestWhatTakesPodsAwayAsksForTheWeightsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		good, bad := w.admit(t, "good"), w.admit(t, "bad")
		w.releases[bad].bad = badAt50
		e := w.engine(t)
		var asked atomic.Int32
		e.cfg.Router = keeper{router{w}, &asked}
		stop := start(t, e)
		w.finish(t, good)
		w.finish(t, bad)
		stop()
		want := 0
		for _, k := range []release.Key{good, bad} {
			want += len(w.entries(k, func(e entry) bool { return e.port == "Scale" || e.port == "SetTemplate" }))
		}
		if int(asked.Load()) != want || want < 4 {
			t.Errorf("asked %d times for %d writes of Deployments", asked.Load(), want)
		}
	})
}
