package contract

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/release"
)

// WorkloadsWorld is two Deployments with two ready pods each and without an
// autoscaler. The primary's history has an older template, which works.
type WorkloadsWorld struct {
	Workloads engine.Workloads
	Watcher   engine.Watcher
	Binding   release.Binding // with the primary's UndoTo
}

func (w WorkloadsWorld) state(t *testing.T, tr release.Track) release.TrackState {
	t.Helper()
	states, err := w.Workloads.Read(t.Context(), w.Binding)
	noErr(t, err)
	return states[tr]
}

func (w WorkloadsWorld) wait(t *testing.T, what string, tr release.Track, ok func(release.TrackState) bool) release.TrackState {
	t.Helper()
	var s release.TrackState
	eventually(t, what, func() bool {
		s = w.state(t, tr)
		return ok(s)
	})
	return s
}

func (w WorkloadsWorld) scale(tr release.Track, n int, spare ...string) release.Scale {
	return release.Scale{Track: tr, UID: w.Binding.Tracks[tr].UID, Replicas: n, Spare: spare}
}

func (w WorkloadsWorld) undo() release.SetTemplate {
	b := w.Binding.Tracks[release.Primary]
	return release.SetTemplate{Track: release.Primary, UID: b.UID, From: b.Template, To: *b.UndoTo}
}

// settled reports that a track has n pods, all ready, and none leaving.
func settled(n int) func(release.TrackState) bool {
	return func(s release.TrackState) bool {
		return s.Desired.Val == n && s.Ready.Val == n && s.Endpoints.Val == n && s.Leaving.Val == 0 &&
			s.Stale.Val == 0 && len(s.Pods.Val) == n
	}
}

// Workloads checks that a Workloads keeps its promises. Each subtest gets a
// fresh world.
func Workloads(t *testing.T, fresh func(t *testing.T) WorkloadsWorld) {
	for name, test := range map[string]func(*testing.T, WorkloadsWorld){
		"everything is known":                         everythingIsKnown,
		"scaling is declared at once and done later":  scalingIsDone,
		"spare pods go last":                          spareGoesLast,
		"an undo gets the old template back":          undoGetsTemplate,
		"an undo is refused when the world differs":   undoCompares,
		"a promote gives the images":                  promoteGivesImages,
		"a promote is refused when the world differs": promoteCompares,
		"another Deployment is not touched":           otherDeploymentIsSafe,
		"a change is told":                            podChangeIsTold,
		"no answer is an error of its own":            workloadsUnavailable,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

func everythingIsKnown(t *testing.T, w WorkloadsWorld) {
	for _, tr := range []release.Track{release.Primary, release.Canary} {
		s, b := w.state(t, tr), w.Binding.Tracks[tr]
		if !settled(2)(s) || !s.Desired.Ok() || !s.Ready.Ok() || !s.Endpoints.Ok() || !s.Leaving.Ok() || !s.Stale.Ok() || !s.Pods.Ok() {
			t.Errorf("%s: two ready pods read as %+v", tr, s)
		}
		if s.UID != b.UID || s.Template.Val.Hash != b.Template.Hash || s.Template.Val.UID != b.Template.UID || len(s.Template.Val.Images) == 0 {
			t.Errorf("%s: bound as %+v, read as %+v", tr, b, s)
		}
		if !s.Floor.Ok() || s.Floor.Val != -1 {
			t.Errorf("%s: the floor without an autoscaler is %+v, want -1", tr, s.Floor)
		}
	}
	h := w.state(t, release.Primary).History
	if len(h) < 2 || h[0].Hash != w.Binding.Tracks[release.Primary].Template.Hash || h[0].Revision <= h[1].Revision {
		t.Errorf("the history is not newest first with the live one in it: %+v", h)
	}
}

func scalingIsDone(t *testing.T, w WorkloadsWorld) {
	for range 2 { // safe to repeat
		noErr(t, w.Workloads.Scale(t.Context(), w.scale(release.Canary, 3)))
		if s := w.state(t, release.Canary); s.Desired.Val != 3 {
			t.Fatalf("desired is %d, want 3", s.Desired.Val)
		}
	}
	w.wait(t, "three pods are ready", release.Canary, settled(3))
	noErr(t, w.Workloads.Scale(t.Context(), w.scale(release.Canary, 0)))
	w.wait(t, "pods that leave are still named", release.Canary, func(s release.TrackState) bool {
		return s.Leaving.Val > 0 && s.Ready.Val == 0 && s.Endpoints.Val == 0 && len(s.Pods.Val) >= s.Leaving.Val
	})
	w.wait(t, "no pod is left", release.Canary, settled(0))
	wantErr(t, w.Workloads.Scale(t.Context(), w.scale(release.Canary, -1)), release.ErrRefused)
	if !settled(2)(w.state(t, release.Primary)) {
		t.Fatal("the other track was touched")
	}
}

func spareGoesLast(t *testing.T, w WorkloadsWorld) {
	noErr(t, w.Workloads.Scale(t.Context(), w.scale(release.Canary, 3)))
	pods := w.wait(t, "three pods are ready", release.Canary, settled(3)).Pods.Val
	spare := pods[len(pods)-1] // the newest, which would be the first to go
	noErr(t, w.Workloads.Scale(t.Context(), w.scale(release.Canary, 1, spare)))
	left := w.wait(t, "one pod is left", release.Canary, settled(1)).Pods.Val
	if !slices.Equal(left, []string{spare}) {
		t.Fatalf("left is %v, want the spare %s", left, spare)
	}
}

func undoGetsTemplate(t *testing.T, w WorkloadsWorld) {
	before := w.state(t, release.Primary).Template.Val
	undo := w.undo()
	noErr(t, w.Workloads.SetTemplate(t.Context(), undo))
	minReady := 2
	s := w.wait(t, "all pods have the old template", release.Primary, func(s release.TrackState) bool {
		minReady = min(minReady, s.Ready.Val)
		return s.Template.Val.Hash == undo.To.Hash && settled(2)(s)
	})
	if minReady < 2 {
		t.Errorf("only %d pods were ready during the rolling update", minReady)
	}
	got := s.Template.Val
	if got.UID != undo.To.UID || got.Revision <= before.Revision {
		t.Errorf("the template is %+v, want the old ReplicaSet %s with a revision above %d", got, undo.To.UID, before.Revision)
	}
	noErr(t, w.Workloads.SetTemplate(t.Context(), undo)) // live = To means done
	if s := w.state(t, release.Primary); s.Template.Val.Revision != got.Revision {
		t.Errorf("the second undo went to revision %d", s.Template.Val.Revision)
	}
}

// promote is to the images of the older template, which work.
func (w WorkloadsWorld) promote() release.Promote {
	b := w.Binding.Tracks[release.Primary]
	return release.Promote{Track: release.Primary, UID: b.UID, From: b.Template, Images: b.UndoTo.Images}
}

func promoteGivesImages(t *testing.T, w WorkloadsWorld) {
	before := w.state(t, release.Primary).Template.Val
	p := w.promote()
	noErr(t, w.Workloads.Promote(t.Context(), p))
	s := w.wait(t, "all pods have the new images", release.Primary, func(s release.TrackState) bool {
		return maps.Equal(s.Template.Val.Images, p.Images) && settled(2)(s)
	})
	got := s.Template.Val
	if got.Hash == before.Hash || got.Revision <= before.Revision {
		t.Errorf("the template is %+v, want another than %+v with a higher revision", got, before)
	}
	if !slices.ContainsFunc(s.History, func(h release.Template) bool { return h.Hash == before.Hash }) {
		t.Errorf("the template before is gone from the history: %+v", s.History)
	}
	noErr(t, w.Workloads.Promote(t.Context(), p)) // live images = wanted means done
	if s := w.state(t, release.Primary); s.Template.Val.Revision != got.Revision {
		t.Errorf("the second promote went to revision %d", s.Template.Val.Revision)
	}
	back := release.SetTemplate{Track: p.Track, UID: p.UID, From: got, To: before}
	noErr(t, w.Workloads.SetTemplate(t.Context(), back))
	w.wait(t, "the template before is back", release.Primary, func(s release.TrackState) bool {
		return s.Template.Val.Hash == before.Hash && settled(2)(s)
	})
}

func promoteCompares(t *testing.T, w WorkloadsWorld) {
	a := w.promote()
	a.From.Hash = "neither"
	wantErr(t, w.Workloads.Promote(t.Context(), a), release.ErrConflict)
	a = w.promote()
	a.UID = "11111111-2222-4333-8444-555555555555"
	if err := w.Workloads.Promote(t.Context(), a); !errors.Is(err, release.ErrNotFound) && !errors.Is(err, release.ErrConflict) {
		t.Errorf("another object: %v", err)
	}
	a = w.promote()
	a.Images = map[string]string{"no-such-container": "app:v3"}
	wantErr(t, w.Workloads.Promote(t.Context(), a), release.ErrRefused)
	b := w.Binding.Tracks[release.Primary]
	if s := w.state(t, release.Primary); s.Template.Val.Hash != b.Template.Hash || !settled(2)(s) {
		t.Fatalf("a refused promote changed the Deployment: %+v", s)
	}
	wantErr(t, w.Workloads.Promote(gone(), w.promote()), release.ErrUnavailable)
}

func undoCompares(t *testing.T, w WorkloadsWorld) {
	a := w.undo()
	a.From.Hash = "neither"
	wantErr(t, w.Workloads.SetTemplate(t.Context(), a), release.ErrConflict)
	a = w.undo()
	a.To = release.Template{Hash: "nowhere"}
	wantErr(t, w.Workloads.SetTemplate(t.Context(), a), release.ErrNotFound)
	if s := w.state(t, release.Primary); s.Template.Val.Hash != w.Binding.Tracks[release.Primary].Template.Hash {
		t.Fatalf("the template was changed to %s", s.Template.Val.Hash)
	}
}

func otherDeploymentIsSafe(t *testing.T, w WorkloadsWorld) {
	other := w
	for i := range other.Binding.Tracks {
		other.Binding.Tracks[i].UID = "11111111-2222-4333-8444-555555555555"
	}
	s := other.state(t, release.Primary)
	if s.Desired.Ok() || s.Desired.Why == "" || s.Ready.Ok() || s.Template.Ok() || s.Pods.Ok() {
		t.Fatalf("another object by UID reads as %+v", s)
	}
	wantErr(t, w.Workloads.Scale(t.Context(), other.scale(release.Canary, 0)), release.ErrNotFound)
	wantErr(t, w.Workloads.SetTemplate(t.Context(), other.undo()), release.ErrNotFound)
	if !settled(2)(w.state(t, release.Canary)) {
		t.Fatal("the Deployment was scaled")
	}
}

func podChangeIsTold(t *testing.T, w WorkloadsWorld) {
	watchIsTold(t, w.Watcher, w.Binding, func() {
		noErr(t, w.Workloads.Scale(t.Context(), w.scale(release.Canary, 1)))
	})
}

func workloadsUnavailable(t *testing.T, w WorkloadsWorld) {
	_, err := w.Workloads.Read(gone(), w.Binding)
	wantErr(t, err, release.ErrUnavailable)
	wantErr(t, w.Workloads.Scale(gone(), w.scale(release.Canary, 1)), release.ErrUnavailable)
	wantErr(t, w.Workloads.SetTemplate(gone(), w.undo()), release.ErrUnavailable)
}

// watchIsTold checks that a change wakes a watch, and that the watch ends with
// its context.
func watchIsTold(t *testing.T, w engine.Watcher, b release.Binding, change func()) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ch, err := w.Watch(ctx, b)
	noErr(t, err)
	change()
	select {
	case _, open := <-ch:
		if !open {
			t.Fatal("the watch ended before its context")
		}
	case <-time.After(patience):
		t.Fatal("the change was not told")
	}
	cancel()
	eventually(t, "the watch ends", func() bool {
		select {
		case _, open := <-ch:
			return !open
		default:
			return false
		}
	})
}
