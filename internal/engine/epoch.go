package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/shifter-dev/shifter/internal/release"
)

// epoch is this writer's epoch, which only rises.
type epoch struct {
	now atomic.Uint64
	// raising is held while it is raised, which takes a call.
	raising sync.Mutex
}

func (e *epoch) get() uint64 { return e.now.Load() }

// raise brings the epoch above another one, once for all who find it too low.
func (e *epoch) raise(ctx context.Context, by Epochs, above uint64) error {
	e.raising.Lock()
	defer e.raising.Unlock()
	own := e.get()
	if own > above {
		return nil
	}
	n, err := by.RaiseEpoch(ctx, own, above)
	if err == nil && n > own {
		e.now.Store(n)
	}
	return err
}

// overtake brings this writer's epoch above one that was left on a route of a
// release that has not begun: no record speaks of it any more, and no label of
// another release that may be alive. Later a higher epoch is another writer, and
// is not overtaken.
func (w *worker) overtake(ctx context.Context, routes []release.RouteState) uint64 {
	e := &w.engine.epoch
	by := w.engine.cfg.Epochs
	if by == nil || !untouched(w.rec.Release) {
		return e.get()
	}
	var above uint64
	for _, s := range routes {
		if !s.Epoch.Ok() || !s.Marked.Ok() || s.Marked.Val != "" {
			return e.get()
		}
		above = max(above, s.Epoch.Val)
	}
	if above <= e.get() {
		return e.get()
	}
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	if err := e.raise(ctx, by, above); err != nil {
		w.engine.cfg.Logger.Warn("the epoch was not raised above a route's", "release", w.key, "above", above, "err", err)
	}
	return e.get()
}

// untouched reports a release that has written nothing yet.
func untouched(r release.Release) bool {
	return r.Phase == release.Pending || r.Phase == release.Preflight
}
