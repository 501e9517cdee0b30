package release

import (
	"fmt"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// View makes what people see from the record and the last look.
func (r Release) View(o Observation) View {
	v := View{Release: r, Live: true, AsOf: o.Now, Shown: o.Shown, Verdict: o.Verdict, Trouble: o.Trouble}
	if o.Unreachable != "" {
		v.Trouble = o.Unreachable
	}
	in := r.Incoming()
	if lo, hi, ok := declared(o.Routes, in); ok && lo == hi {
		v.Declared = Known(hi, o.Now)
	} else {
		v.Declared = Unseen[float64]("the routes could not be read, or differ")
	}
	t := turn{r: r, o: o, now: o.Now}
	if len(o.Routes) > 0 {
		v.Accepted = Known(t.accepted(), o.Now)
	}
	for tr := Primary; tr <= Canary; tr++ {
		s := o.Tracks[tr]
		share := v.Declared.Val
		if tr != in {
			share = 100 - share
		}
		v.Tracks[tr] = TrackView{
			Deployment: r.Binding.Tracks[tr].Deployment,
			Service:    r.Binding.Tracks[tr].Service,
			Desired:    s.Desired,
			Ready:      s.Ready,
			Leaving:    s.Leaving,
			Need:       r.need(share),
			Template:   s.Template,
			Share:      share,
			Trouble:    s.Trouble,
		}
	}
	if v.Verdict.Ok() && v.Verdict.Val.Outcome != analysis.Fail && r.Verdict != nil && t.waitsForPods() {
		// What is judged meanwhile is the step that has passed already.
		v.Verdict = Known(*r.Verdict, o.Now)
	}
	if r.Phase == Draining {
		v.Drain = o.Drain[t.loser()]
	} else if r.Drain != nil {
		v.Drain = Known(*r.Drain, r.Drain.At)
	}
	v.Next = t.next()
	return v
}

// waitsForPods reports a step for which nothing has been written yet.
func (t *turn) waitsForPods() bool {
	return !t.r.Step.Started.IsZero() && t.r.Step.Written.IsZero() && !t.r.Plan[t.r.StepIx].Present
}

// next says what happens next, and when at the latest.
func (t *turn) next() Next {
	at := t.deadline()
	if f := t.r.Fenced; f != nil && !t.r.Phase.Terminal() {
		return Next{"giving up, unless the other shifter leaves the routes", t.now.Add(f.Left)}
	}
	switch t.r.Phase {
	case Pending, Preflight:
		return Next{"the first look", at}
	case Growing:
		in := t.r.Incoming()
		return Next{fmt.Sprintf("%s, when the %s has %d ready pods (now %s)", percent(t.step().Share), in,
			t.r.need(t.step().Share), counted(t.o.Tracks[in])), at}
	case Shifting, Settling:
		return Next{fmt.Sprintf("the gate, when the data plane shows %s", percent(t.r.Target)), at}
	case Gating:
		return t.nextGate()
	case Held:
		return Next{fmt.Sprintf("%s, unless the cause clears", doWord(t.r.Hold.Then.Do)), at}
	case Retreating:
		return Next{"the drain, when all traffic is shown on the refuge", at}
	case Draining:
		return Next{"going on when nothing is in flight", at}
	case Undoing:
		return Next{"the last size, when the undone pods are ready", at}
	case Shrinking:
		return Next{"the confirmation, when the pods have gone", at}
	case Confirming:
		return Next{"the end", at}
	case Promoting:
		return t.nextPromote(at)
	case Succeeded, RolledBack, Aborted, Rejected, Failed:
	}
	return Next{}
}

func (t *turn) nextPromote(at time.Time) Next {
	then := "the end"
	if next, more := t.r.nextStage(); more {
		then = "the stage " + string(next)
	}
	if p := t.r.Promotion; p != nil && !p.Steady.IsZero() {
		return Next{then + ", if the new pods stay ready", p.Steady.Add(t.r.Spec.Deadlines.Steady)}
	}
	s := t.o.Tracks[Primary]
	return Next{fmt.Sprintf("%s, when the %s has %d ready pods of the new template (now %s in all)", then, Primary, t.promoteNeed(s), counted(s)), at}
}

func (t *turn) nextGate() Next {
	v := t.o.Verdict.Val
	at := t.now.Add(v.Left)
	then := "the drain"
	if t.r.StepIx+1 < len(t.r.Plan) {
		then = percent(t.r.Plan[t.r.StepIx+1].Share)
	}
	if v.Reason == analysis.Soaking {
		return Next{then + " when the soak is over", t.r.Shown.Add(t.r.Spec.Gate.Soak)}
	}
	return Next{then + " on a pass; the policy for no verdict when the window is over", at}
}
