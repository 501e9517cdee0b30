package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

func TestWhatHasEndedCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 10 {
			k := w.admit(t, fmt.Sprint("r", i))
			rec, err := w.Load(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			rec.Release.Phase = release.Succeeded
			if _, err := w.Save(t.Context(), rec.Release, rec.Version); err != nil {
				t.Fatal(err)
			}
		}
		e := w.engine(t)
		before := runtime.NumGoroutine()
		stop := start(t, e)
		synctest.Wait()
		calls := w.allCalls()
		if calls["Router.Read"]+calls["Workloads.Read"]+calls["Look"]+calls["writes"] > 0 || calls["Load"] != 10 {
			t.Errorf("calls at the start: %v", calls)
		}
		if n := runtime.NumGoroutine() - before; n > 3 { // Run, the test's own, the watch
			t.Errorf("%d goroutines", n)
		}
		time.Sleep(24 * time.Hour)
		if after := w.allCalls(); fmt.Sprint(after) != fmt.Sprint(calls) {
			t.Errorf("calls %v, and a day before %v", after, calls)
		}
		if got := e.Views().List(); len(got) != 10 || got[0].Live || got[0].Release.Phase != release.Succeeded {
			t.Errorf("%d views, the first %+v", len(got), got[0].Release.Phase)
		}
		stop()
	})
}

func TestAReleaseThatEndsLeavesNothingRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		e := w.engine(t)
		stop := start(t, e)
		synctest.Wait()
		before := runtime.NumGoroutine()
		k := w.admit(t, "a")
		w.finish(t, k)
		time.Sleep(time.Second)
		calls := w.allCalls()
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("%d goroutines, and %d before it", after, before)
		}
		time.Sleep(24 * time.Hour)
		w.stir()
		e.Kick(k)
		synctest.Wait()
		if after := w.allCalls(); fmt.Sprint(after) != fmt.Sprint(calls) {
			t.Errorf("calls %v, and a day before %v", after, calls)
		}
		stop()
	})
}

func TestAStirWakesAReleaseSoonAndAFloodOfThemDoesNotKeepItTurning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.admit(t, "a")
		e := w.engine(t)
		decide := e.brain.decide
		e.brain.decide = func(r release.Release, o release.Observation) release.Decision {
			d := decide(r, o)
			d.Actions, d.Wake = nil, o.Now.Add(time.Minute)
			return d
		}
		stop := start(t, e)
		time.Sleep(10 * time.Second)
		turns := w.count("Look")
		w.stir()
		time.Sleep(minTurn)
		synctest.Wait()
		if n := w.count("Look") - turns; n != 1 {
			t.Errorf("%d turns after a stir", n)
		}
		turns = w.count("Look")
		for range 1000 {
			w.stir()
			time.Sleep(10 * time.Millisecond)
		}
		if n := w.count("Look") - turns; n > int(10*time.Second/minTurn)+1 || n < 20 {
			t.Errorf("%d turns in 10 s of stirs", n)
		}
		time.Sleep(time.Second)
		turns = w.count("Look")
		e.Kick(release.Key{Namespace: "shop", Name: "a"})
		time.Sleep(minTurn)
		synctest.Wait()
		if n := w.count("Look") - turns; n != 1 {
			t.Errorf("%d turns after a kick", n)
		}
		stop()
	})
}

// slowEyes take a while for each look, and count how many look at once.
type slowEyes struct {
	*world
	now, most atomic.Int64
}

func (s *slowEyes) Look(ctx context.Context, a release.Ask) (release.Reading, error) {
	if n := s.now.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	defer s.now.Add(-1)
	time.Sleep(100 * time.Millisecond)
	return s.world.Look(ctx, a)
}

func TestOnlySoManyAskTheTelemetryAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 12 {
			w.admit(t, fmt.Sprint("r", i))
		}
		e := w.engine(t)
		eyes := &slowEyes{world: w}
		e.cfg.Telemetry, e.looking = eyes, make(chan struct{}, 3)
		stop := start(t, e)
		time.Sleep(20 * time.Second)
		stop()
		if n := w.count("SetShare"); n < 12 {
			t.Errorf("%d of 12 releases came to a share", n)
		}
		if n := eyes.most.Load(); n != 3 {
			t.Errorf("%d at once", n)
		}
	})
}

func view(name string, revision uint64) release.View {
	return release.View{Release: release.Release{Key: release.Key{Namespace: "shop", Name: name}, Revision: revision}}
}

func TestAWatcherOfViewsGetsThePresentOnesFirstAndThenTheLatest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := NewViews()
		v.publish(view("b", 1))
		v.publish(view("a", 1))
		ctx, cancel := context.WithCancel(t.Context())
		all, one := v.Watch(ctx, release.Key{}), v.Watch(ctx, release.Key{Namespace: "shop", Name: "a"})
		if got := []string{(<-all).Release.Key.Name, (<-all).Release.Key.Name, (<-one).Release.Key.Name}; !slices.Equal(got, []string{"a", "b", "a"}) {
			t.Errorf("present views %v", got)
		}
		v.publish(view("a", 2))
		synctest.Wait() // it is on its way to both
		for i := range 100 {
			v.publish(view("a", uint64(3+i)))
			v.publish(view("b", uint64(3+i)))
		}
		var got []string
		for range 3 {
			x := <-all
			got = append(got, fmt.Sprint(x.Release.Key.Name, x.Release.Revision, " ", x.Seq))
		}
		if want := []string{"a2 2", "a102 102", "b102 101"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if x, y := <-one, <-one; x.Release.Revision != 2 || y.Release.Revision != 102 {
			t.Errorf("got %d and %d", x.Release.Revision, y.Release.Revision)
		}
		v.publish(view("a", 103)) // nobody takes it
		synctest.Wait()
		cancel()
		for range all { // until it is closed
		}
		for range one {
		}
		if len(v.viewers) != 0 {
			t.Errorf("%d watchers are left", len(v.viewers))
		}
	})
}

func TestViewsMayBeReadPublishedAndWatchedAtTheSameTime(t *testing.T) {
	t.Parallel()
	v := NewViews()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 200 {
				v.publish(view(fmt.Sprint(i), uint64(n)))
			}
		})
		wg.Go(func() {
			var last uint64
			for x := range v.Watch(ctx, release.Key{Namespace: "shop", Name: fmt.Sprint(i)}) {
				if x.Seq <= last {
					t.Errorf("view %d after %d", x.Seq, last)
				}
				if last = x.Seq; last == 200 {
					return
				}
			}
		})
		wg.Go(func() {
			for range 50 {
				v.List()
				v.Get(release.Key{Namespace: "shop", Name: fmt.Sprint(i)})
			}
		})
	}
	wg.Wait()
	cancel()
}

func TestTheViewOfAReleaseFollowsItsTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		e := w.engine(t)
		stop := start(t, e)
		k := w.admit(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var phases []release.Phase
		var seq uint64
		for v := range e.Views().Watch(ctx, k) {
			if v.Seq <= seq {
				t.Errorf("view %d after %d", v.Seq, seq)
			}
			seq = v.Seq
			if v.Live && v.AsOf.IsZero() {
				t.Error("a live view without a time")
			}
			if n := len(phases); n == 0 || phases[n-1] != v.Release.Phase {
				phases = append(phases, v.Release.Phase)
			}
			if v.Release.Phase.Terminal() {
				if got := w.record(k); got.Revision != v.Release.Revision {
					t.Errorf("the last view has revision %d, the record %d", v.Release.Revision, got.Revision)
				}
				break
			}
		}
		for _, p := range []release.Phase{release.Shifting, release.Settling, release.Gating, release.Shrinking, release.Succeeded} {
			if !slices.Contains(phases, p) {
				t.Errorf("%s was never shown: %v", p, phases)
			}
		}
		cancel()
		stop()
	})
}
