package release

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// maxHops bounds how many phases one decision may walk through without an
// effect; the longest honest walk is shorter.
const maxHops = 12

// Decide answers what to do next. It is pure: the same release and observation
// give the same decision. A turn takes the commands first, then looks at what
// would stop the release wherever it is, then does the work of its phase.
func Decide(r Release, o Observation) Decision {
	t := &turn{r: r, o: o, now: o.Now}
	if r.Phase.Terminal() {
		return Decision{Next: r}
	}
	t.resumed()
	if other := t.fencedBy(); other != "" {
		return t.standBack(other)
	}
	t.unfenced()
	t.charge()
	t.trackDeclared()
	t.takeCommands()
	t.watch()
	for range maxHops {
		before := t.r.Phase
		if before.Terminal() || len(t.acts) > 0 {
			break
		}
		t.work()
		if t.r.Phase == before && !t.again {
			break
		}
		t.again = false
	}
	return t.decision()
}

// turn is one decision in the making. It is a value of the call and lives no
// longer; the release in it is the next one.
type turn struct {
	r    Release
	o    Observation
	now  time.Time
	acts Actions
	say  []string
	save bool
	// again asks for another round in the same phase (the next step).
	again bool
	wake  time.Time
}

// work does what the phase asks for. Each function either moves the release on
// or adds the actions that are still missing.
func (t *turn) work() {
	switch t.r.Phase {
	case Pending:
		t.enter(Preflight, ReasonChecking, t.r.Spec.Deadlines.Preflight)
	case Preflight:
		t.preflight()
	case Growing:
		t.growing()
	case Shifting:
		t.shifting()
	case Settling:
		t.settling()
	case Gating:
		t.gating()
	case Promoting:
		t.promoting()
	case Draining:
		t.draining()
	case Shrinking:
		t.shrinking()
	case Confirming:
		t.confirming()
	case Retreating:
		t.retreating()
	case Undoing:
		t.undoing()
	case Held:
		t.held()
	case Succeeded, RolledBack, Aborted, Rejected, Failed:
	}
}

// fencedBy says which newer writer there is, in the record or on a route. One that
// was seen is there until all routes are seen without it.
func (t *turn) fencedBy() string {
	if t.r.Epoch > t.o.Epoch {
		return fmt.Sprintf("The record was saved with epoch %d, above ours (%d): another shifter has it.", t.r.Epoch, t.o.Epoch)
	}
	for _, s := range t.o.Routes {
		switch {
		case s.Epoch.Ok() && s.Epoch.Val > t.o.Epoch:
			return fmt.Sprintf("%s carries epoch %d, above ours (%d): another shifter writes it.", s.Ref, s.Epoch.Val, t.o.Epoch)
		case !s.Epoch.Ok() && t.r.Fenced != nil:
			return fmt.Sprintf("%s cannot be read; another shifter wrote the routes when they were last seen.", s.Ref)
		}
	}
	return ""
}

// minFenced is the least time that a release stands back before it is given up.
const minFenced = time.Minute

// standBack leaves the world to a newer writer. One that has this journal too has
// put its epoch into the record before it wrote anything; then the record is its
// own, and nothing is saved here. One with another journal will never move this
// record on, so the release ends when its time is over, having written nothing.
func (t *turn) standBack(what string) Decision {
	if t.r.Epoch > t.o.Epoch {
		return Decision{Next: t.r, Wake: t.now.Add(maxWake), Say: what}
	}
	if t.r.Fenced == nil {
		t.r.Fenced, t.save = &Work{Left: max(t.r.Spec.Deadlines.Write, minFenced), At: t.now}, true
		t.tell("%s Standing back.", what)
	}
	left := t.r.Fenced.charge(t.now)
	t.r.Fenced = &left
	if left.Left <= 0 {
		t.r.NeedsHuman = true
		if t.r.Phase != Pending && !t.unmarked() {
			t.r.Unverified = appendNew(t.r.Unverified, unmarkedText)
		}
		t.end(Failed, ReasonFenced, "%s It did not stop, so this release is given up; nothing was written since then.", what)
	}
	t.wake = t.now.Add(left.Left)
	return t.decision()
}

// unfenced goes on after the newer epoch is gone from the routes.
func (t *turn) unfenced() {
	if t.r.Fenced != nil {
		t.r.Fenced, t.save = nil, true
		t.tell("No route carries an epoch above ours any more; going on.")
	}
}

// resumed notes that another process has taken over.
func (t *turn) resumed() {
	if t.r.resumed {
		t.r.resumed, t.save = false, true
		t.tell("Picked up from the record after a restart; what was meant is compared with what is.")
	}
}

// charge takes the time since the last turn off the phase's budget.
func (t *turn) charge() { t.r.Work = t.r.Work.charge(t.now) }

// charge takes the time since the last charge off a budget.
func (w Work) charge(now time.Time) Work {
	if gone := now.Sub(w.At); gone > 0 {
		return Work{Left: w.Left - gone, At: now}
	}
	return w
}

// over reports whether the phase has used up its budget.
func (t *turn) over() bool { return t.r.Work.Left <= 0 }

// trackDeclared notes when the target was first seen in all routes, and when no
// controller refused it.
func (t *turn) trackDeclared() {
	if !t.atTarget(t.r.Target) {
		return
	}
	if t.r.Declared.IsZero() {
		t.r.Declared = t.now
	}
	if t.r.Accepted.IsZero() && t.accepted() == AcceptedYes {
		t.r.Accepted = t.now
	}
}

// takeCommands consumes the inbox in order.
func (t *turn) takeCommands() {
	for _, c := range t.o.Inbox {
		if c.Seq <= t.r.Consumed {
			continue
		}
		t.r.Consumed, t.save = c.Seq, true
		if c.Verb == VerbAbort {
			t.abort(c)
		}
	}
}

func (t *turn) abort(c Command) {
	why := c.Reason
	if why == "" {
		why = "no reason given"
	}
	t.tellAs(c.Subject, "%s asked to abort (traffic %s, %s): %s.", c.Subject, c.Traffic, c.Mode, why)
	switch {
	case t.r.Phase == Pending:
		t.end(Aborted, ReasonAbortRequested, "Stopped before anything was touched.")
	case t.r.Phase == Preflight:
		t.finish(Aborted, ReasonAbortRequested, "Stopped before any weight or pod was touched.")
	case t.r.Retreat != nil:
		if c.Mode == ModeForce {
			t.r.Retreat = t.r.Retreat.with(func(x *Retreat) { x.Mode = ModeForce })
			if t.r.Phase == Held {
				t.resume("Going on by force.")
			}
		}
		if c.Traffic == TrafficStay {
			t.tell("It is going back already, and is not stopped half-way.")
		}
	case t.r.Ending != nil:
	case c.Traffic == TrafficStay && t.r.rollsOut():
		t.tell("The %s is put back first, so that no rollout is left running; the traffic stays where it is.", Primary)
		t.retreat(ReasonAbortRequested, Aborted, c.Mode, why)
		t.stay()
	case c.Traffic == TrafficStay:
		t.freeze()
	default:
		t.retreat(ReasonAbortRequested, Aborted, c.Mode, why)
	}
}

// freeze ends with the traffic as the routes declare it, which is not the target
// while a write has not happened.
func (t *turn) freeze() {
	lo, hi, ok := declared(t.o.Routes, t.r.Incoming())
	stays := fmt.Sprintf("%s stays on the %s", spanText(lo, hi), t.r.Incoming())
	switch {
	case !ok:
		stays = fmt.Sprintf("the %s keeps the share that its routes declare, which cannot be read now", t.r.Incoming())
	case lo == hi && !t.atTarget(t.r.Target):
		t.r.Target = hi
	}
	t.finish(Aborted, ReasonFrozen, fmt.Sprintf("Stopped as asked; %s.", stays))
}

// watch looks at what would stop a release that advances, whichever phase it is
// in: the judge looks wherever the suspect has share.
func (t *turn) watch() {
	if t.r.Phase.Terminal() || t.r.Retreat != nil || t.r.Ending != nil || !t.moved() {
		return
	}
	if t.recreated() {
		return
	}
	if t.templateChanged() {
		return
	}
	if t.suspectShare() <= 0 {
		return
	}
	t.watchVerdict()
	if t.r.Retreat == nil && !t.r.ExposedUntil.IsZero() && !t.now.Before(t.r.ExposedUntil) {
		t.retreat(ReasonExposure, RolledBack, ModeGraceful, "")
	}
}

// templateChanged answers a template that somebody changed. A release that is
// held for that already goes on being watched.
func (t *turn) templateChanged() bool {
	if t.r.Phase == Held && t.r.Hold.Class == ClassTemplateChanged {
		return false
	}
	in := t.r.Incoming()
	if tpl := t.o.Tracks[in].Template; tpl.Ok() && tpl.Val.Hash != t.r.Suspect {
		t.trouble(ClassTemplateChanged, "The template of the %s is %s, not the %s that is judged.", in, tpl.Val.Hash, t.r.Suspect)
		return true
	}
	out := in.Other()
	if t.r.Stage == StagePromote && t.trackPromotion() {
		return false
	}
	if tpl := t.o.Tracks[out].Template; tpl.Ok() && tpl.Val.Hash != t.r.template(out).Hash {
		t.trouble(ClassTemplateChanged, "The template of the %s is %s, not the admitted %s.", out, tpl.Val.Hash, t.r.template(out).Hash)
		return true
	}
	return false
}

// watchVerdict acts on a fail wherever it is found.
func (t *turn) watchVerdict() {
	v := t.o.Verdict
	if !v.Ok() || v.Val.Outcome != analysis.Fail {
		return
	}
	t.r.Verdict = &v.Val
	class := ClassGateFailed
	if v.Val.Reason == analysis.SafetyLimit {
		class = ClassSafetyLimit
	}
	t.trouble(class, "%s", verdictSentence(v.Val, t.r))
}

// recreated holds a release whose objects are not the admitted ones.
func (t *turn) recreated() bool {
	if t.r.Phase == Held && t.r.Hold.Class == ClassRecreated {
		return false
	}
	for i, s := range t.o.Routes {
		if s.UID != "" && s.UID != t.r.Binding.Routes[i].UID {
			t.trouble(ClassRecreated, "%s is another object than the admitted one.", s.Ref)
			return true
		}
	}
	for i, s := range t.o.Tracks {
		if s.UID != "" && s.UID != t.r.Binding.Tracks[i].UID {
			t.trouble(ClassRecreated, "Deployment %s is another object than the admitted one.", t.r.Binding.Tracks[i].Deployment)
			return true
		}
	}
	return false
}

// moved reports whether the release has begun its stage.
func (t *turn) moved() bool { return t.r.Phase != Pending && t.r.Phase != Preflight }

// marked reports whether any route carries this release's label.
func (t *turn) marked() bool {
	for _, s := range t.o.Routes {
		if s.Marked.Ok() && s.Marked.Val == t.r.Key.Name {
			return true
		}
	}
	return false
}

// unmarked reports whether all routes are seen not to carry the label.
func (t *turn) unmarked() bool {
	for _, s := range t.o.Routes {
		if !s.Marked.Ok() || s.Marked.Val == t.r.Key.Name {
			return false
		}
	}
	return true
}

// enter moves to a phase, with a fresh budget.
func (t *turn) enter(p Phase, why Reason, budget time.Duration) {
	t.r = t.r.enter(p, why, "", budget, t.now)
}

// tell adds a line to the story and to the log.
func (t *turn) tell(format string, args ...any) { t.tellAs("", format, args...) }

func (t *turn) tellAs(subject, format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	t.r = t.r.tell(s, t.now, subject)
	t.say = append(t.say, s)
}

// end makes the release terminal.
func (t *turn) end(p Phase, why Reason, format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	t.r = t.r.enter(p, why, msg, 0, t.now)
	t.r.Ended, t.r.Hold, t.save, t.acts = t.now, nil, true, nil
	t.closeStep()
	t.tell("%s", msg)
}

// fail ends a release with something that a person must fix; traffic is kept.
func (t *turn) fail(why Reason, format string, args ...any) {
	t.r.NeedsHuman = true
	t.finish(Failed, why, fmt.Sprintf(format, args...))
}

// finish decides the end; it comes when the marks are off the routes, or when
// the time for that is over.
func (t *turn) finish(p Phase, why Reason, msg string) {
	if t.unmarked() {
		t.end(p, why, "%s", msg)
		return
	}
	t.r.Ending = &Ending{Phase: p, Reason: why, Message: msg}
	t.r.Hold, t.save, t.acts = nil, true, nil
	t.enter(Confirming, why, t.r.Spec.Deadlines.Confirm)
	t.r.Message = msg
	t.again = true
}

// closeStep files the evidence of the present step, if it has any.
func (t *turn) closeStep() {
	if t.r.Step.Started.IsZero() {
		return
	}
	for i, tr := range t.o.Tracks {
		if tr.Desired.Ok() {
			t.r.Step.Replicas[i] = tr.Desired.Val
		}
	}
	judged := t.r.Plan[t.r.StepIx].Present || !t.r.Step.Written.IsZero()
	if v := t.o.Verdict; v.Ok() && t.r.Step.Verdict == nil && judged && v.Val.Share == t.r.Step.Share {
		t.r.Step.Verdict = &v.Val
	}
	t.r.Steps = trimmed(append(t.r.Steps[:len(t.r.Steps):len(t.r.Steps)], t.r.Step))
	t.r.Step = StepRecord{}
}

// wholeSteps is how many of the last steps keep what each metric added to their
// verdict; older ones keep the verdict's totals, so that a record stays small
// (I15).
const wholeSteps = 4

// trimmed leaves out of older steps' verdicts what nobody asks for any more: of a
// step that passed, what a fail would have been made of. The last one is whole. The
// steps given are not changed.
func trimmed(steps []StepRecord) []StepRecord {
	out := slices.Clone(steps)
	for i := range out[:len(out)-1] {
		v := out[i].Verdict
		if v == nil || len(v.Parts) == 0 || out[i].Passed.IsZero() && i >= len(out)-wholeSteps {
			continue
		}
		small := *v
		small.Parts = slices.Clone(v.Parts)
		for j := range small.Parts {
			small.Parts[j].Copies = nil
		}
		if i < len(out)-wholeSteps {
			small.Parts, small.Notes = nil, nil
		}
		out[i].Verdict = &small
	}
	return out
}

// act adds an action; the turn is saved before it is taken.
func (t *turn) act(a Action) {
	t.acts, t.save = append(t.acts, a), true
}

// maxWake is how long an active release sleeps at most.
const maxWake = 15 * time.Second

// minWake keeps a release from spinning.
const minWake = 200 * time.Millisecond

// decision closes the turn. What is over already was answered in this turn, and
// is nothing to wake for.
func (t *turn) decision() Decision {
	d := Decision{Next: t.r, Actions: t.acts, Say: strings.Join(t.say, " "), Save: t.save || len(t.acts) > 0}
	if d.Save {
		d.Next.Epoch = t.o.Epoch
	}
	if len(t.acts) > 0 {
		d.Next.Intent = t.acts
	}
	if t.r.Phase.Terminal() {
		d.Next.Intent = nil
		return d
	}
	step := maxWake
	if t.r.Binding.Scrape > 0 {
		step = min(step, t.r.Binding.Scrape)
	}
	d.Wake = t.now.Add(step)
	for _, at := range []time.Time{t.wake, t.deadline(), t.r.ExposedUntil} {
		if at.After(t.now) && at.Before(d.Wake) {
			d.Wake = at
		}
	}
	if least := t.now.Add(minWake); d.Wake.Before(least) {
		d.Wake = least
	}
	return d
}

// deadline is when the present phase's budget or hold ends.
func (t *turn) deadline() time.Time {
	if t.r.Phase == Held && t.r.Hold != nil {
		return t.r.Hold.Until
	}
	return t.now.Add(max(t.r.Work.Left, 0))
}

func appendNew(list []string, s string) []string {
	for _, l := range list {
		if l == s {
			return list
		}
	}
	return append(list[:len(list):len(list)], s)
}
