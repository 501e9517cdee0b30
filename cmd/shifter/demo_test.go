//go:build !nosandbox

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/sandbox"
)

func TestTheDemoKeepsTheJudgesNumbers(t *testing.T) {
	for _, sc := range scenarios() {
		spec, findings := demoRequest(demoFlags{rps: 200}, sc, "r").Spec(sandbox.Namespace)
		if len(findings) > 0 {
			t.Fatalf("%s: %v", sc.name, findings)
		}
		want := analysis.Defaults()
		// Durations may differ; nothing else.
		want.Soak, want.MaxWindow, want.TelemetryGrace = spec.Gate.Soak, spec.Gate.MaxWindow, spec.Gate.TelemetryGrace
		if spec.Gate != want {
			t.Errorf("%s: the demo judges by %+v, a release by %+v", sc.name, spec.Gate, want)
		}
		def := release.Spec{}.WithDefaults()
		if len(spec.Steps) != len(def.Steps) || spec.Preset != def.Preset || spec.Shrink != def.Shrink || len(spec.Allow) > 0 {
			t.Errorf("%s: steps %v, preset %s, shrink %s, allow %v", sc.name, spec.Steps, spec.Preset, spec.Shrink, spec.Allow)
		}
	}
}

func TestTheWindowGrowsWhereFewerRequestsCome(t *testing.T) {
	for rps, want := range map[float64]time.Duration{1000: time.Minute, 200: time.Minute, 100: 2 * time.Minute, 20: 10 * time.Minute} {
		if got := window(rps); got != want {
			t.Errorf("at %g requests per second the window is %s, want %s", rps, got, want)
		}
	}
}

func TestEveryScenarioStillReadsAsInTheTable(t *testing.T) {
	want := []string{"good", "errors", "slow", "flaky-telemetry", "no-traffic", "stuck-pods", "crash", "full", "full-bad-primary"}
	for i, s := range scenarios() {
		if i >= len(want) || s.name != want[i] || s.story == "" || s.ends == "" {
			t.Errorf("scenario %d is %+v", i, s)
		}
	}
}

// writes counts what reaches the route.
type writes struct {
	n int
	*sandbox.Routes
}

func (w *writes) SetShare(context.Context, release.SetShare, release.Fence) (release.Receipt, error) {
	w.n++
	return release.Receipt{}, nil
}

func TestTheDropperDropsTheEngineOnceBeforeTheEffect(t *testing.T) {
	w := &writes{}
	dropped := 0
	d := &dropper{Router: w, at: 50, drop: func() { dropped++ }}
	set := func(ctx context.Context, p int32) error {
		_, err := d.SetShare(ctx, release.SetShare{To: []release.Pair{{Primary: p, Canary: 100 - p}}}, release.Fence{})
		return err
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := set(t.Context(), 25); err != nil || dropped != 0 || w.n != 1 {
		t.Errorf("25: %v, dropped %d, %d writes", err, dropped, w.n)
	}
	if err := set(ended, 50); !errors.Is(err, release.ErrUnavailable) || dropped != 1 || w.n != 1 {
		t.Errorf("50: %v, dropped %d, %d writes", err, dropped, w.n)
	}
	if err := set(t.Context(), 50); err != nil || dropped != 1 || w.n != 2 {
		t.Errorf("50 again: %v, dropped %d, %d writes", err, dropped, w.n)
	}
}
