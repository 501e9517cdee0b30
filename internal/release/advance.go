package release

import (
	"fmt"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// This file holds the phases of a release that advances. Each is level
// triggered: it compares what is with what should be, and only adds what is
// missing.

// preflight looks at what was admitted once more, marks the routes, and begins
// the stage. Until the first mark nothing is touched.
func (t *turn) preflight() {
	if !t.marked() {
		if what, known := t.unsound(); what != "" {
			t.reject(what, known)
			return
		}
	}
	all := true
	for i, s := range t.o.Routes {
		if s.Marked.Ok() && s.Marked.Val == t.r.Key.Name {
			continue
		}
		all = false
		t.act(Mark{Route: s.Ref, UID: t.r.Binding.Routes[i].UID, On: true})
	}
	switch {
	case all && t.accepted() != AcceptedRefused:
		t.startStage()
	case !t.over():
	case all:
		t.fail(ReasonRouteRefused, "Not begun, as %s; no weight was changed.", t.refusedSince())
	default:
		t.unmarkable()
	}
}

// reject ends a release that is not sound any more, or that could not be seen to
// be in time. A mark that may be on a route that cannot be read was a touch.
func (t *turn) reject(what string, known bool) {
	switch {
	case !known && !t.over():
	case len(t.r.Intent) == 0 || t.unmarked():
		t.end(Rejected, ReasonNotSound, "Nothing was touched: %s.", what)
	default:
		t.fail(ReasonTimeout, "Not begun, as %s; no weight was changed.", what)
	}
}

// unmarkable ends a release whose routes could not be marked in time.
func (t *turn) unmarkable() {
	why, said := ReasonTimeout, ""
	for _, f := range t.o.Failed {
		if f.Kind != (Mark{}).Kind() {
			continue
		}
		said = fmt.Sprintf(" (%s: %s)", f.Err, f.Text)
		switch f.Err {
		case ErrKindFenced:
			why = ReasonFenced
		case ErrKindRefused, ErrKindForbidden:
			why = ReasonRouteRefused
		case ErrKindNotFound, ErrKindUnavailable:
		}
	}
	t.fail(why, "The routes could not be marked in time%s; no weight was changed.", said)
}

// unsound names the first thing that is not as it was admitted. known is false
// when it could only not be seen.
func (t *turn) unsound() (what string, known bool) {
	if t.o.Unreachable != "" {
		return "the API server does not answer: " + t.o.Unreachable, false
	}
	for i, s := range t.o.Routes {
		b := t.r.Binding.Routes[i]
		switch {
		case s.UID != "" && s.UID != b.UID:
			return fmt.Sprintf("%s is another object than at the request", b.Ref), true
		case !s.Split.Ok():
			return fmt.Sprintf("%s cannot be read: %s", b.Ref, s.Split.Why), false
		case !equalPairs(s.Split.Val, b.Split):
			return fmt.Sprintf("the weights of %s have changed since the request", b.Ref), true
		case s.Marked.Ok() && s.Marked.Val != "" && s.Marked.Val != t.r.Key.Name:
			return fmt.Sprintf("%s is marked by release %s; if that one is gone, remove its in-progress label", b.Ref, s.Marked.Val), true
		}
	}
	if t.accepted() == AcceptedRefused {
		return t.refusedSince(), false
	}
	for i, s := range t.o.Tracks {
		b := t.r.Binding.Tracks[i]
		switch {
		case s.UID != "" && s.UID != b.UID:
			return fmt.Sprintf("Deployment %s is another object than at the request", b.Deployment), true
		case !s.Template.Ok():
			return fmt.Sprintf("Deployment %s cannot be read: %s", b.Deployment, s.Template.Why), false
		case s.Template.Val.Hash != b.Template.Hash:
			return fmt.Sprintf("the template of Deployment %s has changed since the request", b.Deployment), true
		}
	}
	return "", true
}

func equalPairs(a, b []Pair) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// startStep begins a step of the plan with growing what it needs.
func (t *turn) startStep(ix int) {
	t.closeStep()
	t.r.StepIx = ix
	t.r.Step = t.newStep(t.r.Plan[ix].Share)
	t.enter(Growing, ReasonGrowing, t.r.Spec.Deadlines.Grow)
	if ix == 0 && t.r.Passed > 0 {
		t.expose()
	}
	t.again = true
}

// newStep is the record of a step that begins.
func (t *turn) newStep(share float64) StepRecord {
	s := StepRecord{Share: share, Started: t.now}
	if len(t.r.Spec.Stages) > 1 {
		s.Stage = t.r.Stage
	}
	return s
}

// step is the present step of the plan.
func (t *turn) step() Step { return t.r.Plan[t.r.StepIx] }

// growing brings the incoming track to the size of its next share.
func (t *turn) growing() {
	if t.drifted() {
		return
	}
	in := t.r.Incoming()
	s, need := t.o.Tracks[in], t.r.need(t.step().Share)
	if usable(s) >= need {
		t.beginShift()
		return
	}
	if t.unreachable() {
		return
	}
	if tr, bad := worst(s, TroubleTerminal, t.r.Suspect); bad {
		t.trouble(ClassWorkloadTerminal, "%s: %s %s.", tr.Pod, tr.Reason, tr.Message)
		return
	}
	if !t.over() {
		if s.Desired.Ok() && s.Desired.Val < need {
			t.act(Scale{Track: in, UID: t.r.Binding.Tracks[in].UID, Replicas: need})
		}
		return
	}
	t.grownTooLate(s, need)
}

// grownTooLate answers a track that did not get its pods in time.
func (t *turn) grownTooLate(s TrackState, need int) {
	in := t.r.Incoming()
	tr, bad := worst(s, TroubleRetryable, t.r.Suspect)
	switch {
	case !s.Ready.Ok():
		t.trouble(ClassRecreated, "The pods of the %s cannot be seen: %s.", in, s.Ready.Why)
	case bad:
		t.trouble(ClassWorkloadRetryable, "%s has %s of %d ready pods: %s %s.", in, counted(s), need, tr.Reason, tr.Message)
	default:
		t.trouble(ClassCapacity, "%s has %s of the %d ready pods that %s needs.", in, counted(s), need, percent(t.step().Share))
	}
}

// unreachable waits for an API server that does not answer, beyond the phase's
// budget and while the exposure deadline lasts, and then goes back. When the
// server answers again, the phase has its time anew.
func (t *turn) unreachable() bool {
	away, waits := t.o.Unreachable, t.r.Reason == ReasonConnectivity
	switch {
	case away == "" && waits:
		t.enter(t.r.Phase, reasonOf(t.r.Phase), t.budgetOf(t.r.Phase))
		t.save = true
		t.tell("The API server answers again; going on.")
		return false
	case away == "" || !t.over():
		return false
	case !t.now.Before(t.r.ExposedUntil):
		t.trouble(ClassConnectivity, "The API server does not answer: %s.", away)
	case !waits:
		t.r.Reason, t.r.Message, t.save = ReasonConnectivity, away, true
		t.tell("The API server does not answer: %s. It is asked again while the exposure deadline lasts.", away)
	}
	return true
}

// beginShift sets the target and judges what follows as a new step.
func (t *turn) beginShift() {
	st := t.step()
	t.aim(st.Share)
	t.enter(Shifting, ReasonWriting, t.r.Spec.Deadlines.Write)
}

// aim sets the share to be declared. What was shown before stays known as Last
// until the data plane shows the new one. A target that is declared already has
// no write to wait for.
func (t *turn) aim(share float64) {
	if share != t.r.Target {
		if !t.r.Shown.IsZero() {
			t.r.Last = t.r.Target
		}
		t.r.Target = share
		t.r.Declared, t.r.Accepted, t.r.Shown, t.r.ShownBy = time.Time{}, time.Time{}, time.Time{}, ""
		t.r.Drained, t.r.Drain = nil, nil
	}
	if t.r.Retreat == nil {
		t.r.Gate = t.r.Gate.StartStep(t.r.gateStep(t.r.Last, share, t.now))
	}
}

// expose starts the clock of the longest exposure, or sets it anew after a pass.
func (t *turn) expose() { t.r.ExposedUntil = t.now.Add(t.r.Spec.Deadlines.Exposure) }

// shifting writes the weights and, beside them, sizes the outgoing track for
// the last step that passed.
func (t *turn) shifting() {
	if t.atTarget(t.r.Target) {
		if t.accepted() == AcceptedRefused {
			t.trouble(ClassRouteRefused, "%s", t.refusal())
			return
		}
		t.r.Step.Declared = t.r.Declared
		t.enter(Settling, ReasonAwaitingShown, max(t.r.Spec.Deadlines.Shown, t.r.Spec.Deadlines.Settle))
		t.again = true
		return
	}
	if why := t.refusedWrite(); why != "" {
		t.trouble(ClassRouteRefused, "%s", why)
		return
	}
	if t.foreign() || t.unreachable() {
		return
	}
	tr, short := t.shortOf(t.r.Target)
	s, need := t.o.Tracks[tr], t.r.need(t.shareAt(tr, t.r.Target))
	switch {
	case t.over() && short:
		t.trouble(ClassCapacity, "%s has %s of the %d ready pods that %s needs.", tr, counted(s), need, percent(t.shareAt(tr, t.r.Target)))
	case t.over():
		t.trouble(ClassTimeout, "The weights could not be written in time%s.", t.writeFailed())
	case short && s.Desired.Ok() && s.Desired.Val < need:
		t.act(Scale{Track: tr, UID: t.r.Binding.Tracks[tr].UID, Replicas: need})
	case short:
	default:
		t.writeShare()
		t.shrinkBehind()
	}
}

// shortOf finds a track that is to gain share and has not the pods for it: they
// may have gone since they were seen ready.
func (t *turn) shortOf(target float64) (Track, bool) {
	for tr := Primary; tr <= Canary; tr++ {
		share := t.shareAt(tr, target)
		lo, _, ok := declared(t.o.Routes, tr)
		if ok && share-lo > 1 && usable(t.o.Tracks[tr]) < t.r.need(share) {
			return tr, true
		}
	}
	return t.r.Incoming(), false
}

// shareAt is the track's share when the incoming track has the target's.
func (t *turn) shareAt(tr Track, target float64) float64 {
	if tr == t.r.Incoming() {
		return target
	}
	return 100 - target
}

// writeShare adds a write for every route that does not declare the target.
func (t *turn) writeShare() {
	for i, s := range t.o.Routes {
		if !s.Split.Ok() {
			continue
		}
		to := make([]Pair, len(s.Split.Val))
		same := true
		for j, p := range s.Split.Val {
			to[j] = t.wanted(p)
			same = same && to[j] == p
		}
		if same {
			continue
		}
		if t.r.ExposedUntil.IsZero() && t.r.Retreat == nil {
			t.expose()
		}
		t.act(SetShare{Route: s.Ref, UID: t.r.Binding.Routes[i].UID, From: s.Split.Val, To: to})
	}
	if len(t.acts) > 0 && t.r.Retreat == nil && t.r.Step.Written.IsZero() {
		t.r.Step.Written = t.now
		t.tell("Writing %s to the %s.", percent(t.r.Target), t.r.Incoming())
	}
}

// wanted is what a rule should declare. In a retreat a rule that gives the
// refuge more already, by whatever hand, keeps it.
func (t *turn) wanted(p Pair) Pair {
	to := p.At(t.r.Incoming(), t.r.Target)
	if re := t.r.Retreat; re != nil && p.Of(re.Refuge) > to.Of(re.Refuge) {
		return p
	}
	return to
}

// keep is the size that the shrink policy keeps for the outgoing track. Before the
// shift that is the primary, which keeps what carries everything.
func (r Release) keep() int {
	if r.Stage != StageShift {
		return r.need(100)
	}
	switch r.Spec.Shrink {
	case ShrinkAtEnd:
		return r.need(100)
	case ShrinkAfterShown:
		if !r.Shown.IsZero() && r.Target < 100 {
			return r.need(100 - r.Target)
		}
		return r.need(100 - r.Passed)
	case ShrinkBehind:
	}
	return r.need(100 - r.Passed)
}

// shrinkBehind sizes the outgoing track down to what the policy keeps.
func (t *turn) shrinkBehind() {
	if t.r.Stage != StageShift {
		return
	}
	out := t.r.Outgoing()
	s, keep := t.o.Tracks[out], t.r.keep()
	if s.Desired.Ok() && s.Desired.Val > keep && keep > 0 {
		t.act(Scale{Track: out, UID: t.r.Binding.Tracks[out].UID, Replicas: keep})
	}
}

// refusal is what a controller said against the weights.
func (t *turn) refusal() string {
	for _, s := range t.o.Routes {
		if s.Refusal != "" {
			return fmt.Sprintf("The controller of %s refused the weights: %s.", s.Ref, s.Refusal)
		}
	}
	return "A route's controller refused the weights."
}

// refusedSince names a route that its controller did not refuse at the request.
func (t *turn) refusedSince() string {
	for i, s := range t.o.Routes {
		if s.Accepted.Ok() && s.Accepted.Val == AcceptedRefused && t.r.Binding.Routes[i].Accepted != AcceptedRefused {
			return strings.TrimSuffix(fmt.Sprintf("the controller of %s refuses it since the request: %s", s.Ref, s.Refusal), ": ")
		}
	}
	return "a controller refuses a route"
}

// refusedWrite is what was said against a write itself.
func (t *turn) refusedWrite() string {
	for _, f := range t.o.Failed {
		if f.Kind == (SetShare{}).Kind() && (f.Err == ErrKindRefused || f.Err == ErrKindForbidden) {
			return fmt.Sprintf("The API server answered to a write of weights: %s (%s).", f.Text, f.Err)
		}
	}
	return ""
}

// writeFailed is what became of the last write.
func (t *turn) writeFailed() string { return t.failedBy(SetShare{}.Kind()) }

// foreign stops at weights that nobody here wrote: neither the target nor what
// was shown before. The suspect's share taken to 0 by hand is a wish to stop.
func (t *turn) foreign() bool {
	lo, hi, ok := declared(t.o.Routes, t.r.Incoming())
	if !ok || t.atTarget(t.r.Target) || t.atTarget(t.r.Last) || t.between(lo, hi) {
		return false
	}
	if t.takenAway() {
		return true
	}
	t.contested("The routes give the %s %s%s, which is neither %s nor %s.",
		t.r.Incoming(), spanText(lo, hi), t.foreignBy(), percent(t.r.Last), percent(t.r.Target))
	return true
}

// contested answers another hand. Share that it gave is exposure too, and a pass
// of before does not cover it.
func (t *turn) contested(format string, args ...any) {
	if t.r.ExposedUntil.IsZero() {
		t.expose()
	}
	t.trouble(ClassContested, format, args...)
}

// takenAway answers another hand that took the suspect's share away.
func (t *turn) takenAway() bool {
	had := t.r.Target
	if t.r.Declared.IsZero() {
		had = t.r.Last
	}
	if _, hi, ok := declared(t.o.Routes, t.r.Incoming()); !ok || hi > 0 || had == 0 {
		return false
	}
	t.retreat(ReasonAbortedByWeight, Aborted, ModeImmediate, "")
	return true
}

// between reports a write that is half done: some rules at the old share, some
// at the new one.
func (t *turn) between(lo, hi float64) bool {
	a, b := min(t.r.Last, t.r.Target), max(t.r.Last, t.r.Target)
	near := func(x, y float64) bool { return x-y <= 1 && y-x <= 1 }
	return near(lo, a) && near(hi, b)
}

func (t *turn) foreignBy() string {
	for _, s := range t.o.Routes {
		if s.Foreign != "" {
			return " (written by " + s.Foreign + ")"
		}
	}
	return ""
}

// drifted reports and answers weights that left the target after they were
// declared.
func (t *turn) drifted() bool {
	lo, hi, ok := declared(t.o.Routes, t.r.Incoming())
	if !ok || t.atTarget(t.r.Target) {
		return false
	}
	if t.takenAway() {
		return true
	}
	t.contested("The routes give the %s %s%s, not %s.",
		t.r.Incoming(), spanText(lo, hi), t.foreignBy(), percent(t.r.Target))
	return true
}

// settling waits until the data plane serves what the routes declare.
func (t *turn) settling() {
	if t.drifted() {
		return
	}
	if t.accepted() == AcceptedRefused {
		t.trouble(ClassRouteRefused, "%s", t.refusal())
		return
	}
	if by := t.shownBy(); by != "" {
		t.setShown(by)
		if t.r.Stage == StagePromote {
			t.enter(Draining, ReasonDraining, t.r.Spec.Deadlines.Drain)
			t.again = true
			return
		}
		t.r.Gate = t.r.Gate.RestartProof(t.now)
		t.enter(Gating, ReasonGathering, t.r.Spec.Gate.MaxWindow+t.r.Spec.Gate.Soak)
		if t.r.Spec.Shrink == ShrinkAfterShown {
			t.shrinkBehind()
		}
		return
	}
	if t.over() {
		t.trouble(ClassTimeout, "The data plane does not show %s%s.", percent(t.r.Target), t.laggards())
	}
}

// shownBy says how the target can be taken as shown, empty when it cannot yet:
// counted, or, where counting is not possible, accepted (or declared, where
// there is no status) and the settle time waited out.
func (t *turn) shownBy() ShownBy {
	if t.r.Declared.IsZero() {
		return "" // what was judged is the target before
	}
	if s := t.o.Shown; s.Ok() && t.newer(s.Val) && s.Val.Status != analysis.ShownUnknown {
		if s.Val.Status == analysis.ShownYes {
			return ShownByData
		}
		return ""
	}
	since := t.r.Declared
	if !t.r.Accepted.IsZero() {
		since = t.r.Accepted
	}
	if t.now.Sub(since) >= t.r.Spec.Deadlines.Settle && t.accepted() != AcceptedRefused {
		return ShownBySettle
	}
	return ""
}

// newer reports whether an answer is fresh and rests on data from after the write.
func (t *turn) newer(s analysis.Shown) bool { return t.fresh(s) && s.At.After(t.r.Declared) }

// fresh reports whether an answer rests on data that is not older than the
// grace: a stale "no" must not hold up a retreat without telemetry.
func (t *turn) fresh(s analysis.Shown) bool {
	return t.now.Sub(s.At) <= max(t.r.Spec.Gate.TelemetryGrace, 8*t.r.Binding.Scrape)
}

func (t *turn) setShown(by ShownBy) {
	t.r.Shown, t.r.ShownBy = t.now, by
	t.r.Step.Declared, t.r.Step.Accepted = t.r.Declared, t.r.Accepted
	t.r.Step.Shown, t.r.Step.ShownBy = t.now, by
	took := t.now.Sub(t.r.Declared).Round(100 * time.Millisecond)
	if by == ShownByData {
		t.tell("The data plane shows %s on the %s, %s after the write.", percent(t.r.Target), t.r.Incoming(), took)
		return
	}
	t.tell("%s on the %s is taken as shown: it could not be counted (%s), so the settle time was waited out (%s).",
		percent(t.r.Target), t.r.Incoming(), t.uncounted(), took)
}

// uncounted says why a split could not be counted.
func (t *turn) uncounted() string {
	s := t.o.Shown
	switch {
	case t.o.Trouble != "":
		return "no telemetry: " + t.o.Trouble
	case !s.Ok() || !t.fresh(s.Val):
		return "no fresh telemetry"
	case len(s.Val.Silent) > 0:
		return fmt.Sprintf("proxies that do not report: %v", s.Val.Silent)
	}
	return "too few requests"
}

func (t *turn) laggards() string {
	if s := t.o.Shown; s.Ok() && len(s.Val.Lagging) > 0 {
		return fmt.Sprintf("; proxies at another split: %v", s.Val.Lagging)
	}
	return ""
}

// gating waits for the verdict of the step.
func (t *turn) gating() {
	if t.drifted() {
		return
	}
	if t.disproved() {
		return
	}
	v := t.o.Verdict
	if !v.Ok() || v.Val.Share != t.r.Target {
		return // nothing is known yet of this step
	}
	switch v.Val.Reason {
	case analysis.Certified, analysis.SoakClean:
		if v.Val.Data.After(t.r.Shown) && !t.r.Shown.IsZero() && t.judgedTemplates() {
			t.passStep(v.Val)
		}
	case analysis.GuardAlarm:
		t.stepBack(v.Val)
	case analysis.WindowExhausted:
		t.trouble(ClassGateInconclusive, "%s", verdictSentence(v.Val, t.r))
	case analysis.TelemetryUnavailable:
		t.trouble(ClassTelemetryUnavailable, "%s", verdictSentence(v.Val, t.r))
	case analysis.TrafficMismatch:
		if v.Val.Left <= 0 {
			t.trouble(ClassGateInconclusive, "%s", verdictSentence(v.Val, t.r))
		}
	case analysis.Regression, analysis.SafetyLimit, analysis.GuardAlarmAgain, analysis.WarmingUp,
		analysis.InsufficientRequests, analysis.InsufficientBaseline, analysis.NotCertified,
		analysis.Soaking, analysis.TelemetryGap:
	}
}

// disproved takes back a share that was only taken as shown, when data have
// come since and say otherwise.
func (t *turn) disproved() bool {
	s := t.o.Shown
	if t.r.ShownBy != ShownBySettle || !s.Ok() || !t.newer(s.Val) || s.Val.Status != analysis.ShownNo {
		return false
	}
	t.r.Shown, t.r.ShownBy = time.Time{}, ""
	t.enter(Settling, ReasonAwaitingShown, t.budgetOf(Settling))
	t.tell("Data have come, and they do not show %s%s; waiting again.", percent(t.r.Target), t.laggards())
	return true
}

// passStep goes on to the next step, or to the drain after the last one.
func (t *turn) passStep(v analysis.Verdict) {
	t.r.Passed, t.r.Step.Passed, t.r.Step.Verdict = t.r.Target, t.now, &v
	t.r.Verdict, t.r.Hold = &v, nil
	t.r.Proof = &PassProof{Step: t.r.StepIx, Share: t.r.Target, Hashes: t.hashes(), At: t.now}
	t.expose()
	t.r.Reason = ReasonGatePassed
	t.tell("%s", verdictSentence(v, t.r))
	if t.r.StepIx+1 < len(t.r.Plan) {
		t.startStep(t.r.StepIx + 1)
		return
	}
	t.r.ExposedUntil = time.Time{} // nothing is left to pass
	t.closeStep()
	t.enter(Draining, ReasonDraining, t.r.Spec.Deadlines.Drain)
}

func (t *turn) hashes() [2]string {
	return [2]string{t.o.Tracks[Primary].Template.Val.Hash, t.o.Tracks[Canary].Template.Val.Hash}
}

// judgedTemplates reports whether both tracks are seen to have the templates
// that were admitted, and so judged. Without that look there is no pass (I17).
func (t *turn) judgedTemplates() bool {
	for i, s := range t.o.Tracks {
		if !s.Template.Ok() || s.Template.Val.Hash != t.r.template(Track(i)).Hash {
			return false
		}
	}
	return true
}

// stepBack answers the guard at 100: back to the last step with a control, whose
// pods are still there, to be judged again.
func (t *turn) stepBack(v analysis.Verdict) {
	back := -1
	for i, s := range t.r.Plan {
		if s.Share < 100 && i < t.r.StepIx {
			back = i
		}
	}
	t.r.Verdict = &v
	if back < 0 {
		t.trouble(ClassGateFailed, "The guard at 100 %% rang, and the plan has no step with a control to go back to.")
		return
	}
	t.r.Backs++
	t.r.Step.Verdict = &v
	t.closeStep()
	t.r.StepIx, t.r.Proof, t.r.Passed = back, nil, min(t.r.Passed, t.r.Plan[back].Share)
	t.r.Step = t.newStep(t.r.Plan[back].Share)
	if t.r.ExposedUntil.IsZero() {
		t.expose()
	}
	t.aim(t.r.Plan[back].Share)
	t.enter(Shifting, ReasonGuardAlarm, t.r.Spec.Deadlines.Write)
	t.tell("The guard at 100 %% rang: back to %s, where there is a control.", percent(t.r.Target))
	t.again = true
}
