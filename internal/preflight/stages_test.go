package preflight

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/shifter-dev/shifter/internal/release"
)

// fresh is a world in which all stages have nothing against them: the primary has
// v1, four pods and all traffic, the canary v2 and no pod.
func fresh(stages ...release.Stage) *world {
	w := sound()
	w.spec.Stages = stages
	v1 := release.Template{Hash: "v1-0", Images: map[string]string{"app": "app:1"}}
	w.tracks[release.Primary].Template, w.tracks[release.Primary].UndoTo = v1, nil
	w.tracks[release.Canary].Replicas = 0
	w.present(100)
	w.size(4, 0)
	w.serves(200, 0)
	if stages[0] == release.StagePromote {
		w.tracks[release.Canary].Replicas = 4
		w.present(0)
		w.size(4, 4)
		w.serves(200, 0)
	}
	return w
}

func TestAllStagesArePlannedWithTheirCourse(t *testing.T) {
	w := fresh(release.StageCanary, release.StagePromote, release.StageShift)
	w.tracks[release.Canary].UndoTo = &release.Template{Hash: "v0-1"}
	f := w.mustPlan(t)
	if len(f.Findings)+len(f.Warnings) > 0 {
		t.Fatalf("findings %v, warnings %v", f.Findings, f.Warnings)
	}
	var got []string
	for _, s := range f.Steps {
		got = append(got, fmt.Sprint(s.Stage, " ", s.Share, " ", s.Replicas))
	}
	want := []string{
		"canary 10 [4 1]", "canary 25 [4 1]", "canary 50 [4 2]", "canary 100 [4 4]",
		"shift 10 [4 4]", "shift 25 [4 4]", "shift 50 [4 3]", "shift 100 [4 2]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps %v, want %v", got, want)
	}
	if f.PeakPods != 9 || f.Release.Binding.Full != 4 { // one pod more while the primary rolls
		t.Errorf("%d pods at most, full is %d", f.PeakPods, f.Release.Binding.Full)
	}
	b := f.Release.Binding
	if u := b.Tracks[release.Primary].UndoTo; u == nil || u.Hash != "v1-0" || b.Tracks[release.Canary].UndoTo != nil {
		t.Errorf("undo targets %+v and %+v", b.Tracks[release.Primary].UndoTo, b.Tracks[release.Canary].UndoTo)
	}
}

func TestEachStageAloneCanBeSound(t *testing.T) {
	for _, stages := range [][]release.Stage{
		{release.StageCanary},
		{release.StagePromote},
		{release.StageCanary, release.StagePromote},
		{release.StagePromote, release.StageShift},
	} {
		f := fresh(stages...).mustPlan(t)
		if len(f.Findings)+len(f.Warnings) > 0 {
			t.Errorf("%v: findings %v, warnings %v", stages, f.Findings, f.Warnings)
		}
		if f.Release.Binding.Full != 4 {
			t.Errorf("%v: full is %d", stages, f.Release.Binding.Full)
		}
	}
}

func TestWhatIsAgainstAStageIsFound(t *testing.T) {
	all := []release.Stage{release.StageCanary, release.StagePromote, release.StageShift}
	for code, c := range map[string]struct {
		stages []release.Stage
		change func(*world)
	}{
		"sameVersion":     {all, func(w *world) { w.tracks[release.Canary].Template.Images = map[string]string{"app": "app:1"} }},
		"latestImage":     {all[:1], func(w *world) { w.tracks[release.Canary].Template.Images = map[string]string{"app": "app:latest"} }},
		"primaryServes":   {all[1:], func(w *world) { w.present(10) }},
		"noPods":          {all[1:2], func(w *world) { w.tracks[release.Primary].Replicas = 0 }},
		"servesNothing":   {all[:1], func(w *world) { w.tracks[release.Primary].Replicas = 0 }},
		"templatesDiffer": {all, func(w *world) { w.promoteErr = fmt.Errorf("looking: %w", release.Finding{Code: "templatesDiffer"}) }},
		"versionsDiffer":  {all[2:], func(*world) {}},
		"stageMissing":    {[]release.Stage{release.StageCanary, release.StageShift}, func(*world) {}},
	} {
		w := fresh(c.stages...)
		c.change(w)
		f := w.mustPlan(t)
		if !slices.ContainsFunc(f.Findings, func(x release.Finding) bool { return x.Code == code }) {
			t.Errorf("%s: found %v", code, f.Findings)
		}
	}
	w := fresh(all...)
	w.promoteErr = errors.New("no answer")
	if _, err := w.plan(t); err == nil {
		t.Error("a primary that could not be looked at is no plan")
	}
	w = fresh(release.StageCanary)
	w.spec.Preset = "dev"
	w.tracks[release.Canary].Template.Images = map[string]string{"app": "app:latest"}
	if f := w.mustPlan(t); len(f.Findings) > 0 || len(f.Warnings) != 1 {
		t.Errorf("dev: findings %v, warnings %v", f.Findings, f.Warnings)
	}
}
