package release

import (
	"fmt"
	"math"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// This file holds the promote stage: at zero traffic the primary takes the
// canary's images by a rolling update of its own.

func (t *turn) beginPromoting() {
	t.enter(Promoting, ReasonPromoting, t.r.Spec.Deadlines.Promote)
	t.again = true
}

// promoting gives the primary its new images and waits until all its pods have
// them and have been ready for a while.
func (t *turn) promoting() {
	if t.drifted() || t.rang() {
		return
	}
	p, s, admitted := t.r.Promotion, t.o.Tracks[Primary], t.r.Binding.Tracks[Primary].Template
	switch why := t.refusedPromote(); {
	case why != "":
		t.trouble(ClassWorkloadTerminal, "%s", why)
	case !s.Template.Ok():
		t.promoteOver("its template cannot be read: " + s.Template.Why)
	case p.To != nil && s.Template.Val.Hash == p.To.Hash:
		t.rollingOut(s)
	case t.over():
		t.promoteOver("the update could not be written" + t.failedBy(Promote{}.Kind()))
	case s.Template.Val.Hash == admitted.Hash:
		if p.Asked.IsZero() {
			t.r.Promotion = p.with(func(x *Promotion) { x.Asked = t.now })
			t.tell("The %s has no traffic and is quiet; it takes %s.", Primary, imagesText(p.Images))
		}
		t.act(Promote{Track: Primary, UID: t.r.Binding.Tracks[Primary].UID, From: admitted, Images: p.Images})
	}
}

// rang answers the guard over the canary, which serves everything meanwhile:
// there is no step with a control to go back to any more.
func (t *turn) rang() bool {
	v := t.o.Verdict
	if !v.Ok() || v.Val.Reason != analysis.GuardAlarm || v.Val.Share != t.r.Target {
		return false
	}
	t.r.Verdict = &v.Val
	t.trouble(ClassGateFailed, "The guard at 100 %% rang while the %s was promoted: %s", Primary, verdictSentence(v.Val, t.r))
	return true
}

// rollingOut waits for the steady state of the new template.
func (t *turn) rollingOut(s TrackState) {
	p := t.r.Promotion
	if t.steady(s) {
		if p.Steady.IsZero() {
			p = p.with(func(x *Promotion) { x.Steady = t.now })
			t.r.Promotion = p
		}
		if t.wake = p.Steady.Add(t.r.Spec.Deadlines.Steady); t.now.Before(t.wake) {
			return
		}
		t.r.Promotion = p.with(func(x *Promotion) { x.Done = t.now })
		t.save = true
		t.tell("The %s runs %s: rolled out, with %d ready pods for %s.", Primary, imagesText(p.Images), usable(s), t.now.Sub(p.Steady).Round(time.Second))
		t.stageOver()
		return
	}
	if !p.Steady.IsZero() {
		t.r.Promotion = p.with(func(x *Promotion) { x.Steady = time.Time{} })
	}
	if tr, bad := worst(s, TroubleTerminal, p.To.Hash); bad {
		t.trouble(ClassWorkloadTerminal, "%s of the new %s: %s %s.", tr.Pod, Primary, tr.Reason, tr.Message)
		return
	}
	if !t.over() {
		return
	}
	if tr, bad := worst(s, TroubleRetryable, p.To.Hash); bad {
		t.trouble(ClassWorkloadRetryable, "The %s has %s of %d ready pods: %s %s.", Primary, counted(s), t.promoteNeed(s), tr.Reason, tr.Message)
		return
	}
	t.promoteOver(fmt.Sprintf("it has %s of %d ready pods, and old ones may be left", counted(s), t.promoteNeed(s)))
}

// promoteOver answers a promote that takes too long.
func (t *turn) promoteOver(what string) {
	switch {
	case !t.over():
	case t.o.Unreachable != "":
		t.trouble(ClassConnectivity, "The API server does not answer: %s.", t.o.Unreachable)
	default:
		t.trouble(ClassTimeout, "The %s was not promoted in time: %s.", Primary, what)
	}
}

// promoteNeed is how many pods must be ready: nearly all of them, and what the
// first share needs.
func (t *turn) promoteNeed(s TrackState) int {
	return max(int(math.Ceil(0.95*float64(s.Desired.Val))), min(s.Desired.Val, t.r.need(t.r.Spec.Steps[0])))
}

// steady reports a rollout that is complete: nearly all pods are ready, and none
// of another template is left, nor one that is leaving.
func (t *turn) steady(s TrackState) bool {
	return s.Desired.Ok() && s.Stale.Ok() && s.Leaving.Ok() && s.Stale.Val == 0 && s.Leaving.Val == 0 &&
		usable(s) >= t.promoteNeed(s)
}

// refusedPromote is what was said against the update itself.
func (t *turn) refusedPromote() string {
	for _, f := range t.o.Failed {
		if f.Kind == (Promote{}).Kind() && (f.Err == ErrKindForbidden || f.Err == ErrKindRefused) {
			return fmt.Sprintf("The API server answered to the update of the %s: %s (%s).", Primary, f.Text, f.Err)
		}
	}
	return ""
}

// failedBy is what became of the last action of a kind.
func (t *turn) failedBy(kind string) string {
	for _, f := range t.o.Failed {
		if f.Kind == kind {
			return fmt.Sprintf(" (%s: %s)", f.Err, f.Text)
		}
	}
	return ""
}

// rollsOut reports a promote that was begun and is not done: it is never left as
// it is.
func (r Release) rollsOut() bool {
	return r.Stage == StagePromote && r.Promotion != nil && !r.Promotion.Asked.IsZero() && r.Promotion.Done.IsZero()
}
