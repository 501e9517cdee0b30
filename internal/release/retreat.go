package release

import (
	"fmt"
	"slices"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// This file holds the way back. In order: choose the refuge once, grow it, move
// the weights as far as its ready pods allow, see it shown, drain the other
// track, and only then undo it.

// with returns a changed copy; the record never shares a retreat.
func (x *Retreat) with(f func(*Retreat)) *Retreat {
	c := *x
	f(&c)
	return &c
}

// minHop is the least that a partial hop moves, so that a refuge which grows
// pod by pod does not mean a write for each.
const minHop = 10

// retreat begins the way back.
func (t *turn) retreat(why Reason, ends Phase, mode Mode, words string) {
	ref, ok := t.chooseRefuge()
	if ends == Aborted && ref == t.r.Incoming() && t.r.Stage != StagePromote {
		ok = false // an abort never raises what it was to stop (I9)
	}
	if !ok {
		t.fail(ReasonNoRefuge, "%s No track is fit to take the traffic.", why.Sentence())
		return
	}
	t.closeStep()
	t.r.Hold, t.save = nil, true
	t.r.Retreat = &Retreat{
		Why:     why,
		Ends:    ends,
		Mode:    mode,
		Refuge:  ref,
		Suspect: t.r.Suspect,
		Began:   t.now,
		From:    exposure(t.r, t.o.Routes, ref.Other()),
		Reason:  words,
	}
	if ref == t.r.Incoming() {
		t.r.Retreat.Suspect = t.r.template(ref.Other()).Hash
	}
	t.enter(Retreating, why, t.r.Spec.Deadlines.Grow)
	if ref == t.r.Incoming() && t.r.Stage == StagePromote {
		t.tell("Putting the %s back while the %s has the traffic: %s", ref.Other(), ref, why.Sentence())
	} else {
		t.tell("Going back to the %s: %s", ref, why.Sentence())
	}
	t.again = true
}

// chooseRefuge picks the track that gets the traffic: the one that is not the
// suspect, unless the evidence is against it; else the other, if that is still
// on its admitted template and has pods; else none.
func (t *turn) chooseRefuge() (Track, bool) {
	out, in := t.r.Outgoing(), t.r.Incoming()
	if t.r.Stage == StagePromote {
		return t.promoteRefuge(), true
	}
	if t.soundRefuge(out) {
		return out, true
	}
	if v := t.o.Verdict; t.soundRefuge(in) && !(v.Ok() && v.Val.Outcome == analysis.Fail) {
		return in, true
	}
	return out, false
}

// promoteRefuge is the primary while nothing was written to it and the release
// began there. Later the traffic stays on the canary until the primary is back on
// its admitted template.
func (t *turn) promoteRefuge() Track {
	if p := t.r.Promotion; p.Asked.IsZero() && t.r.beganOnPrimary() && t.soundRefuge(Primary) {
		return Primary
	}
	return Canary
}

// safetyBroken reports a suspect that breaks a safety limit right now. Once the
// judged track was left, the limits are not about the way from there.
func (t *turn) safetyBroken() bool {
	v := t.o.Verdict
	if re := t.r.Retreat; re != nil && (re.Home || t.r.Stage == StagePromote && re.Refuge == Canary) {
		return false
	}
	return v.Ok() && v.Val.Reason == analysis.SafetyLimit
}

// soundRefuge reports whether nothing is known against a track: it is there, and
// it still has the template that was admitted.
func (t *turn) soundRefuge(tr Track) bool {
	s, b := t.o.Tracks[tr], t.r.Binding.Tracks[tr]
	if s.UID != "" && s.UID != b.UID {
		return false
	}
	return !s.Template.Ok() || s.Template.Val.Hash == t.r.template(tr).Hash
}

// retreating grows the refuge, moves the weights and waits until that is shown.
func (t *turn) retreating() {
	re := t.r.Retreat
	if re.Home && !t.fitForHome() {
		return
	}
	s, goal := t.o.Tracks[re.Refuge], t.refugeTarget(100)
	arrived := t.atTarget(goal) // by whatever hand
	if !arrived && t.over() {
		t.retreatOver(s)
		return
	}
	if full := t.r.need(100); s.Desired.Ok() && s.Desired.Val < full {
		t.act(Scale{Track: re.Refuge, UID: t.r.Binding.Tracks[re.Refuge].UID, Replicas: full})
	}
	if arrived {
		t.aim(goal)
		t.retreatMoved()
		return
	}
	if next, ok := t.hop(usable(s)); ok {
		t.aimBack(next)
	}
	if t.r.Retreat.Moving && !t.atTarget(t.r.Target) {
		t.writeShare()
	}
}

// refugeTarget turns a share of the refuge into the incoming track's.
func (t *turn) refugeTarget(share float64) float64 {
	if t.r.Retreat.Refuge == t.r.Incoming() {
		return share
	}
	return 100 - share
}

// hop is the next target on the way back, and whether it is further than the
// present one: never more than the ready pods carry (unless forced), never less
// than what the refuge has.
func (t *turn) hop(ready int) (float64, bool) {
	re := t.r.Retreat
	allowed := Capacity(t.r.Binding.Full, ready, t.r.Spec.Size)
	if re.forced() {
		allowed = 100
	}
	// A route that cannot be read does not keep the others back.
	lo, _, ok := declared(slices.DeleteFunc(slices.Clone(t.o.Routes), func(s RouteState) bool { return !s.Split.Ok() }), re.Refuge)
	if !ok {
		return 0, false
	}
	aimed := t.refugeTarget(t.r.Target)
	if allowed <= aimed && re.Moving || allowed < 100 && allowed < max(lo, aimed)+minHop {
		return 0, false
	}
	return t.refugeTarget(allowed), true
}

// aimBack sets the target of a hop.
func (t *turn) aimBack(target float64) {
	t.r.Retreat = t.r.Retreat.with(func(x *Retreat) { x.Moving = true })
	if target == t.r.Target {
		return
	}
	t.aim(target)
	t.tell("Moving the %s to %s.", t.r.Retreat.Refuge, percent(t.refugeTarget(target)))
}

// retreatMoved waits until the data plane shows what is declared, then drains.
func (t *turn) retreatMoved() {
	re := t.r.Retreat
	if re.Moved.IsZero() {
		t.r.Retreat = re.with(func(x *Retreat) { x.Moved = t.now })
		t.r.Work = Work{Left: max(t.r.Spec.Deadlines.Shown, t.r.Spec.Deadlines.Settle), At: t.now}
	}
	if t.r.Shown.IsZero() {
		by := t.shownBy()
		if by == "" {
			switch {
			case !t.over():
			case t.accepted() == AcceptedRefused:
				t.fail(ReasonRouteRefused, "%s Nothing was sized down or undone.", t.refusal())
			default:
				t.fail(ReasonDrainIncomplete, "The %s has all declared share, but the data plane does not show it%s; nothing was sized down or undone.",
					re.Refuge, t.laggards())
			}
			return
		}
		t.setShown(by)
		if by == ShownBySettle {
			t.r.Unverified = appendNew(t.r.Unverified, "that the data plane shows the way back was not counted, but waited out")
		}
	}
	t.r.Retreat = t.r.Retreat.with(func(x *Retreat) { x.Shown = t.now })
	t.enter(Draining, ReasonDraining, t.r.Spec.Deadlines.Drain)
}

// retreatOver is the escape of a retreat that does not get on: force it where
// the suspect breaks a safety limit, else wait for a person, traffic kept.
func (t *turn) retreatOver(s TrackState) {
	re := t.r.Retreat
	if why := t.refusedWrite(); why != "" {
		t.fail(ReasonRouteRefused, "%s Nothing was sized down or undone.", why)
		return
	}
	for i, r := range t.o.Routes {
		if r.UID != "" && r.UID != t.r.Binding.Routes[i].UID {
			t.fail(ReasonRecreated, "%s is another object than the admitted one, so its weights were left. Nothing was sized down or undone.", r.Ref)
			return
		}
	}
	pol := PolicyFor(t.r.Spec.Preset, t.r.Spec.Holds)[ClassContested]
	wait := Response{Do: DoHold, For: pol.For, Then: &Response{Do: DoFail}}
	switch {
	case t.o.Unreachable != "":
		t.hold(ClassConnectivity, wait, fmt.Sprintf("The API server does not answer (%s), so the weights could not be moved back.", t.o.Unreachable))
	case !re.Forced && t.safetyBroken():
		t.force(s)
	case usable(s) < t.r.need(100) && !re.forced():
		t.hold(ClassCapacity, wait, fmt.Sprintf("The %s has %s of %d ready pods, so it cannot take all of the traffic back.", re.Refuge, counted(s), t.r.Binding.Full))
	default:
		t.fail(ReasonTimeout, "The weights could not be moved back in time; nothing was sized down or undone.")
	}
}

// forced reports a retreat that gives share beyond ready pods. The way from a
// refuge that serves has no such haste.
func (x *Retreat) forced() bool { return !x.Home && (x.Forced || x.Mode == ModeForce) }

// force moves all share regardless of the refuge's pods.
func (t *turn) force(s TrackState) {
	t.r.Retreat = t.r.Retreat.with(func(x *Retreat) { x.Forced = true })
	t.r.Work = Work{Left: t.r.Spec.Deadlines.Write, At: t.now}
	t.again, t.save = true, true
	ref := t.r.Retreat.Refuge
	t.tell("The %s breaks a safety limit and the %s has only %s of %d ready pods: all share is moved regardless.",
		ref.Other(), ref, counted(s), t.r.Binding.Full)
}

// undoing sets the drained track's template back, if this release is to do so,
// and waits until its pods are ready.
func (t *turn) undoing() {
	tr := t.loser()
	if !t.stillAway(tr) {
		return
	}
	b, s, back := t.r.Binding.Tracks[tr], t.o.Tracks[tr], t.r.undoTo(tr)
	if back == nil {
		if tr == t.r.Incoming() || t.r.Retreat.Home {
			t.tell("The template of the %s was not changed by this release and is left: %s.", tr, templateName(b.Template))
		}
		t.enter(Shrinking, ReasonShrinking, t.r.Spec.Deadlines.Undo)
		return
	}
	if !s.Template.Ok() {
		t.undoOver(tr, "its template cannot be read")
		return
	}
	t.suspectPromoted(s.Template.Val)
	switch s.Template.Val.Hash {
	case back.Hash:
		if rolledOut(s) {
			t.undone(tr, *back)
			return
		}
		what := "its pods cannot be seen"
		if s.Desired.Ok() {
			what = fmt.Sprintf("it has %s of %d ready pods", counted(s), s.Desired.Val)
		}
		t.undoOver(tr, what)
	case t.r.Retreat.Suspect:
		if why := t.refusedUndo(); why != "" {
			t.fail(ReasonUndoSkipped, "%s", why)
			return
		}
		if t.over() {
			t.undoOver(tr, "the write did not succeed")
			return
		}
		t.act(Undo{Track: tr, UID: b.UID, From: s.Template.Val, To: *back})
	default:
		t.notUndone(tr, s.Template.Val)
	}
}

// suspectPromoted lets an undo be of the template that a promote made, when that
// is seen only now.
func (t *turn) suspectPromoted(live Template) {
	p := t.r.Promotion
	if p == nil || p.Asked.IsZero() || live.Hash == t.r.Retreat.Suspect || !p.carries(live, t.r.Binding.Tracks[Primary].Template) {
		return
	}
	t.r.Retreat = t.r.Retreat.with(func(x *Retreat) { x.Suspect = live.Hash })
	t.r.Promotion = p.with(func(x *Promotion) { x.To = &live })
	t.save = true
}

// undone goes on from a track that is back on its template: home, where the
// release began on it, else to the last size.
func (t *turn) undone(tr Track, back Template) {
	if t.r.Retreat.Suspect == back.Hash {
		t.tell("The %s still has %s, so nothing is to be undone.", tr, templateName(back))
	} else {
		t.r.Retreat = t.r.Retreat.with(func(x *Retreat) { x.Undone = t.now })
		t.tell("The %s is back on %s, with %d ready pods.", tr, templateName(back), usable(t.o.Tracks[tr]))
	}
	if t.toGoHome() {
		t.goHome()
		return
	}
	t.enter(Shrinking, ReasonShrinking, t.r.Spec.Deadlines.Undo)
}

// notUndone leaves a template that somebody else has made. Traffic does not go
// home to it.
func (t *turn) notUndone(tr Track, live Template) {
	what := fmt.Sprintf("the template of the %s is %s, which is neither the suspect nor its predecessor; it was left", tr, live.Hash)
	if t.toGoHome() {
		t.fail(ReasonUndoSkipped, "The traffic stays on the %s, as %s.", tr.Other(), what)
		return
	}
	t.r.Unverified = appendNew(t.r.Unverified, what)
	t.enter(Shrinking, ReasonShrinking, t.r.Spec.Deadlines.Undo)
}

func (t *turn) undoOver(tr Track, what string) {
	if t.over() {
		t.fail(ReasonUndoIncomplete, "The %s was not undone in time: %s.", tr, what)
	}
}

func (t *turn) refusedUndo() string {
	for _, f := range t.o.Failed {
		if f.Kind == (Undo{}).Kind() && (f.Err == ErrKindForbidden || f.Err == ErrKindRefused) {
			return fmt.Sprintf("The API server answered to the undo: %s (%s).", f.Text, f.Err)
		}
	}
	return ""
}

// retreatStory sums a retreat up in one sentence.
func (t *turn) retreatStory() string {
	re := t.r.Retreat
	s := fmt.Sprintf("All traffic is back on the %s, %s after the decision", re.Refuge, re.Shown.Sub(re.Began).Round(100*time.Millisecond))
	if t.r.Stage == StagePromote && re.Refuge == Canary {
		s = fmt.Sprintf("All traffic stayed on the %s", re.Refuge)
	}
	if t.r.Drain != nil {
		s += fmt.Sprintf("; the %s was %s", re.Refuge.Other(), drainWord(t.r.Drain.Status))
	}
	if !re.Undone.IsZero() {
		if re.Home {
			s += fmt.Sprintf(", and the %s", Primary)
		} else {
			s += " and"
		}
		s += " undone to " + templateName(*t.r.undoTo(Primary))
	}
	return s + "."
}

// templateName is how people know a template: its images, else its hash.
func templateName(t Template) string {
	if len(t.Images) == 1 {
		for _, img := range t.Images {
			return img
		}
	}
	return "template " + t.Hash
}
