package release

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// DefaultSteps are the steps of a stage that names none.
func DefaultSteps() []float64 { return []float64{10, 25, 50, 100} }

// DefaultDeadlines are the budgets of a release that names none.
func DefaultDeadlines() Deadlines {
	return Deadlines{
		Preflight: time.Minute,
		Grow:      5 * time.Minute,
		Settle:    30 * time.Second,
		Shown:     2 * time.Minute,
		Write:     time.Minute,
		Drain:     10 * time.Minute,
		Request:   time.Minute,
		Undo:      10 * time.Minute,
		Confirm:   2 * time.Minute,
		Exposure:  2 * time.Hour,
		Promote:   10 * time.Minute,
		Steady:    30 * time.Second,
	}
}

// WithDefaults fills in what the request left out. It does not judge.
func (s Spec) WithDefaults() Spec {
	if len(s.Stages) == 0 {
		s.Stages = []Stage{StageShift}
	}
	if len(s.Steps) == 0 {
		s.Steps = DefaultSteps()
	}
	if s.Shrink == "" {
		s.Shrink = ShrinkBehind
	}
	if s.Size.Headroom == 0 {
		s.Size.Headroom = 1.2
	}
	if s.Size.MinReplicas == 0 {
		s.Size.MinReplicas = 2
	}
	if s.Preset == "" {
		s.Preset = "prod"
	}
	if s.Metrics.Source == "" {
		s.Metrics.Source = "default"
	}
	if s.Gate == (analysis.Settings{}) {
		s.Gate = analysis.Defaults()
	}
	s.Deadlines = s.Deadlines.withDefaults()
	return s
}

func (d Deadlines) withDefaults() Deadlines {
	def := DefaultDeadlines()
	for _, f := range []struct{ v, def *time.Duration }{
		{&d.Preflight, &def.Preflight},
		{&d.Grow, &def.Grow},
		{&d.Settle, &def.Settle},
		{&d.Shown, &def.Shown},
		{&d.Write, &def.Write},
		{&d.Drain, &def.Drain},
		{&d.Request, &def.Request},
		{&d.Undo, &def.Undo},
		{&d.Confirm, &def.Confirm},
		{&d.Exposure, &def.Exposure},
		{&d.Promote, &def.Promote},
		{&d.Steady, &def.Steady},
	} {
		if *f.v == 0 {
			*f.v = *f.def
		}
	}
	return d
}

// Problems lists everything that is wrong with the request itself, each with
// the JSON pointer of the field. It looks at no world.
func (s Spec) Problems() []Finding {
	var out []Finding
	add := func(pointer, code, fix, format string, args ...any) {
		out = append(out, Finding{Pointer: pointer, Code: code, Message: fmt.Sprintf(format, args...), Fix: fix})
	}
	s.routeProblems(add)
	s.trackProblems(add)
	s.stageProblems(add)
	s.stepProblems(add)
	s.sizeProblems(add)
	for _, f := range s.Gate.Validate() {
		add("/gates/"+f.Field, "outOfRange", "", "%s", f.Error())
	}
	return out
}

type addFinding func(pointer, code, fix, format string, args ...any)

func (s Spec) routeProblems(add addFinding) {
	if n := len(s.Routes); n == 0 || n > 4 {
		add("/routes", "routeCount", "name one to four routes", "%d routes are named", n)
	}
	for i, r := range s.Routes {
		at := fmt.Sprintf("/routes/%d", i)
		if !slices.Contains([]string{"HTTPRoute", "GRPCRoute", "VirtualService"}, r.Kind) {
			add(at+"/kind", "routeKind", "use HTTPRoute, GRPCRoute or VirtualService", "kind %q cannot be shifted", r.Kind)
		}
		if r.Name == "" {
			add(at+"/name", "missing", "name the route", "the route has no name")
		}
		for j := range i {
			if s.Routes[j].String() == r.String() {
				add(at, "duplicate", "name each route once", "%s is named twice", r)
			}
		}
	}
}

func (s Spec) trackProblems(add addFinding) {
	for t := Primary; t <= Canary; t++ {
		tr, at := s.Tracks[t], "/"+t.String()
		if tr.Deployment == "" {
			add(at+"/deployment", "missing", "name the Deployment", "the %s has no Deployment", t)
		}
		if tr.Service == "" {
			add(at+"/service", "missing", "name the Service", "the %s has no Service", t)
		}
	}
	p, c := s.Tracks[Primary], s.Tracks[Canary]
	if p.Deployment != "" && p.Deployment == c.Deployment {
		add("/canary/deployment", "sameTrack", "name two Deployments", "both tracks are Deployment %q", p.Deployment)
	}
	if p.Service != "" && p.Service == c.Service && p.Port == c.Port && p.Subset == c.Subset {
		add("/canary/service", "sameTrack", "give the tracks two Services, or one Service with two subsets", "both tracks have the backend %q", p.Service)
	}
	if s.EndReplicas < 0 {
		add("/canary/endReplicas", "outOfRange", "use 0 or more", "endReplicas is %d", s.EndReplicas)
	}
}

func (s Spec) stageProblems(add addFinding) {
	s.stageOrder(add)
	s.promoteProblems(add)
	if !slices.Contains(Presets(), s.Preset) {
		add("/preset", "presetUnknown", fmt.Sprintf("use one of %v", Presets()), "preset %q is not known", s.Preset)
	}
	if !slices.Contains([]Shrink{ShrinkBehind, ShrinkAfterShown, ShrinkAtEnd}, s.Shrink) {
		add("/shrink", "shrinkUnknown", "use onePassedStepBehind, afterShown or atEnd", "shrink %q is not known", s.Shrink)
	}
	known := []Allow{AllowUnmanagedTraffic, AllowMirrors, AllowSessionPersistence, AllowUncertain, AllowNoControl}
	for i, a := range s.Allow {
		if !slices.Contains(known, a) {
			add(fmt.Sprintf("/allow/%d", i), "allowUnknown", fmt.Sprintf("use one of %v", known), "allow %q is not known", a)
		}
	}
}

// stageOrder wants each stage once, in the order in which they run.
func (s Spec) stageOrder(add addFinding) {
	order := []Stage{StageCanary, StagePromote, StageShift}
	last := -1
	for i, st := range s.Stages {
		at, ix := fmt.Sprintf("/stages/%d", i), slices.Index(order, st)
		switch {
		case ix < 0:
			add(at, "stageUnknown", "use canary, promote and shift", "stage %q is not known", st)
			continue
		case ix <= last:
			add(at, "stageOrder", "name each stage once, in the order canary, promote, shift", "stage %s cannot come after %s", st, order[last])
		case last == 0 && st == StageShift:
			add(at, "stageMissing", `put promote in between, or run two releases and bring the primary to the new version in between`,
				"after the stage canary the primary still has the old version, so there is nothing to shift to")
		}
		last = max(last, ix)
	}
}

// promoteProblems refuses by name what is known and not served.
func (s Spec) promoteProblems(add addFinding) {
	switch s.Plan {
	case "", PlanLeapfrog:
	case PlanLean:
		add("/plan", "planNotServed", "use leapfrog, or leave it out", "plan %q is not served by this version", s.Plan)
	default:
		add("/plan", "planUnknown", "use leapfrog, or leave it out", "plan %q is not known", s.Plan)
	}
	switch s.Copy {
	case "", CopyImages:
	case CopyPodSpec, CopyExternal:
		add("/promote/copy", "copyNotServed", "use images, or leave it out", "copy %q is not served by this version", s.Copy)
	default:
		add("/promote/copy", "copyUnknown", "use images, or leave it out", "copy %q is not known", s.Copy)
	}
}

func (s Spec) stepProblems(add addFinding) {
	last := 0.0
	for i, v := range s.Steps {
		at := fmt.Sprintf("/steps/%d", i)
		switch {
		case math.IsNaN(v) || v <= 0 || v > 100:
			add(at, "outOfRange", "use percents above 0 and up to 100", "step %v is not a share", v)
		case v <= last:
			add(at, "stepsNotRising", "sort the steps, each above the one before", "step %v comes after %v", v, last)
		}
		last = v
	}
	if n := len(s.Steps); n > 0 && s.Steps[n-1] != 100 {
		add("/steps", "stepsEnd", "end the steps with 100", "the last step is %v, so the shift would never finish", s.Steps[n-1])
	}
	if len(s.Steps) > 20 {
		add("/steps", "tooMany", "use 20 steps or fewer", "%d steps are named", len(s.Steps))
	}
	if len(s.Steps) == 1 && !s.Allows(AllowNoControl) {
		add("/steps", "noControl", `add a step below 100, or set "allow": ["noControl"]`,
			"no step has a control to compare with")
	}
}

func (s Spec) sizeProblems(add addFinding) {
	if h := s.Size.Headroom; math.IsNaN(h) || h < 1 || h > 3 {
		add("/size/headroom", "outOfRange", "use 1 to 3", "headroom is %v", h)
	}
	if m := s.Size.MinReplicas; m < 1 || m > 1000 {
		add("/size/minReplicas", "outOfRange", "use 1 to 1000", "minReplicas is %d", m)
	}
	d := s.Deadlines
	for _, f := range []struct {
		name string
		v    time.Duration
	}{
		{"preflight", d.Preflight},
		{"grow", d.Grow},
		{"settle", d.Settle},
		{"shown", d.Shown},
		{"write", d.Write},
		{"drain", d.Drain},
		{"request", d.Request},
		{"undo", d.Undo},
		{"confirm", d.Confirm},
		{"exposure", d.Exposure},
		{"promote", d.Promote},
		{"steady", d.Steady},
	} {
		if f.v < time.Second || f.v > 24*time.Hour {
			add("/deadlines/"+f.name, "outOfRange", "use 1s to 24h", "deadline %s is %s", f.name, f.v)
		}
	}
}
