package sandbox_test

import (
	"errors"
	"testing"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/sandbox"
)

func goodSpec() release.Spec {
	return release.Spec{Routes: []release.RouteRef{sandbox.RouteRef()}, Tracks: sandbox.Tracks()}
}

// unstarted is enough to ask what there is.
func unstarted(t *testing.T) *sandbox.World {
	t.Helper()
	w, err := sandbox.New(quick())
	noErr(t, err)
	t.Cleanup(func() { stop(t, w) })
	return w
}

func TestARequestIsBoundToWhatIsThere(t *testing.T) {
	w := unstarted(t)
	spec := goodSpec()
	spec.Routes[0].Namespace, spec.Routes[0].Rules = "", []string{sandbox.RuleName}
	routes, err := w.Routes().Resolve(t.Context(), sandbox.Namespace, spec)
	noErr(t, err)
	if r := routes[0]; r.UID == "" || r.Ref.Namespace != sandbox.Namespace || len(r.Rules) != 1 ||
		r.Split[0] != (release.Pair{Canary: 100}) || r.Accepted != release.AcceptedYes || r.Epoch != 0 {
		t.Errorf("the route is bound as %+v", r)
	}
	tracks, err := w.Workloads().Resolve(t.Context(), sandbox.Namespace, spec)
	noErr(t, err)
	p, c := tracks[release.Primary], tracks[release.Canary]
	if p.Deployment != "checkout" || c.Deployment != "checkout-canary" || p.UID == c.UID || p.Template.Hash == c.Template.Hash {
		t.Errorf("the tracks are bound as %+v", tracks)
	}
	if p.Template.Images["app"] != "checkout:v2" || c.Template.Images["app"] != "checkout:v2" || p.UndoTo == nil || p.UndoTo.Images["app"] != "checkout:v1" || c.UndoTo != nil {
		t.Errorf("the versions are bound as %+v", tracks)
	}
}

func TestWhatIsMissingIsAFindingWithItsPointer(t *testing.T) {
	w := unstarted(t)
	for name, tc := range map[string]struct {
		namespace     string
		change        func(*release.Spec)
		pointer, code string
	}{
		"no such deployment": {
			"demo", func(s *release.Spec) { s.Tracks[release.Primary].Deployment = "payment" }, "/primary/deployment", "deploymentNotFound",
		},
		"no such canary": {
			"demo", func(s *release.Spec) { s.Tracks[release.Canary].Deployment = "payment" }, "/canary/deployment", "deploymentNotFound",
		},
		"another namespace": {
			"prod", func(s *release.Spec) { s.Routes = nil }, "/primary/deployment", "deploymentNotFound",
		},
		"no such service": {
			"demo", func(s *release.Spec) { s.Tracks[release.Canary].Service = "payment" }, "/canary/service", "backendNotInRoute",
		},
		"no such route": {
			"demo", func(s *release.Spec) { s.Routes[0].Name = "payment" }, "/routes/0/name", "routeNotFound",
		},
		"another kind": {
			"demo", func(s *release.Spec) { s.Routes[0].Kind = "GRPCRoute" }, "/routes/0/name", "routeNotFound",
		},
		"no such rule": {
			"demo", func(s *release.Spec) { s.Routes[0].Rules = []string{"main", "other"} }, "/routes/0/rules/1", "ruleNotFound",
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := goodSpec()
			tc.change(&spec)
			_, err := w.Routes().Resolve(t.Context(), tc.namespace, spec)
			if err == nil {
				_, err = w.Workloads().Resolve(t.Context(), tc.namespace, spec)
			}
			var f release.Finding
			if !errors.As(err, &f) || f.Pointer != tc.pointer || f.Code != tc.code || f.Message == "" || f.Fix == "" {
				t.Errorf("got %v, want a finding %s at %s", err, tc.code, tc.pointer)
			}
		})
	}
}
