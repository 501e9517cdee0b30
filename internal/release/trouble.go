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
		t.respond(c, *resp.Then, msg)
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
	t.r.Tries = maps.Clone(t.r.Tries)
	if t.r.Tries == nil {
		t.r.Tries = map[Class]int{}
	}
	t.r.Tries[c]++
	t.save = true
	t.tell("%s Trying again (%d).", msg, t.r.Tries[c])
	if t.r.Phase == Held {
		t.resume()
		return
	}
	t.r.Work = Work{Left: t.budgetOf(t.r.Phase), At: t.now}
}

// hold stops the release where it is, with a deadline.
func (t *turn) hold(c Class, resp Response, msg string) {
	if t.r.Phase == Held {
		if t.r.Hold.Class == c {
			return
		}
		// Another trouble while held: the first deadline stays.
		t.r.Hold = &Hold{Class: c, From: t.r.Hold.From, Since: t.now, Until: earlier(t.r.Hold.Until, t.now.Add(resp.For)), Then: *resp.Then}
	} else {
		t.r.Hold = &Hold{Class: c, From: t.r.Phase, Since: t.now, Until: t.now.Add(resp.For), Then: *resp.Then}
	}
	left := t.r.Work.Left
	t.r = t.r.enter(Held, Reason(c), msg, left, t.now)
	t.save = true
	t.tell("Held: %s %s follows in %s unless the cause clears.", msg, doWord(resp.Then.Do), resp.For)
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
	if t.cleared(h) || t.r.Retreat != nil && t.safetyBroken() {
		t.resume()
		return
	}
	if t.now.Before(h.Until) {
		return
	}
	msg := fmt.Sprintf("The hold is over and its cause (%s) has not cleared.", h.Class)
	if t.r.Retreat != nil || h.Then.Do == DoFail {
		t.fail(Reason(h.Class), "%s %s", msg, t.r.Message)
		return
	}
	t.r.Hold = nil
	t.respond(h.Class, h.Then, msg)
}

// resume goes back to where the release was held, with a fresh budget. The step
// is judged again: what was gathered before does not count as a pass.
func (t *turn) resume() {
	h := t.r.Hold
	t.r.Hold, t.save = nil, true
	t.tell("The cause of the hold (%s) has cleared; going on.", h.Class)
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
			t.r.Step = StepRecord{Share: t.r.Target, Started: t.now}
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
		return v.Ok() && v.Val.Outcome == analysis.Pass && v.Val.Data.After(t.r.Shown) && t.atTarget(t.r.Target)
	case ClassTelemetryUnavailable:
		v := t.o.Verdict
		return v.Ok() && v.Val.Reason != analysis.TelemetryUnavailable && v.Val.Reason != analysis.TelemetryGap
	case ClassCapacity, ClassWorkloadRetryable, ClassWorkloadTerminal:
		return t.capacityBack(h)
	case ClassTimeout:
		return h.From == Settling && t.shownBy() == ShownByData || h.From == Growing && t.capacityBack(h) ||
			h.From == Shifting && t.atTarget(t.r.Target)
	case ClassContested, ClassRouteRefused:
		return t.atTarget(t.r.Target) && t.accepted() != AcceptedRefused
	case ClassRecreated:
		return false
	case ClassUnconfirmed:
		return len(t.unconfirmed()) == 0
	case ClassSafetyLimit, ClassGateFailed, ClassTemplateChanged, ClassConnectivity, ClassInternal:
		return false
	}
	return false
}

// capacityBack reports whether the track that was too small is not any more.
func (t *turn) capacityBack(h *Hold) bool {
	switch h.From {
	case Growing:
		return usable(t.o.Tracks[t.r.Incoming()]) >= t.r.need(t.step().Share)
	case Retreating:
		return usable(t.o.Tracks[t.r.Retreat.Refuge]) >= t.r.need(100)
	case Pending, Preflight, Shifting, Settling, Gating, Promoting, Draining, Shrinking, Confirming,
		Undoing, Held, Succeeded, RolledBack, Aborted, Rejected, Failed:
	}
	return false
}
