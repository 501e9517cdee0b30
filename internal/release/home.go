package release

import "time"

// This file holds the second half of a retreat that first went to the canary: the
// restored primary, on which the release began, gets the traffic back.

// toGoHome reports a retreat that is not over with the undo.
func (t *turn) toGoHome() bool {
	re := t.r.Retreat
	return t.r.beganOnPrimary() && re.Refuge == Canary && !re.Stay
}

// goHome turns the retreat round. The primary has its admitted template and no
// share; it gets the traffic by its ready pods, and the canary is drained.
func (t *turn) goHome() {
	t.r.Retreat = t.r.Retreat.with(func(x *Retreat) {
		x.Home, x.Refuge, x.Suspect = true, Primary, t.r.template(Canary).Hash
		x.Moving, x.Forced = false, false
		x.Moved, x.Shown = time.Time{}, time.Time{}
		x.Drained = time.Time{}
	})
	t.enter(Retreating, t.r.Retreat.Why, t.r.Spec.Deadlines.Grow)
	t.save, t.again = true, true
	t.tell("The release began on the %s, which is as it was then: the traffic goes back there.", Primary)
}

// fitForHome reports whether the primary has the admitted template. One that a
// promote has changed all the same, after it was seen unchanged, is left and undone
// first; not for ever.
func (t *turn) fitForHome() bool {
	tpl, admitted := t.o.Tracks[Primary].Template, t.r.Binding.Tracks[Primary].Template
	if !tpl.Ok() || tpl.Val.Hash == admitted.Hash {
		return true
	}
	p := t.r.Promotion
	if p == nil || !p.carries(tpl.Val, admitted) || t.r.Retreat.Again >= maxAgain {
		t.fail(ReasonTemplateChanged, "The template of the %s is %s, not the admitted %s, so no more traffic is given to it.", Primary, tpl.Val.Hash, admitted.Hash)
		return false
	}
	to := tpl.Val
	t.r.Promotion = p.with(func(x *Promotion) { x.To = &to })
	t.r.Retreat = t.r.Retreat.with(func(x *Retreat) {
		x.Home, x.Refuge, x.Suspect = false, Canary, to.Hash
		x.Moving, x.Again = false, x.Again+1
		x.Moved, x.Shown = time.Time{}, time.Time{}
		x.Drained = time.Time{}
	})
	t.enter(Retreating, t.r.Retreat.Why, t.r.Spec.Deadlines.Grow)
	t.save, t.again = true, true
	t.tell("The %s has the new template all the same; it is undone first.", Primary)
	return false
}

// stay lets a retreat end with the traffic on the canary.
func (t *turn) stay() {
	if t.r.Retreat != nil {
		t.r.Retreat = t.r.Retreat.with(func(x *Retreat) { x.Stay = true })
	}
}
