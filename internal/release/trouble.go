package release

import (
	"fmt"
	"maps"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// trouble answers a class of trouble with the release's policy. Within a
// retreat no class starts another one: each phase there has its own escape.
func (t *turn) trouble(c Class, format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	t.respond(c, PolicyFor(t.r.Spec.Preset, t.r.Spec.Holds)[c], msg)
}

func (t *turn) respond(c Class, resp Response, msg string) {
	why := Reason(c)
	switch resp.Do {
	case DoRetry:
		if t.r.Tries[c] < resp.Times {
			t.retry(c, msg)
			return
		}
		t.respond(c, resp.then(), msg)
	case DoHold:
		t.hold(c, resp, msg)
	case DoRollback:
		t.tell("%s", msg)
		t.retreat(why, RolledBack, ModeGraceful, msg)
	case DoAbort:
		t.tell("%s", msg)
		t.retreat(why, Aborted, ModeGraceful, msg)
	case DoFail:
		t.fail(why, "%s", msg)
	default:
		t.fail(ReasonInternal, "Policy answer %q to %s is not known: %s", resp.Do, c, msg)
	}
}

// retry gives the phase a fresh budget, counted.
func (t *turn) retry(c Class, msg string) {
	t.count(c)
	msg = fmt.Sprintf("%s Trying again (%d).", msg, t.r.Tries[c])
	if t.r.Phase == Held {
		t.resume(msg)
		return
	}
	t.tell("%s", msg)
	t.r.Work = Work{Left: t.budgetOf(t.r.Phase), At: t.now}
}

// count notes one more try at a class of trouble.
func (t *turn) count(c Class) {
	t.r.Tries = maps.Clone(t.r.Tries)
	if t.r.Tries == nil {
		t.r.Tries = map[Class]int{}
	}
	t.r.Tries[c]++
	t.save = true
}

// hold stops the release where it is, with a deadline. Another trouble while it is
// held takes the place of one that might clear; the first deadline stays.
func (t *turn) hold(c Class, resp Response, msg string) {
	from, until := t.r.Phase, t.now.Add(resp.For)
	if h := t.r.Hold; from == Held {
		if h.Class == c || !clears(h.Class) {
			return
		}
		from, until = h.From, earlier(h.Until, until)
	}
	t.r.Hold = &Hold{Class: c, From: from, Since: t.now, Until: until, Then: resp.then()}
	t.r = t.r.enter(Held, Reason(c), msg, t.r.Work.Left, t.now)
	t.tellHeld(msg)
}

func (t *turn) tellHeld(msg string) {
	h := t.r.Hold
	t.save = true
	t.tell("Held: %s %s follows in %s unless the cause clears.", msg, doWord(h.Then.Do), max(h.Until.Sub(t.now), 0))
}

// clears reports whether a hold of the class may end by itself before its
// deadline.
func clears(c Class) bool {
	switch c {
	case ClassGateInconclusive, ClassTelemetryUnavailable, ClassCapacity, ClassWorkloadRetryable,
		ClassWorkloadTerminal, ClassTimeout, ClassContested, ClassRouteRefused, ClassConnectivity, ClassUnconfirmed:
		return true
	case ClassSafetyLimit, ClassGateFailed, ClassTemplateChanged, ClassRecreated, ClassInternal:
	}
	return false
}

func doWord(d Do) string {
	switch d {
	case DoRollback:
		return "A rollback"
	case DoAbort:
		return "An abort"
	case DoFail:
		return "Failing"
	case DoHold:
		return "A further hold"
	case DoRetry:
		return "A further try"
	}
	return string(d)
}

// held waits for the cause to clear or for the deadline.
func (t *turn) held() {
	h := t.r.Hold
	switch {
	case t.cleared(h):
		t.resume(fmt.Sprintf("The cause of the hold (%s) has cleared; going on.", h.Class))
	case h.Class == ClassCapacity && t.r.Retreat != nil && t.safetyBroken():
		t.resume("")
		t.force(t.o.Tracks[t.r.Retreat.Refuge])
	case h.Class == ClassContested && t.r.Retreat == nil && t.takenAway():
	case t.now.Before(h.Until):
		if h.Class == ClassContested {
			t.sizeForBoth()
		}
	default:
		t.holdOver(h)
	}
}

// holdOver goes on to the next link of the chain. In a retreat that never is
// another retreat.
func (t *turn) holdOver(h *Hold) {
	msg := fmt.Sprintf("The hold is over and its cause (%s) has not cleared.", h.Class)
	switch {
	case t.r.Retreat != nil || h.Then.Do == DoFail:
		t.fail(Reason(h.Class), "%s %s", msg, t.r.Message)
	case h.Then.Do == DoRetry && t.r.Tries[h.Class] >= h.Then.Times:
		next := *h
		next.Then = h.Then.then()
		t.holdOver(&next)
	case h.Then.Do == DoHold:
		t.r.Hold = &Hold{Class: h.Class, From: h.From, Since: t.now, Until: t.now.Add(h.Then.For), Then: h.Then.then()}
		t.tellHeld(msg)
	default:
		t.respond(h.Class, h.Then, msg)
	}
}

// sizeForBoth grows a track that another hand gave more share than it has pods
// for.
func (t *turn) sizeForBoth() {
	for tr := Primary; tr <= Canary; tr++ {
		s, b := t.o.Tracks[tr], t.r.Binding.Tracks[tr]
		_, hi, ok := declared(t.o.Routes, tr)
		if need := t.r.need(hi); ok && s.UID == b.UID && s.Desired.Ok() && s.Desired.Val < need {
			t.act(Scale{Track: tr, UID: b.UID, Replicas: need})
		}
	}
}

// resume goes back to where the release was held, with a fresh budget. The step
// is judged again: what was gathered before does not count as a pass.
func (t *turn) resume(say string) {
	h := t.r.Hold
	t.r.Hold, t.save = nil, true
	if say != "" {
		t.tell("%s", say)
	}
	from := h.From
	switch {
	case h.Class == ClassTelemetryUnavailable:
		t.r.Gate = t.r.Gate.RestartProof(t.now)
	case h.Class == ClassContested && from != Growing && from != Shifting && t.r.Retreat == nil:
		// The data plane may have served another split in between: it must be
		// shown and judged again, and what was quiet may not be any more.
		t.r.Shown, t.r.ShownBy, t.r.Declared, t.r.Accepted = time.Time{}, "", t.now, time.Time{}
		t.r.Drained, t.r.Drain = nil, nil
		if t.r.Step.Started.IsZero() {
			t.r.Step = t.newStep(t.r.Target)
		}
		from = Settling
	}
	why := reasonOf(from)
	if from == Retreating {
		why = t.r.Retreat.Why
	}
	t.enter(from, why, t.budgetOf(from))
	t.again = true
}

// cleared reports whether what the release is held for is gone.
func (t *turn) cleared(h *Hold) bool {
	switch h.Class {
	case ClassGateInconclusive:
		v := t.o.Verdict
		return v.Ok() && v.Val.Outcome == analysis.Pass && v.Val.Share == t.r.Target &&
			v.Val.Data.After(t.r.Shown) && v.Val.Data.After(h.Since) && t.atTarget(t.r.Target)
	case ClassTelemetryUnavailable:
		v := t.o.Verdict
		return v.Ok() && v.Val.Reason != analysis.TelemetryUnavailable && v.Val.Reason != analysis.TelemetryGap
	case ClassCapacity, ClassWorkloadRetryable, ClassWorkloadTerminal:
		return t.capacityBack(h)
	case ClassTimeout:
		return h.From == Settling && t.shownBy() == ShownByData || (h.From == Growing || h.From == Promoting) && t.capacityBack(h) ||
			h.From == Shifting && t.atTarget(t.r.Target)
	case ClassContested:
		// What was shown before is as good, while the target is being written.
		mine := t.atTarget(t.r.Target) || h.From == Shifting && t.atTarget(t.r.Last)
		return mine && t.accepted() != AcceptedRefused
	case ClassRouteRefused:
		return t.atTarget(t.r.Target) && t.accepted() != AcceptedRefused
	case ClassConnectivity:
		return t.o.Unreachable == ""
	case ClassUnconfirmed:
		return len(t.unconfirmed()) == 0
	case ClassSafetyLimit, ClassGateFailed, ClassTemplateChanged, ClassRecreated, ClassInternal:
	}
	return false
}

// capacityBack reports whether the track that was too small is not any more.
func (t *turn) capacityBack(h *Hold) bool {
	switch h.From {
	case Growing:
		return usable(t.o.Tracks[t.r.Incoming()]) >= t.r.need(t.step().Share)
	case Shifting:
		_, short := t.shortOf(t.r.Target)
		return !short
	case Retreating:
		return usable(t.o.Tracks[t.r.Retreat.Refuge]) >= t.r.need(100) || t.atTarget(t.refugeTarget(100))
	case Promoting:
		p, s := t.r.Promotion, t.o.Tracks[Primary]
		return p.To != nil && s.Template.Ok() && s.Template.Val.Hash == p.To.Hash && t.steady(s)
	case Pending, Preflight, Settling, Gating, Draining, Shrinking, Confirming,
		Undoing, Held, Succeeded, RolledBack, Aborted, Rejected, Failed:
	}
	return false
}
