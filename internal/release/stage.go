package release

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// This file holds what differs between the stages, and the way from one to the
// next. In the promote stage nothing gains share: the roles of the tracks are
// those of the canary stage, in which the canary has got everything.

// next is the stage that follows the present one, and whether there is one.
func (r Release) nextStage() (Stage, bool) {
	i := slices.Index(r.Spec.Stages, r.Stage)
	if i < 0 || i+1 >= len(r.Spec.Stages) {
		return "", false
	}
	return r.Spec.Stages[i+1], true
}

// runs reports whether the stage is one of the release's.
func (r Release) runs(s Stage) bool { return slices.Contains(r.Spec.Stages, s) }

// beganOnPrimary reports whether the traffic was on the primary when the release
// began; a retreat then ends there.
func (r Release) beganOnPrimary() bool {
	return len(r.Spec.Stages) > 0 && r.Spec.Stages[0] == StageCanary
}

// template is the one that a track is to have by now: the admitted one, or the
// one that it was promoted to.
func (r Release) template(t Track) Template {
	if p := r.Promotion; t == Primary && p != nil && p.To != nil {
		return *p.To
	}
	return r.Binding.Tracks[t].Template
}

// undoTo is the template that an undo of the track leads to, nil where this
// release does not undo it. It never does with the canary, whose template it
// does not change. A primary that it promotes goes back to what was admitted.
func (r Release) undoTo(t Track) *Template {
	switch {
	case t == Canary:
		return nil
	case r.runs(StagePromote):
		return &r.Binding.Tracks[Primary].Template
	case r.runs(StageShift):
		return r.Binding.Tracks[Primary].UndoTo
	}
	return nil
}

// PromoteImages are the images that the primary is to take over from the canary,
// by container: those of the containers that both have.
func (b Binding) PromoteImages() map[string]string {
	out := map[string]string{}
	for name := range b.Tracks[Primary].Template.Images {
		if image, ok := b.Tracks[Canary].Template.Images[name]; ok {
			out[name] = image
		}
	}
	return out
}

// with returns a changed copy; the record never shares a promotion.
func (p *Promotion) with(f func(*Promotion)) *Promotion {
	c := *p
	f(&c)
	return &c
}

// carries reports whether a template has the images, and is not the admitted one.
func (p *Promotion) carries(tpl, admitted Template) bool {
	if tpl.Hash == admitted.Hash {
		return false
	}
	for name, image := range p.Images {
		if tpl.Images[name] != image {
			return false
		}
	}
	return true
}

// trackPromotion notes the template that the primary was promoted to, when it is
// first seen, and reports whether the live template is one that a promote may
// have: the admitted one before it, the new one after it.
func (t *turn) trackPromotion() bool {
	tpl, p, admitted := t.o.Tracks[Primary].Template, t.r.Promotion, t.r.Binding.Tracks[Primary].Template
	if !tpl.Ok() || tpl.Val.Hash == t.r.template(Primary).Hash {
		return true
	}
	if p == nil || p.To != nil || p.Asked.IsZero() || !p.carries(tpl.Val, admitted) {
		return false
	}
	to := tpl.Val
	t.r.Promotion = p.with(func(x *Promotion) { x.To = &to })
	t.save = true
	return true
}

// startStage begins the first stage, when the routes are marked.
func (t *turn) startStage() {
	if t.r.Stage != StagePromote {
		t.startStep(0)
		return
	}
	t.r.Promotion = &Promotion{Images: t.r.Binding.PromoteImages()}
	t.enter(Settling, ReasonAwaitingShown, t.budgetOf(Settling))
	t.again = true
}

// stageOver goes on after the drain at the end of a stage, or after the promote.
func (t *turn) stageOver() {
	next, more := t.r.nextStage()
	switch {
	case !more && t.r.Stage == StageShift:
		t.enter(Shrinking, ReasonShrinking, t.r.Spec.Deadlines.Undo)
	case !more:
		t.enter(Confirming, ReasonConfirming, t.r.Spec.Deadlines.Confirm)
	case next == StagePromote:
		t.closeStep()
		t.r.Stage, t.r.Proof, t.save = StagePromote, nil, true
		t.r.Promotion = &Promotion{Images: t.r.Binding.PromoteImages()}
		t.beginPromoting()
	default:
		t.beginShiftStage()
	}
}

// beginShiftStage turns the roles round: the primary has the new template and no
// share, and is judged from here on. No evidence about the canary counts for it.
func (t *turn) beginShiftStage() {
	t.closeStep()
	t.r.Stage = StageShift
	t.r.Target, t.r.Last, t.r.Passed = 100-t.r.Target, 100-t.r.Last, 0
	t.r.Plan = resolveSteps(t.r.Spec.Steps, 0)
	t.r.Suspect = t.r.template(Primary).Hash
	t.r.Proof, t.r.Verdict, t.r.Backs, t.r.Tries = nil, nil, 0, nil
	t.r.ExposedUntil = time.Time{}
	t.r.Drained, t.r.Drain = nil, nil
	t.r.Gate = t.r.Gate.NextStage()
	t.save = true
	t.tell("Next is the shift: the traffic comes back to the %s, from 0 %% to %s.", Primary, stepsText(t.r.Spec.Steps))
	t.startStep(0)
}

// StagePlan is the steps of one stage.
type StagePlan struct {
	Stage Stage
	Steps []Step
}

// StagePlans are the steps of each stage that has some, as they are foreseen when
// the release begins.
func (r Release) StagePlans() []StagePlan {
	var out []StagePlan
	for i, s := range r.Spec.Stages {
		switch {
		case s == StagePromote:
		case i == 0:
			out = append(out, StagePlan{s, r.Plan})
		default:
			out = append(out, StagePlan{s, resolveSteps(r.Spec.Steps, 0)})
		}
	}
	return out
}

// imagesText names images as people know them.
func imagesText(images map[string]string) string {
	if len(images) == 1 {
		for _, image := range images {
			return image
		}
	}
	s := ""
	for _, name := range slices.Sorted(maps.Keys(images)) {
		if s != "" {
			s += ", "
		}
		s += fmt.Sprintf("%s: %s", name, images[name])
	}
	return s
}
