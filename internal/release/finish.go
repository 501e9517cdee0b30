package release

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
)

// This file holds the phases that an advance and a retreat share: the drain of
// the track without share, its last size, and the confirmation.

// loser is the track that has no share, or has lost it.
func (t *turn) loser() Track {
	if t.r.Retreat != nil {
		return t.r.Retreat.Refuge.Other()
	}
	return t.r.Outgoing()
}

// draining waits until the track without share is quiet. While any proxy still
// sends it new requests it is neither undone nor sized to 0.
func (t *turn) draining() {
	tr := t.loser()
	if !t.stillAway(tr) {
		return
	}
	if v := t.o.Verdict; t.r.Retreat == nil && v.Ok() && v.Val.Reason == analysis.GuardAlarm && v.Val.Share == t.r.Target {
		t.stepBack(v.Val)
		return
	}
	st := t.o.Drain[tr]
	if st.Ok() && st.Val.Status.Over() {
		t.drained(tr, st.Val)
		return
	}
	if !t.over() {
		return
	}
	switch {
	case st.Ok() && (len(st.Val.Senders) > 0 || st.Val.New > 0):
		t.fail(ReasonDrainIncomplete, "Proxies still send requests to the %s, so it was left running: %v.", tr, st.Val.Senders)
	case st.Ok() && -t.r.Work.Left < t.r.Spec.Deadlines.Settle+t.r.maxRequest():
		// Nothing is known to arrive: the judge ends it by itself when the last
		// request that it saw has had its time.
	case st.Ok() && st.Val.Status == drain.Unknown:
		// It did not; whatever cannot be seen was waited for longer than any
		// request may run.
		s := st.Val
		s.Status = drain.Assumed
		t.drained(tr, s)
	case st.Ok():
		s := st.Val
		s.Status, s.Cut = drain.Forced, s.InFlight
		t.r.Unverified = appendNew(t.r.Unverified, fmt.Sprintf("the drain of the %s could not be measured: %s", tr, s.Why))
		t.drained(tr, s)
	default:
		t.fail(ReasonDrainIncomplete, "Nothing is known about what the %s still serves, so it was left running.", tr)
	}
}

// stillAway guards a drain against weights that came back.
func (t *turn) stillAway(tr Track) bool {
	_, hi, ok := declared(t.o.Routes, tr)
	if ok && hi == 0 {
		return true
	}
	if !ok {
		if -t.r.Work.Left > t.r.Spec.Deadlines.Settle+t.r.maxRequest() {
			t.fail(ReasonConnectivity, "The routes have not been readable for the whole time, so the %s was left as it is: %s.", tr, t.o.Unreachable)
		}
		return false
	}
	if t.r.Retreat != nil {
		t.moveAgain(tr, hi)
		return false
	}
	t.drifted()
	return false
}

// maxAgain is how often a retreat takes share away that another hand gave back.
const maxAgain = 3

// moveAgain takes back what another hand gave to the track that was left, and
// begins the way from there; not for ever.
func (t *turn) moveAgain(tr Track, hi float64) {
	if t.r.Retreat.Again >= maxAgain {
		t.fail(ReasonContested, "The %s has %s again by another hand%s, for the %dth time on the way back; it is left so.", tr, percent(hi), t.foreignBy(), maxAgain+1)
		return
	}
	t.r.Retreat = t.r.Retreat.with(func(x *Retreat) {
		x.Moved, x.Shown, x.Drained = time.Time{}, time.Time{}, time.Time{}
		x.Again++
	})
	t.r.Declared, t.r.Accepted, t.r.Shown = time.Time{}, time.Time{}, time.Time{}
	t.r.Drained, t.r.Drain = nil, nil
	t.enter(Retreating, t.r.Retreat.Why, t.r.Spec.Deadlines.Grow)
	t.save = true
	t.tell("The %s has %s again by another hand%s; moving it away once more.", tr, percent(hi), t.foreignBy())
	t.again = true
}

// drainWord says a drain's end in a sentence.
func drainWord(s drain.Status) string {
	switch s {
	case drain.Assumed:
		return "taken as quiet"
	case drain.Forced:
		return "cut short"
	case drain.Drained, drain.Draining, drain.Unknown:
	}
	return string(s)
}

func (t *turn) drained(tr Track, s drain.State) {
	t.r.Drain, t.r.Drained, t.save = &s, &tr, true
	t.tell("The %s is %s after %s: %s.", tr, drainWord(s.Status), s.Took.Round(100*time.Millisecond), strings.TrimSuffix(s.Why, "."))
	if s.Status == drain.Assumed {
		t.r.Unverified = appendNew(t.r.Unverified, fmt.Sprintf("the drain of the %s was not measured, but waited out", tr))
	}
	if t.r.Retreat != nil {
		t.r.Retreat = t.r.Retreat.with(func(x *Retreat) { x.Drained = t.now })
		t.enter(Undoing, ReasonUndoing, t.r.Spec.Deadlines.Undo)
		return
	}
	if t.r.Stage == StagePromote {
		t.beginPromoting()
		return
	}
	t.stageOver()
}

// endSize is the size that the track without share ends with: the canary its
// endReplicas, the primary its size at admission.
func (t *turn) endSize(tr Track) int {
	if tr == Canary {
		return t.r.Spec.EndReplicas
	}
	return t.r.Binding.Tracks[tr].Replicas
}

// shrinking gives the quiet track the size that it ends with.
func (t *turn) shrinking() {
	tr := t.loser()
	if !t.stillAway(tr) {
		return
	}
	s, size := t.o.Tracks[tr], t.endSize(tr)
	switch {
	case s.Desired.Ok() && s.Desired.Val == size && rolledOut(s):
		t.enter(Confirming, ReasonConfirming, t.r.Spec.Deadlines.Confirm)
	case t.over():
		t.trouble(ClassUnconfirmed, "The %s has not come to %d ready pods in time.", tr, size)
	case s.Desired.Ok() && s.Desired.Val != size:
		t.act(Scale{Track: tr, UID: t.r.Binding.Tracks[tr].UID, Replicas: size})
	}
}

// confirming checks everything once more, takes the marks off, and ends.
func (t *turn) confirming() {
	if e := t.r.Ending; e != nil {
		t.release(e.Phase, e.Reason, e.Message)
		return
	}
	if missing := t.unconfirmed(); len(missing) > 0 {
		if t.over() {
			t.r.Unverified = missing
			t.trouble(ClassUnconfirmed, "Not confirmed in time: %v.", missing)
		}
		return
	}
	if re := t.r.Retreat; re != nil {
		t.release(re.Ends, re.Why, t.retreatStory())
		return
	}
	t.release(Succeeded, ReasonCompleted, t.successStory())
}

// successStory sums a success up in one sentence.
func (t *turn) successStory() string {
	out := t.r.Outgoing()
	if t.r.Stage == StagePromote {
		return fmt.Sprintf("The %s runs %s, and all traffic is still on the %s.", out, imagesText(t.r.Promotion.Images), t.r.Incoming())
	}
	return fmt.Sprintf("All traffic is on the %s, and the %s is at %d replicas.", t.r.Incoming(), out, t.o.Tracks[out].Desired.Val)
}

// unmarkedText says that a mark is left on a route.
const unmarkedText = "the in-progress label could not be taken off"

// release takes the marks off and ends; marks that cannot be taken off in time
// are listed.
func (t *turn) release(end Phase, why Reason, msg string) {
	switch {
	case t.unmarked():
	case t.over():
		t.r.NeedsHuman = true
		t.r.Unverified = appendNew(t.r.Unverified, unmarkedText)
	default:
		for i, s := range t.o.Routes {
			if s.Marked.Ok() && s.Marked.Val == t.r.Key.Name {
				t.act(Mark{Route: s.Ref, UID: t.r.Binding.Routes[i].UID, On: false})
			}
		}
		return
	}
	t.end(end, why, "%s", msg)
}

// unconfirmed lists what the end still lacks.
func (t *turn) unconfirmed() []string {
	var out []string
	add := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	lo, hi := t.loser(), t.loser().Other()
	serving, quiet := t.o.Tracks[hi], t.o.Tracks[lo]
	want := 100.0
	if hi != t.r.Incoming() {
		want = 0
	}
	add(t.atTarget(want), "the routes do not give the %s everything", hi)
	add(t.accepted() != AcceptedRefused, "a controller refuses the weights")
	if s := t.o.Shown; s.Ok() && t.fresh(s.Val) {
		add(s.Val.Status != analysis.ShownNo, "the data plane shows another split%s", t.laggards())
	}
	add(rolledOut(serving), "the %s is not rolled out and ready", hi)
	if t.r.Stage == StageShift || t.r.Retreat != nil {
		add(quiet.Desired.Ok() && quiet.Desired.Val == t.endSize(lo), "the %s is not at %d replicas", lo, t.endSize(lo))
	}
	add(rolledOut(quiet) || t.r.Stage == StagePromote && t.r.Retreat == nil && t.steady(quiet), "pods of the %s are still coming or leaving", lo)
	add(t.r.Drained != nil && *t.r.Drained == lo, "the %s is not known to be quiet", lo)
	back := t.r.undoTo(Primary)
	if back == nil {
		return out
	}
	held := slices.ContainsFunc(t.o.Tracks[Primary].History, func(h Template) bool { return h.Hash == back.Hash })
	add(held, "the earlier revision of the %s is gone from its history", Primary)
	if re := t.r.Retreat; re != nil && !re.Undone.IsZero() {
		tpl := t.o.Tracks[Primary].Template
		add(tpl.Ok() && tpl.Val.Hash == back.Hash, "the %s is not on the template it was undone to", Primary)
	}
	return out
}
