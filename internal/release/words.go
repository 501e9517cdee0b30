package release

import (
	"fmt"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// reasonOf is the everyday reason of a phase.
func reasonOf(p Phase) Reason {
	switch p {
	case Pending:
		return ReasonAccepted
	case Preflight:
		return ReasonChecking
	case Growing:
		return ReasonGrowing
	case Shifting:
		return ReasonWriting
	case Settling:
		return ReasonAwaitingShown
	case Gating:
		return ReasonGathering
	case Draining:
		return ReasonDraining
	case Promoting:
		return ReasonPromoting
	case Shrinking:
		return ReasonShrinking
	case Confirming:
		return ReasonConfirming
	case Undoing:
		return ReasonUndoing
	case Retreating, Held, Succeeded, RolledBack, Aborted, Rejected, Failed:
	}
	return ReasonCompleted
}

// budgetOf is the budget of work that a phase gets when it is entered.
func (t *turn) budgetOf(p Phase) time.Duration {
	d := t.r.Spec.Deadlines
	switch p {
	case Pending, Preflight:
		return d.Preflight
	case Growing, Retreating:
		return d.Grow
	case Promoting:
		return d.Promote
	case Shifting:
		return d.Write
	case Settling:
		return max(d.Shown, d.Settle)
	case Gating:
		return t.r.Spec.Gate.MaxWindow + t.r.Spec.Gate.Soak
	case Draining:
		return d.Drain
	case Shrinking, Undoing:
		return d.Undo
	case Confirming:
		return d.Confirm
	case Held, Succeeded, RolledBack, Aborted, Rejected, Failed:
	}
	return d.Confirm
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// verdictSentence says a verdict in words, with its numbers.
func verdictSentence(v analysis.Verdict, r Release) string {
	in, out := r.Incoming(), r.Outgoing()
	counts := fmt.Sprintf("%s: %s, %s: %s", in, countsText(v.Candidate), out, countsText(v.Baseline))
	seen := fmt.Sprintf("%s: %s, %s: %s", in, countsText(v.SeenCandidate), out, countsText(v.SeenBaseline))
	at := percent(v.Share)
	switch v.Reason {
	case analysis.Certified:
		return fmt.Sprintf("Passed at %s on %s.", at, counts)
	case analysis.SoakClean:
		return fmt.Sprintf("Passed at %s: the soak was clean (%s: %s).", at, in, countsText(v.Candidate))
	case analysis.Regression:
		if slow := slowText(v, r); slow != "" {
			return fmt.Sprintf("Failed at %s: %s.", at, slow)
		}
		return fmt.Sprintf("Failed at %s: %s.", at, seen)
	case analysis.SafetyLimit:
		return fmt.Sprintf("Failed at %s, safety limit: %s.", at, seen)
	case analysis.GuardAlarm, analysis.GuardAlarmAgain:
		return fmt.Sprintf("The guard at %s rang: %s: %s.", at, in, countsText(v.SeenCandidate))
	case analysis.WindowExhausted:
		return fmt.Sprintf("Not enough evidence at %s within the window%s: %s.", at, lacking(v), counts)
	case analysis.TelemetryUnavailable, analysis.TelemetryGap:
		return fmt.Sprintf("No telemetry at %s; the last data is of %s.", at, v.Data.UTC().Format(time.TimeOnly))
	case analysis.TrafficMismatch:
		return fmt.Sprintf("The traffic is not split as the weights say at %s: %s.", at, counts)
	case analysis.WarmingUp, analysis.InsufficientRequests, analysis.InsufficientBaseline,
		analysis.NotCertified, analysis.Soaking:
	}
	return fmt.Sprintf("Gathering evidence at %s: %s.", at, counts)
}

// spanText says a share, or the span of shares that several rules have.
func spanText(lo, hi float64) string {
	if lo == hi {
		return percent(lo)
	}
	return percent(lo) + " to " + percent(hi)
}

func countsText(c analysis.Counts) string {
	return fmt.Sprintf("%.0f requests, %.0f failed", c.Requests, c.Bad)
}
