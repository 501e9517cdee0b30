package server

import (
	"strings"
	"testing"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/api/apitest"
	"github.com/shifter-dev/shifter/internal/release"
)

// ofAllStages is a release of three stages whose steps are the canary's.
func ofAllStages(stage release.Stage, phase release.Phase) api.Release {
	v := apitest.View("soak", apitest.Now())
	v.Release.Spec.Stages = []release.Stage{release.StageCanary, release.StagePromote, release.StageShift}
	v.Release.Stage, v.Release.Phase = stage, phase
	for i := range v.Release.Steps {
		v.Release.Steps[i].Stage = release.StageCanary
	}
	return api.FromView(v, "")
}

func TestStepsOfAnotherStageAreTurnedRound(t *testing.T) {
	r := ofAllStages(release.StageShift, release.Gating)
	st := r.Steps[0]
	row, same := newStepRow(st, "shift", apitest.Now()), newStepRow(st, "canary", apitest.Now())
	if !strings.HasPrefix(row.Share, "canary ") || row.Cand != same.Base || row.Base != same.Cand {
		t.Errorf("the row is %+v, and in its own stage %+v", row, same)
	}
	declared, _ := changes(r)
	if len(declared) == 0 || declared[0].share != 100-st.Share {
		t.Errorf("the stairs of the primary are %+v, and the canary got %g", declared, st.Share)
	}
}

func TestThePageSaysThatThePrimaryIsPromoted(t *testing.T) {
	r := ofAllStages(release.StagePromote, release.Promoting)
	if h := headline(r); !strings.Contains(h, "Promoting primary while canary") {
		t.Errorf("the headline is %q", h)
	}
	if title := titleOf(r); title != "promoting" {
		t.Errorf("the title is %q", title)
	}
}
