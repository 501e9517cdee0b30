package api_test

import (
	"testing"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/api/apitest"
	"github.com/shifter-dev/shifter/internal/release"
)

func TestAReleaseOfAllStagesSaysHowFarItIs(t *testing.T) {
	v := apitest.View("soak", apitest.Now())
	to := release.Template{Hash: "new", Images: map[string]string{"app": "app:2"}}
	v.Release.Spec.Stages = []release.Stage{release.StageCanary, release.StagePromote, release.StageShift}
	v.Release.Stage, v.Release.Phase = release.StagePromote, release.Promoting
	v.Release.Promotion = &release.Promotion{Images: to.Images, Asked: apitest.Now(), To: &to}
	for i := range v.Release.Steps {
		v.Release.Steps[i].Stage = release.StageCanary
	}
	r := api.FromView(v, "")
	s, p := r.Status, r.Status.Promotion
	if s.Incoming != "canary" || s.Outgoing != "primary" || s.Stage != "promote" || s.Phase != "promoting" {
		t.Errorf("the status is %s of stage %s, from %s to %s", s.Phase, s.Stage, s.Outgoing, s.Incoming)
	}
	if p == nil || p.Asked == nil || p.To == nil || p.To.Hash != "new" || p.Steady != nil || p.Done != nil || p.Images["app"] != "app:2" {
		t.Errorf("the promotion is %+v", p)
	}
	if d := r.Spec.Deadlines; d.Promote != 600 || d.Steady != 30 {
		t.Errorf("the deadlines are %+v", d)
	}
	if len(r.Steps) == 0 || r.Steps[0].Stage != "canary" {
		t.Errorf("the steps are %+v", r.Steps)
	}
}

func TestStagesPlanAndCopyAreTakenOver(t *testing.T) {
	q := api.CreateRequest{
		Stages: []string{"canary", "promote"}, Plan: "leapfrog", Promote: &api.Promote{Copy: "images"},
		Deadlines: &api.Deadlines{Promote: "2m", Steady: "10s"},
	}
	s, _ := q.Spec("shop")
	if len(s.Stages) != 2 || s.Stages[1] != release.StagePromote || s.Plan != release.PlanLeapfrog || s.Copy != release.CopyImages {
		t.Errorf("stages %v, plan %q, copy %q", s.Stages, s.Plan, s.Copy)
	}
	if s.Deadlines.Promote.Seconds() != 120 || s.Deadlines.Steady.Seconds() != 10 {
		t.Errorf("deadlines %+v", s.Deadlines)
	}
}
