package contract

import (
	"context"
	"testing"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/release"
)

// RouterWorld is one route with the split 0/100 in its one managed rule, to
// which nobody else writes.
type RouterWorld struct {
	Router  engine.Router
	Watcher engine.Watcher
	Binding release.Binding
	// Foreign writes the weights as another field manager, named kubectl.
	Foreign func(ctx context.Context, p release.Pair) error
}

func (w RouterWorld) state(t *testing.T) release.RouteState {
	t.Helper()
	states, err := w.Router.Read(t.Context(), w.Binding)
	noErr(t, err)
	if len(states) != len(w.Binding.Routes) {
		t.Fatalf("read %d routes, bound are %d", len(states), len(w.Binding.Routes))
	}
	return states[0]
}

func (w RouterWorld) wantSplit(t *testing.T, want release.Pair) {
	t.Helper()
	s := w.state(t)
	if !s.Split.Ok() || len(s.Split.Val) != 1 || s.Split.Val[0] != want {
		t.Fatalf("the split is %+v, want %+v", s.Split, want)
	}
}

func (w RouterWorld) share(from, to release.Pair) release.SetShare {
	r := w.Binding.Routes[0]
	return release.SetShare{Route: r.Ref, UID: r.UID, From: []release.Pair{from}, To: []release.Pair{to}}
}

func (w RouterWorld) mark(on bool) release.Mark {
	r := w.Binding.Routes[0]
	return release.Mark{Route: r.Ref, UID: r.UID, On: on}
}

func fence(name string, epoch uint64) release.Fence {
	return release.Fence{Key: release.Key{Namespace: "demo", Name: name}, Epoch: epoch, Step: 1, Safe: release.Canary}
}

var (
	none = release.Pair{Primary: 0, Canary: 100}
	ten  = release.Pair{Primary: 10, Canary: 90}
	half = release.Pair{Primary: 50, Canary: 50}
)

// Router checks that a Router keeps its promises. Each subtest gets a fresh
// world.
func Router(t *testing.T, fresh func(t *testing.T) RouterWorld) {
	for name, test := range map[string]func(*testing.T, RouterWorld){
		"a write is read back and accepted":              writeIsAccepted,
		"a write is refused when the weights differ":     writeComparesWeights,
		"a write is refused below the route's epoch":     writeIsFenced,
		"a write at the same epoch is another release's": sameEpochMayWrite,
		"all weights 0 is refused":                       allZeroIsRefused,
		"another object is not touched":                  otherObjectIsSafe,
		"the mark is set and cleared":                    markIsSet,
		"another release's mark stays":                   markOfOtherStays,
		"a foreign write is named":                       foreignIsNamed,
		"a change is told":                               routeChangeIsTold,
		"no answer is an error of its own":               routerUnavailable,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

func writeIsAccepted(t *testing.T, w RouterWorld) {
	w.wantSplit(t, none)
	first, err := w.Router.SetShare(t.Context(), w.share(none, ten), fence("r1", 3))
	noErr(t, err)
	w.wantSplit(t, ten)
	if s := w.state(t); !s.Epoch.Ok() || s.Epoch.Val != 3 || s.UID != w.Binding.Routes[0].UID || s.Foreign != "" {
		t.Fatalf("after a write at epoch 3 the route is %+v", s)
	}
	eventually(t, "the route is accepted", func() bool {
		s := w.state(t)
		return s.Accepted.Ok() && s.Accepted.Val == release.AcceptedYes
	})
	second, err := w.Router.SetShare(t.Context(), w.share(ten, half), fence("r1", 3))
	noErr(t, err)
	w.wantSplit(t, half)
	if second.Generation <= first.Generation || second.At.Before(first.At) {
		t.Fatalf("receipts do not rise: %+v, then %+v", first, second)
	}
}

func writeComparesWeights(t *testing.T, w RouterWorld) {
	_, err := w.Router.SetShare(t.Context(), w.share(ten, half), fence("r1", 1))
	wantErr(t, err, release.ErrConflict)
	w.wantSplit(t, none)
	two := w.share(none, ten)
	two.From, two.To = append(two.From, none), append(two.To, ten)
	_, err = w.Router.SetShare(t.Context(), two, fence("r1", 1))
	wantErr(t, err, release.ErrConflict)
	w.wantSplit(t, none)
}

func writeIsFenced(t *testing.T, w RouterWorld) {
	_, err := w.Router.SetShare(t.Context(), w.share(none, ten), fence("r1", 5))
	noErr(t, err)
	_, err = w.Router.SetShare(t.Context(), w.share(ten, half), fence("r1", 4))
	wantErr(t, err, release.ErrFenced)
	wantErr(t, w.Router.Mark(t.Context(), w.mark(true), fence("r1", 4)), release.ErrFenced)
	w.wantSplit(t, ten)
	_, err = w.Router.SetShare(t.Context(), w.share(ten, half), fence("r1", 6))
	noErr(t, err)
	if s := w.state(t); s.Epoch.Val != 6 {
		t.Fatalf("the epoch is %d, want 6", s.Epoch.Val)
	}
}

func sameEpochMayWrite(t *testing.T, w RouterWorld) {
	_, err := w.Router.SetShare(t.Context(), w.share(none, ten), fence("r1", 5))
	noErr(t, err)
	_, err = w.Router.SetShare(t.Context(), w.share(ten, none), fence("r2", 5))
	noErr(t, err)
	w.wantSplit(t, none)
}

func allZeroIsRefused(t *testing.T, w RouterWorld) {
	_, err := w.Router.SetShare(t.Context(), w.share(none, release.Pair{}), fence("r1", 1))
	wantErr(t, err, release.ErrRefused)
	_, err = w.Router.SetShare(t.Context(), w.share(none, release.Pair{Primary: -1, Canary: 101}), fence("r1", 1))
	wantErr(t, err, release.ErrRefused)
	w.wantSplit(t, none)
}

func otherObjectIsSafe(t *testing.T, w RouterWorld) {
	other := w
	other.Binding.Routes = []release.BoundRoute{w.Binding.Routes[0]}
	other.Binding.Routes[0].UID = "11111111-2222-4333-8444-555555555555"
	s := other.state(t)
	if s.Split.Ok() || s.Split.Why == "" || s.Epoch.Ok() || s.Accepted.Ok() || s.Marked.Ok() {
		t.Fatalf("another object by UID reads as %+v", s)
	}
	_, err := w.Router.SetShare(t.Context(), other.share(none, ten), fence("r1", 1))
	wantErr(t, err, release.ErrNotFound)
	wantErr(t, w.Router.Mark(t.Context(), other.mark(true), fence("r1", 1)), release.ErrNotFound)
	w.wantSplit(t, none)
}

func markIsSet(t *testing.T, w RouterWorld) {
	for range 2 { // each is safe to repeat
		noErr(t, w.Router.Mark(t.Context(), w.mark(true), fence("r1", 2)))
		if s := w.state(t); s.Marked.Val != "r1" || s.Epoch.Val != 2 {
			t.Fatalf("the route is %+v, want it marked by r1 at epoch 2", s)
		}
	}
	for range 2 {
		noErr(t, w.Router.Mark(t.Context(), w.mark(false), fence("r1", 2)))
		if s := w.state(t); !s.Marked.Ok() || s.Marked.Val != "" || s.Epoch.Val != 2 {
			t.Fatalf("the route is %+v, want no mark, and the epoch kept", s)
		}
	}
}

func markOfOtherStays(t *testing.T, w RouterWorld) {
	noErr(t, w.Router.Mark(t.Context(), w.mark(true), fence("r1", 2)))
	wantErr(t, w.Router.Mark(t.Context(), w.mark(true), fence("r2", 2)), release.ErrConflict)
	wantErr(t, w.Router.Mark(t.Context(), w.mark(false), fence("r2", 2)), release.ErrConflict)
	if s := w.state(t); s.Marked.Val != "r1" {
		t.Fatalf("the route is marked by %q, want r1", s.Marked.Val)
	}
}

func foreignIsNamed(t *testing.T, w RouterWorld) {
	_, err := w.Router.SetShare(t.Context(), w.share(none, ten), fence("r1", 1))
	noErr(t, err)
	noErr(t, w.Foreign(t.Context(), half))
	eventually(t, "the foreign writer is named", func() bool { return w.state(t).Foreign == "kubectl" })
	w.wantSplit(t, half)
	_, err = w.Router.SetShare(t.Context(), w.share(ten, none), fence("r1", 1))
	wantErr(t, err, release.ErrConflict)
	_, err = w.Router.SetShare(t.Context(), w.share(half, none), fence("r1", 1))
	noErr(t, err)
	if s := w.state(t); s.Foreign != "" {
		t.Fatalf("after our write the last writer is still %q", s.Foreign)
	}
}

func routeChangeIsTold(t *testing.T, w RouterWorld) {
	watchIsTold(t, w.Watcher, w.Binding, func() {
		noErr(t, w.Foreign(t.Context(), ten))
	})
}

func routerUnavailable(t *testing.T, w RouterWorld) {
	_, err := w.Router.Read(gone(), w.Binding)
	wantErr(t, err, release.ErrUnavailable)
	_, err = w.Router.SetShare(gone(), w.share(none, ten), fence("r1", 1))
	wantErr(t, err, release.ErrUnavailable)
	wantErr(t, w.Router.Mark(gone(), w.mark(true), fence("r1", 1)), release.ErrUnavailable)
}
