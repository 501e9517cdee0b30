package engine

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// badAt50 is a primary that fails 5 % of its requests from a share of 50 on.
func badAt50(t release.Track, share float64) float64 {
	if t == release.Primary && share >= 50 {
		return 0.05
	}
	return 0
}

// succeeded checks the end of a good release.
func succeeded(t testing.TB, w *world, k release.Key, r release.Release) {
	t.Helper()
	s := w.releases[k]
	if r.Phase != release.Succeeded || r.NeedsHuman || len(r.Unverified) > 0 {
		t.Errorf("ended %s (%s) %v: %s", r.Phase, r.Reason, r.Unverified, r.Message)
	}
	if s.split[0] != (release.Pair{Primary: 100}) || s.tracks[release.Canary].desired != 0 || s.tracks[release.Primary].desired != 4 || s.marked != "" {
		t.Errorf("left %+v, %d and %d replicas, marked %q", s.split, s.tracks[0].desired, s.tracks[1].desired, s.marked)
	}
	if s.tracks[release.Primary].template.Hash != "v2-"+k.Name+"-0" {
		t.Errorf("the primary has %s", s.tracks[release.Primary].template.Hash)
	}
	w.checkEffects(t, k)
}

// rolledBack checks the end of a release whose new version was bad.
func rolledBack(t testing.TB, w *world, k release.Key, r release.Release) {
	t.Helper()
	s := w.releases[k]
	if r.Phase != release.RolledBack || r.NeedsHuman || len(r.Unverified) > 0 {
		t.Errorf("ended %s (%s) %v: %s", r.Phase, r.Reason, r.Unverified, r.Message)
	}
	if s.split[0] != (release.Pair{Canary: 100}) || s.tracks[release.Canary].desired != 4 || s.tracks[release.Primary].desired != 4 || s.marked != "" {
		t.Errorf("left %+v, %d and %d replicas, marked %q", s.split, s.tracks[0].desired, s.tracks[1].desired, s.marked)
	}
	if got := s.tracks[release.Primary].template.Hash; got != "v1-"+k.Name {
		t.Errorf("the primary has %s and not its predecessor", got)
	}
	w.checkEffects(t, k)
}

func TestAGoodReleaseWalksItsStepsAndSavesEachIntentFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		began := time.Now()
		stop := start(t, w.engine(t))
		r := w.finish(t, k)
		stop()
		succeeded(t, w, k, r)
		if got, want := w.written(k), []float64{10, 25, 50, 100}; !slices.Equal(got, want) {
			t.Errorf("shares written: %v, want %v", got, want)
		}
		var sizes []int
		for _, e := range w.entries(k, func(e entry) bool { return e.port == "Scale" }) {
			sizes = append(sizes, as[release.Scale](e).Replicas)
		}
		if want := []int{3, 2, 0}; !slices.Equal(sizes, want) {
			t.Errorf("sizes written: %v, want %v", sizes, want)
		}
		if took := time.Since(began); took > 4*time.Minute {
			t.Errorf("it took %s", took)
		}
		decisions := w.says("decision")
		if len(decisions) < 8 || len(decisions) > 40 {
			t.Errorf("%d decisions were logged", len(decisions))
		}
		for _, d := range decisions {
			for _, pair := range []string{"release", "phase", "stage", "step", "share", "reason", "actions", "say"} {
				if _, ok := d[pair]; !ok {
					t.Errorf("a decision without %s: %v", pair, d)
				}
			}
		}
		t.Logf("took %s, calls %v", time.Since(began), w.allCalls())
	})
}

func TestABadReleaseGoesBackInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		w.releases[k].bad = badAt50
		stop := start(t, w.engine(t))
		r := w.finish(t, k)
		stop()
		rolledBack(t, w, k, r)
		var story []string
		for _, e := range w.entries(k, entry.effect) {
			story = append(story, e.String())
		}
		want := []string{
			"Mark true", "SetShare [{10 90}]", "SetShare [{25 75}]", "SetShare [{50 50}]", "Scale canary 3", "Scale canary 4",
			"SetShare [{0 100}]", "SetTemplate primary v1-a", "Mark false",
		}
		got := slices.Clone(story)
		if i := slices.Index(got, "SetShare [{0 100}]"); i < 0 || slices.Index(got, "Scale canary 4") > i {
			t.Errorf("the refuge was not grown before the weights came back: %v", story)
		}
		slices.Sort(got)
		slices.Sort(want)
		// A refuge that grows pod by pod may take a hop on its way.
		if !slices.Equal(got, want) && len(got) != len(want)+1 {
			t.Errorf("effects %v", story)
		}
		if r.Drain == nil || !r.Drain.Status.Over() {
			t.Errorf("drain %+v", r.Drain)
		}
	})
}

func TestEveryWriteOfARouteCarriesTheFenceWithTheSafeSide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		good, bad := w.admit(t, "good"), w.admit(t, "bad")
		w.releases[bad].bad = badAt50
		e := w.engine(t)
		stop := start(t, e)
		w.finish(t, good)
		w.finish(t, bad)
		stop()
		fences := func(k release.Key) (out []string) {
			for _, e := range w.entries(k, func(e entry) bool { return e.fence != (release.Fence{}) }) {
				if e.fence.Key != k || e.fence.Epoch != 1 {
					t.Errorf("%s with the fence %+v", e, e.fence)
				}
				out = append(out, fmt.Sprint(e.fence.Step, " ", e.fence.Safe))
			}
			return out
		}
		if got, want := fences(good), []string{"0 canary", "0 canary", "1 canary", "2 canary", "3 canary", "3 primary"}; !slices.Equal(got, want) {
			t.Errorf("fences %v, want %v", got, want)
		}
		for _, f := range fences(bad) {
			if !strings.HasSuffix(f, "canary") {
				t.Errorf("fences of a bad release: %v", fences(bad))
			}
		}
	})
}

func TestARecordIsResumedOnceWhenANewEngineTakesItUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		stop := start(t, w.engine(t))
		for len(w.written(k)) < 2 {
			time.Sleep(time.Second)
		}
		stop()
		time.Sleep(time.Minute)
		left := w.record(k)
		var first []release.Release
		e := w.engine(t)
		assess := e.brain.assess
		e.brain.assess = func(r release.Release, l release.Looks, o release.Observation) (release.Release, release.Observation) {
			first = append(first, r)
			return assess(r, l, o)
		}
		began := time.Now()
		stop = start(t, e)
		time.Sleep(5 * time.Second)
		stop()
		if got, want := first[0], release.Resume(left, began); !reflect.DeepEqual(got, want) {
			t.Errorf("the first turn began with\n%+v\nand not with\n%+v", got, want)
		}
		if len(first) < 2 || reflect.DeepEqual(first[1].Work, first[0].Work) {
			t.Errorf("the second turn of %d began with %+v again", len(first), first[0].Work)
		}
	})
}

// fate is what happens to a write when the engine dies at it.
type fate string

const (
	notMade   fate = "not made"
	replyLost fate = "made, and the reply lost"
)

// crash runs a release and kills the engine at its nth write, then another
// engine goes on. It returns the record at the end and whether it came to the
// nth write at all.
func crash(t *testing.T, w *world, k release.Key, n int, f fate) (release.Release, bool) {
	t.Helper()
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	died := false
	w.setHook(func(c call, done bool) error {
		if c.n != n || died || done != (f == replyLost) {
			return nil
		}
		died = true
		kill()
		return errLost
	})
	e := w.engine(t)
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	for range 3600 {
		if ctx.Err() != nil || w.ended(k) {
			break
		}
		time.Sleep(time.Second)
	}
	kill()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	w.setHook(nil)
	time.Sleep(3 * time.Second) // until another has the lease
	stop := start(t, w.engine(t))
	r := w.finish(t, k)
	stop()
	return r, died
}

// admission puts a release with its objects into a world.
type admission func(w *world, t testing.TB, name string) release.Key

// writes runs a release without a fault and returns the port of each write.
func writes(t *testing.T, admit admission, prepare func(*scene)) []string {
	var ports []string
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := admit(w, t, "a")
		prepare(w.releases[k])
		w.setHook(func(c call, done bool) error {
			if c.n > 0 && !done {
				ports = append(ports, c.port)
			}
			return nil
		})
		stop := start(t, w.engine(t))
		w.finish(t, k)
		stop()
	})
	return ports
}

// crashEverywhere kills the engine before and after each write of a release. An
// effect that is not made right after a save is the same as the save's reply
// lost, and is left out.
func crashEverywhere(t *testing.T, admit admission, prepare func(*scene), check func(testing.TB, *world, release.Key, release.Release)) {
	ports := writes(t, admit, prepare)
	if len(ports) < 12 || len(ports) > 100 {
		t.Fatalf("a release takes %d writes: %v", len(ports), ports)
	}
	for i, port := range ports {
		for _, f := range []fate{notMade, replyLost} {
			if f == notMade && port != "Save" && i > 0 && ports[i-1] == "Save" {
				continue
			}
			t.Run(fmt.Sprintf("at write %d, %s %s", i+1, port, f), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					k := admit(w, t, "a")
					prepare(w.releases[k])
					r, died := crash(t, w, k, i+1, f)
					if !died {
						t.Error("the engine did not come to this write")
					}
					check(t, w, k, r)
				})
			})
		}
	}
}

func TestAGoodReleaseEndsTheSameWhereverItsEngineDies(t *testing.T) {
	t.Parallel()
	crashEverywhere(t, (*world).admit, func(*scene) {}, succeeded)
}

func TestABadReleaseEndsTheSameWhereverItsEngineDies(t *testing.T) {
	t.Parallel()
	crashEverywhere(t, (*world).admit, func(s *scene) { s.bad = badAt50 }, rolledBack)
}
