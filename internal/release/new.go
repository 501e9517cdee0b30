package release

import (
	"fmt"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// New makes the record of a sound request: pending, with its steps resolved
// against the share that the routes declare at admission.
func New(k Key, uid string, spec Spec, b Binding, subject string, now time.Time) Release {
	r := Release{
		Schema:  Schema,
		Key:     k,
		UID:     uid,
		Created: now,
		Subject: subject,
		Spec:    spec,
		Binding: b,
		Phase:   Pending,
		Since:   now,
	}.begin(spec.Stages[0])
	return r.enter(Pending, ReasonAccepted, "", spec.Deadlines.Preflight, now).
		tell(acceptedText(spec, b, r.Passed), now, subject)
}

// acceptedText says what was asked for.
func acceptedText(spec Spec, b Binding, present float64) string {
	stage := spec.Stages[0]
	what := string(stage)
	for _, s := range spec.Stages[1:] {
		what += ", then " + string(s)
	}
	if stage == StagePromote {
		return fmt.Sprintf("Accepted: %s for %s, to %s.", what, b.Tracks[Primary].Deployment, imagesText(b.PromoteImages()))
	}
	return fmt.Sprintf("Accepted: %s for %s, from %s to %s.", what, b.Tracks[stage.Incoming()].Deployment, percent(present), stepsText(spec.Steps))
}

// begin sets out on a stage. The judge spends its alpha once over the release,
// so it is told that what it compared so far is over.
func (r Release) begin(stage Stage) Release {
	in := stage.Incoming()
	present := presentShare(r.Binding, in)
	r.Stage, r.Plan, r.StepIx = stage, resolveSteps(r.Spec.Steps, present), 0
	r.Suspect = r.Binding.Tracks[in].Template.Hash
	r.Target, r.Last, r.Passed = present, present, present
	r.Gate = r.Gate.NextStage()
	return r
}

// presentShare is the track's share at admission. Preflight has made sure that
// all rules agree.
func presentShare(b Binding, t Track) float64 {
	for _, r := range b.Routes {
		for _, p := range r.Split {
			return p.Share(t)
		}
	}
	return 0
}

// resolveSteps leaves out the steps at or below the present share; a present
// share above 0 is judged itself before anything rises.
func resolveSteps(steps []float64, present float64) []Step {
	var out []Step
	if present > 0 {
		out = append(out, Step{Share: present, Present: true})
	}
	for _, s := range steps {
		if s > present {
			out = append(out, Step{Share: s})
		}
	}
	return out
}

// gateStep describes a step to the judge.
func (r Release) gateStep(prev, share float64, now time.Time) analysis.Step {
	return analysis.Step{
		Index: r.StepIx, Share: share, Prev: prev, Copies: r.copies(), At: now,
		Watch: r.Binding.Watch, Seeds: r.Binding.Seeds,
	}
}

// copies is how many copies of the fail product all stages together start: one
// for each step with a control, and in each stage one for a second judgement
// after an alarm of the guard.
func (r Release) copies() int {
	n := 0
	for _, stage := range r.Spec.Stages {
		switch stage {
		case StagePromote: // no share is judged
		case StageCanary, StageShift:
			plan := r.Plan
			if stage != r.Stage {
				plan = resolveSteps(r.Spec.Steps, 0)
			}
			n += controls(plan) + 1
		}
	}
	return n
}

// Bounds are the bounds of latency that a look must tell of.
func (r Release) Bounds() []float64 {
	return append([]float64{}, r.Binding.Watch.Bounds...)
}

// controls counts the steps with a control.
func controls(plan []Step) int {
	n := 0
	for _, s := range plan {
		if s.Share < 100 {
			n++
		}
	}
	return n
}

// Resume readies a loaded record for a new process. The pass proof of the step
// starts again, since nobody watched in between; the fail process goes on. The
// phase's budget is charged with the time since it was last charged, but never
// with more than half of what is left: downtime must neither be free nor use
// up the way out. The next decision is saved, so that a process that keeps
// dying uses the budget up all the same.
func Resume(r Release, now time.Time) Release {
	if r.Phase.Terminal() {
		return r
	}
	if r.Phase == Pending { // nobody has worked on it yet
		r.Work.At = now
		return r
	}
	r.Work = r.Work.chargeDowntime(now)
	if r.Fenced != nil {
		left := r.Fenced.chargeDowntime(now)
		r.Fenced = &left
	}
	if p := r.Promotion; p != nil && p.Done.IsZero() && !p.Steady.IsZero() {
		r.Promotion = p.with(func(x *Promotion) { x.Steady = time.Time{} })
	}
	r.Gate, r.resumed = r.Gate.RestartProof(now), true
	return r
}

// chargeDowntime takes off the time in which nobody watched, but at most half of
// what is left.
func (w Work) chargeDowntime(now time.Time) Work {
	gone := min(max(now.Sub(w.At), 0), max(w.Left, 0)/2)
	return Work{Left: w.Left - gone, At: now}
}

// LookFrom returns what the next look at the telemetry must begin with: the end of
// what has been counted already.
func (r Release) LookFrom() time.Time {
	switch u := r.Gate.Until(); {
	case !u.IsZero():
		return u
	case !r.Step.Started.IsZero():
		return r.Step.Started
	}
	return r.Created
}

// enter moves the release to a phase with a budget of work.
func (r Release) enter(p Phase, why Reason, msg string, budget time.Duration, now time.Time) Release {
	r.Phase, r.Reason, r.Message, r.Since = p, why, msg, now
	r.Work = Work{Left: budget, At: now}
	return r
}

// tell adds a line to the story, in a copy of it.
func (r Release) tell(text string, now time.Time, subject string) Release {
	r.Seq++
	kept := r.History[max(0, len(r.History)-HistoryMax+1):]
	h := make([]Event, 0, len(kept)+1)
	h = append(h, kept...)
	r.History = append(h, Event{Seq: r.Seq, At: now, Phase: r.Phase, Reason: r.Reason, Text: text, Subject: subject})
	return r
}

func percent(v float64) string { return fmt.Sprintf("%g %%", v) }

func stepsText(steps []float64) string {
	s := ""
	for i, v := range steps {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%g", v)
	}
	return s + " %"
}
