package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// epochs is a store's epoch; taken says that another writer has raised it.
type epochs struct {
	now    uint64
	taken  bool
	raised int
}

func (e *epochs) RaiseEpoch(_ context.Context, own, above uint64) (uint64, error) {
	e.raised++
	if e.taken || own != e.now {
		return 0, release.ErrFenced
	}
	e.now = above + 1
	return e.now, nil
}

// withEpochs is an engine over a world whose one route carries a higher epoch.
func withEpochs(t *testing.T, w *world, k release.Key, onRoute uint64, by *epochs) *Engine {
	t.Helper()
	w.releases[k].epoch = onRoute
	e := w.engine(t)
	by.now = e.cfg.Epoch
	e.cfg.Epochs = by
	return e
}

func TestALeftOverEpochOnARouteOnlyRaisesTheWritersOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, by := newWorld(), &epochs{}
		k := w.admit(t, "good")
		stop := start(t, withEpochs(t, w, k, 41, by))
		r := w.finish(t, k)
		stop()
		if r.Phase != release.Succeeded || by.raised != 1 || by.now != 42 {
			t.Errorf("ended %s (%s), raised %d times to %d", r.Phase, r.Reason, by.raised, by.now)
		}
		for _, e := range w.entries(k, func(e entry) bool { return e.fence != (release.Fence{}) }) {
			if e.fence.Epoch != 42 {
				t.Errorf("%s with epoch %d", e, e.fence.Epoch)
			}
		}
	})
}

func TestAWriterThatWasReplacedDoesNotOvertakeItsSuccessor(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*world, release.Key, *epochs){
		"the store has given a newer epoch":    func(_ *world, _ release.Key, by *epochs) { by.taken = true },
		"the route is marked by a live writer": func(w *world, k release.Key, _ *epochs) { w.releases[k].marked = k.Name },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, by := newWorld(), &epochs{}
				k := w.admit(t, "good")
				e := withEpochs(t, w, k, 41, by)
				prepare(w, k, by)
				stop := start(t, e)
				time.Sleep(time.Minute)
				stop()
				for _, e := range w.entries(k, func(e entry) bool { return e.fence != (release.Fence{}) }) {
					if e.err == nil || !errors.Is(e.err, release.ErrFenced) {
						t.Errorf("%s was written with epoch %d", e, e.fence.Epoch)
					}
				}
			})
		})
	}
}
