package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// admitAll makes a release of all stages: the primary on v1 with all traffic, the
// canary on v2 without a pod.
func (w *world) admitAll(t testing.TB, name string) release.Key {
	t.Helper()
	k := release.Key{Namespace: "shop", Name: name}
	sc := &scene{key: k, split: []release.Pair{{Primary: 100, Canary: 0}}, rps: 1000, shares: []shareAt{{time.Now().Add(-time.Hour), 100}}}
	s := spec(name)
	s.Stages = []release.Stage{release.StageCanary, release.StagePromote, release.StageShift}
	s.Deadlines.Steady = 5 * time.Second
	b := release.Binding{Key: k, Full: 4, Scrape: time.Second, Routes: []release.BoundRoute{{
		Ref: s.Routes[0], UID: "route-" + name, Rules: []string{"0"}, Split: slices.Clone(sc.split), Accepted: release.AcceptedYes,
	}}}
	for tr := range sc.tracks {
		v := 1 + tr
		tpl := release.Template{Hash: fmt.Sprintf("v%d-%s-%d", v, name, tr), Revision: 1, Images: map[string]string{"app": fmt.Sprint("app:", v)}}
		n := 4 * (1 - tr)
		sc.tracks[tr] = &deployment{uid: fmt.Sprintf("uid-%s-%d", name, tr), desired: n, was: n, template: tpl, history: []release.Template{tpl}}
		b.Tracks[tr] = release.BoundTrack{
			Namespace: "shop", Deployment: s.Tracks[tr].Deployment, UID: sc.tracks[tr].uid, Replicas: n, Template: tpl, Service: s.Tracks[tr].Service,
		}
	}
	w.mu.Lock()
	w.releases[k] = sc
	w.mu.Unlock()
	if err := w.Create(t.Context(), release.New(k, "uid-"+name, s, b, "alice", time.Now())); err != nil {
		t.Fatal(err)
	}
	return k
}

// left checks how a release of all stages left its objects.
func (w *world) left(t testing.TB, k release.Key, r release.Release, phase release.Phase, image string) {
	t.Helper()
	s := w.releases[k]
	if r.Phase != phase || r.NeedsHuman || len(r.Unverified) > 0 {
		t.Errorf("ended %s (%s) %v: %s", r.Phase, r.Reason, r.Unverified, r.Message)
	}
	p, c := s.tracks[release.Primary], s.tracks[release.Canary]
	if s.split[0] != (release.Pair{Primary: 100}) || p.desired != 4 || c.desired != 0 || s.marked != "" || p.template.Images["app"] != image {
		t.Errorf("left %+v, %d and %d replicas, marked %q, the primary on %v", s.split, p.desired, c.desired, s.marked, p.template)
	}
	w.checkEffects(t, k)
}

func TestAReleaseOfAllStagesEndsWithThePrimaryOnTheNewVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admitAll(t, "a")
		stop := start(t, w.engine(t))
		r := w.finish(t, k)
		stop()
		w.left(t, k, r, release.Succeeded, "app:2")
		if got, want := w.written(k), []float64{90, 75, 50, 0, 10, 25, 50, 100}; !slices.Equal(got, want) {
			t.Errorf("wrote %v, want %v", got, want)
		}
		if n := w.count("Promote"); n != 1 {
			t.Errorf("promoted %d times", n)
		}
	})
}

func TestABadPromotedPrimaryIsUndoneAndGetsTheTrafficBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admitAll(t, "a")
		badPromoted(w.releases[k])
		stop := start(t, w.engine(t))
		r := w.finish(t, k)
		stop()
		w.left(t, k, r, release.RolledBack, "app:1")
		if re := r.Retreat; re == nil || !re.Home || re.Undone.IsZero() {
			t.Errorf("the retreat is %+v", re)
		}
	})
}

// badPromoted makes the new version bad on the primary.
func badPromoted(s *scene) {
	s.bad = func(tr release.Track, _ float64) float64 {
		if tr == release.Primary && strings.HasSuffix(s.tracks[tr].template.Hash, "-new") {
			return 0.1
		}
		return 0
	}
}

func TestAReleaseOfAllStagesEndsTheSameWhereverItsEngineDies(t *testing.T) {
	t.Parallel()
	crashEverywhere(t, (*world).admitAll, func(*scene) {}, func(t testing.TB, w *world, k release.Key, r release.Release) {
		t.Helper()
		w.left(t, k, r, release.Succeeded, "app:2")
	})
}

func TestABadPromotedPrimaryEndsTheSameWhereverItsEngineDies(t *testing.T) {
	t.Parallel()
	crashEverywhere(t, (*world).admitAll, badPromoted, func(t testing.TB, w *world, k release.Key, r release.Release) {
		t.Helper()
		w.left(t, k, r, release.RolledBack, "app:1")
	})
}
