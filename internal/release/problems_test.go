package release

import (
	"slices"
	"testing"
	"time"
)

func soundSpec() Spec {
	return Spec{
		Routes: []RouteRef{{Kind: "HTTPRoute", Namespace: "shop", Name: "checkout"}},
		Tracks: [2]TrackSpec{{Service: "a", Deployment: "a"}, {Service: "b", Deployment: "b"}},
	}.WithDefaults()
}

func TestProblemsNameTheFieldAndTheWayOut(t *testing.T) {
	if p := soundSpec().Problems(); len(p) > 0 {
		t.Fatalf("a sound request has problems: %v", p)
	}
	for pointer, change := range map[string]func(*Spec){
		"/routes":                  func(s *Spec) { s.Routes = nil },
		"/routes/0/kind":           func(s *Spec) { s.Routes[0].Kind = "TCPRoute" },
		"/routes/0/name":           func(s *Spec) { s.Routes[0].Name = "" },
		"/routes/1":                func(s *Spec) { s.Routes = append(s.Routes, s.Routes[0]) },
		"/primary/deployment":      func(s *Spec) { s.Tracks[Primary].Deployment = "" },
		"/canary/service":          func(s *Spec) { s.Tracks[Canary].Service = "a" },
		"/canary/deployment":       func(s *Spec) { s.Tracks[Canary].Deployment = "a" },
		"/canary/endReplicas":      func(s *Spec) { s.EndReplicas = -1 },
		"/stages/0":                func(s *Spec) { s.Stages = []Stage{"lean"} },
		"/stages/1":                func(s *Spec) { s.Stages = []Stage{StageShift, StageShift} },
		"/stages/2":                func(s *Spec) { s.Stages = []Stage{StageCanary, StageShift, StagePromote} },
		"/plan":                    func(s *Spec) { s.Plan = PlanLean },
		"/promote/copy":            func(s *Spec) { s.Copy = CopyPodSpec },
		"/deadlines/steady":        func(s *Spec) { s.Deadlines.Steady = time.Millisecond },
		"/steps/1":                 func(s *Spec) { s.Steps = []float64{50, 10, 100} },
		"/steps/0":                 func(s *Spec) { s.Steps = []float64{0, 100} },
		"/steps":                   func(s *Spec) { s.Steps = []float64{10, 50} },
		"/shrink":                  func(s *Spec) { s.Shrink = "soon" },
		"/preset":                  func(s *Spec) { s.Preset = "production" },
		"/allow/0":                 func(s *Spec) { s.Allow = []Allow{"everything"} },
		"/size/headroom":           func(s *Spec) { s.Size.Headroom = 0.5 },
		"/size/minReplicas":        func(s *Spec) { s.Size.MinReplicas = -1 },
		"/deadlines/drain":         func(s *Spec) { s.Deadlines.Drain = time.Millisecond },
		"/gates/maxErrorRateRatio": func(s *Spec) { s.Gate.MaxErrorRateRatio = 0.5 },
	} {
		s := soundSpec()
		change(&s)
		p := s.Problems()
		if !slices.ContainsFunc(p, func(f Finding) bool { return f.Pointer == pointer && f.Message != "" }) {
			t.Errorf("%s: not named in %v", pointer, p)
		}
	}
}

func TestASingleStepHasNoControlUnlessThatIsAllowed(t *testing.T) {
	s := soundSpec()
	s.Steps = []float64{100}
	if p := s.Problems(); len(p) != 1 || p[0].Code != "noControl" {
		t.Errorf("got %v", p)
	}
	s.Allow = []Allow{AllowNoControl}
	if p := s.Problems(); len(p) != 0 {
		t.Errorf("allowed, but %v", p)
	}
}
