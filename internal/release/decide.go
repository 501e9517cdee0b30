package release

import (
	"fmt"
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
	if other, fenced := t.fencedBy(); fenced {
		return t.standBack(other)
	}
	t.resumed()
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
		t.fail(ReasonInternal, "The promote stage is not served by this version.")
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

// fencedBy reports an epoch on a route above the writer's own.
func (t *turn) fencedBy() (RouteState, bool) {
	for _, s := range t.o.Routes {
		if s.Epoch.Ok() && s.Epoch.Val > t.o.Epoch {
			return s, true
		}
	}
	return RouteState{}, false
}

// standBack does nothing: a newer writer has this release.
func (t *turn) standBack(s RouteState) Decision {
	return Decision{
		Next: t.r,
		Wake: t.now.Add(maxWake),
		Say:  fmt.Sprintf("%s carries epoch %d, above ours (%d): another shifter writes it.", s.Ref, s.Epoch.Val, t.o.Epoch),
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
func (t *turn) charge() {
	if gone := t.now.Sub(t.r.Work.At); gone > 0 {
		t.r.Work = Work{Left: t.r.Work.Left - gone, At: t.now}
	}
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
				t.resume()
			}
		}
		if c.Traffic == TrafficStay {
			t.tell("It is going back already, and is not stopped half-way.")
		}
	case t.r.Ending != nil:
	case c.Traffic == TrafficStay:
		t.finish(Aborted, ReasonFrozen, fmt.Sprintf("Stopped as asked; %s stays on the %s.", percent(t.r.Target), t.r.Incoming()))
	default:
		t.retreat(ReasonAbortRequested, Aborted, c.Mode, why)
	}
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
	if tpl := t.o.Tracks[out].Template; tpl.Ok() && tpl.Val.Hash != t.r.Binding.Tracks[out].Template.Hash {
		t.trouble(ClassTemplateChanged, "The template of the %s is %s, not the admitted %s.", out, tpl.Val.Hash, t.r.Binding.Tracks[out].Template.Hash)
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
	if t.r.Phase == Held && t.r.Hold.Class == class {
		return // a person is being waited for
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
	t.r.Ended, t.r.Hold, t.save = t.now, nil, true
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
		t.r.Step.Replicas[i] = tr.Desired.Val
	}
	judged := t.r.Plan[t.r.StepIx].Present || !t.r.Step.Written.IsZero()
	if v := t.o.Verdict; v.Ok() && t.r.Step.Verdict == nil && judged && v.Val.Share == t.r.Step.Share {
		t.r.Step.Verdict = &v.Val
	}
	t.r.Steps = append(t.r.Steps[:len(t.r.Steps):len(t.r.Steps)], t.r.Step)
	t.r.Step = StepRecord{}
}

// act adds an action; the turn is saved before it is taken.
func (t *turn) act(a Action) {
	t.acts, t.save = append(t.acts, a), true
}

// maxWake is how long an active release sleeps at most.
const maxWake = 15 * time.Second

// minWake keeps a release from spinning.
const minWake = 200 * time.Millisecond

// decision closes the turn.
func (t *turn) decision() Decision {
	d := Decision{Next: t.r, Actions: t.acts, Say: strings.Join(t.say, " "), Save: t.save || len(t.acts) > 0}
	if d.Save {
		d.Next.Intent = t.acts
	}
	if t.r.Phase.Terminal() {
		return d
	}
	step := maxWake
	if t.r.Binding.Scrape > 0 {
		step = min(step, t.r.Binding.Scrape)
	}
	d.Wake = t.now.Add(step)
	for _, at := range []time.Time{t.wake, t.deadline(), t.r.ExposedUntil} {
		if !at.IsZero() && at.Before(d.Wake) {
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
