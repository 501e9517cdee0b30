//go:build e2e

package e2e

import (
	"testing"
	"time"
)

// The scenarios. Those that change what all scenes share run alone and first;
// the others run beside each other (go test -parallel 3).

func TestHTTPRouteGood(t *testing.T) {
	t.Parallel()
	s := play(t, "httproute-good", httpRoute)
	s.post()
	s.end()
	s.wantGoodEnd()
	s.wantSizes(4, 4, 3, 2)
}

func TestVirtualServiceGood(t *testing.T) {
	t.Parallel()
	s := play(t, "virtualservice-good", virtualService)
	s.post()
	s.end()
	s.wantGoodEnd()
	s.wantSizes(4, 4, 3, 2)
}

// TestErrorsAtHalf lets the new version fail when it has half of the traffic.
func TestErrorsAtHalf(t *testing.T) {
	t.Parallel()
	s := play(t, "errors-at-half", httpRoute)
	s.post()
	s.untilShown(50)
	s.misbehave(map[string]any{"errorRate": 0.05})
	s.end()

	s.wantEnd("rolledBack", "gateFailed")
	s.wantPassed(10, 25)
	s.wantGoodRetreat(3)
	s.wantNothingLost(true)
	s.wantHarmKnown()
}

// TestErrorsInSoak lets it fail when there is nothing left to compare it with:
// the traffic goes back to half, where there is, and from there all the way.
func TestErrorsInSoak(t *testing.T) {
	t.Parallel()
	s := play(t, "errors-in-soak", httpRoute)
	s.post()
	s.untilShown(100)
	s.misbehave(map[string]any{"errorRate": 0.05})
	s.end()

	s.wantEnd("rolledBack", "gateFailed")
	s.wantPassed(10, 25, 50)
	s.wantGoodRetreat(2)
	s.wantNothingLost(true)
	s.wantHarmKnown()
}

// TestKillAtHalf kills shifter right after it has written a weight, and starts
// another one.
func TestKillAtHalf(t *testing.T) {
	t.Parallel()
	s := play(t, "kill-at-half", httpRoute)
	s.post()
	s.untilDeclared(50)
	s.shifter().kill()
	before := s.epoch()
	pause(t, 3*time.Second)
	s.startShifter()
	s.end()

	s.wantGoodEnd()
	if after := s.epoch(); after <= before {
		t.Errorf("the route's epoch was %d before the kill and is %d now; want a higher one", before, after)
	}
}

// TestLongRequests goes back while the primary serves long requests, in pods that
// go on as if nothing was when they are told to end.
func TestLongRequests(t *testing.T) {
	t.Parallel()
	s := play(t, "long-requests", httpRoute)
	s.long(40, 5000) // at any time half of them on the primary, when it has half
	s.misbehave(map[string]any{"ignoreSigterm": true})
	s.post()
	s.untilShown(50)
	s.abort("graceful")
	s.end()

	s.wantEnd("aborted", "abortRequested")
	s.wantPassed(10, 25)
	s.wantGoodRetreat(3)
	s.wantNothingLost(false)
	s.wantLongOnPrimary()
}

// TestPrometheusDown takes the telemetry away at a quarter: nothing moves until
// the hold is over, and then all goes back, blind and yet without a loss.
func TestPrometheusDown(t *testing.T) {
	suite.needLab(t, "stopping Prometheus")
	s := play(t, "prometheus-down", httpRoute)
	s.post()
	s.untilShown(25)
	t.Cleanup(func() { startPrometheus(t) })
	stopPrometheus(t)
	stopped := time.Now()
	var h hold
	s.untilRelease(2*time.Minute, "a hold for want of telemetry", func(r release) bool {
		if r.Status.Phase != "held" || r.Status.Hold == nil {
			return false
		}
		h = *r.Status.Hold
		return true
	})
	s.untilRelease(5*time.Minute, "the end", func(r release) bool { return r.Status.ended() })
	startPrometheus(t)
	s.end()

	if h.Class != "telemetryUnavailable" || h.Then != "rollback" {
		t.Errorf("the release was held for %s, with %s to follow; want telemetryUnavailable and rollback", h.Class, h.Then)
	}
	s.wantStill(stopped, h.Until)
	s.wantEnd("rolledBack", "telemetryUnavailable")
	s.wantPassed(10)
	s.wantWeights(0)
	if d := s.release.Status.Drain; d == nil || d.Status != "assumed" || d.Track != "primary" || len(s.release.Status.Unverified) == 0 {
		t.Errorf("the drain is %s, unverified is %q; want it assumed, and said so", jsonOf(d), s.release.Status.Unverified)
	}
	s.wantUndone()
	s.wantNothingLost(false)
}

// TestSlowMeshGood goes through with proxies that hear of everything 8 to 10
// seconds late: no pod may go before the proxies have left it.
func TestSlowMeshGood(t *testing.T) {
	slowMesh(t)
	s := play(t, "slow-mesh-good", httpRoute, patient)
	s.post()
	s.end()

	s.wantGoodEnd()
	s.wantSizes(4, 4, 3, 2)
	s.wantSlow(6 * time.Second)
	s.wantShrinksBehind()
}

// TestSlowMeshRetreat goes back on the same mesh.
func TestSlowMeshRetreat(t *testing.T) {
	slowMesh(t)
	s := play(t, "slow-mesh-retreat", httpRoute, patient)
	s.post()
	s.untilShown(50)
	s.misbehave(map[string]any{"errorRate": 0.05})
	s.end()

	s.wantEnd("rolledBack", "gateFailed")
	s.wantPassed(10, 25)
	s.wantGoodRetreat(3)
	s.wantNothingLost(true)
	s.wantSlow(6 * time.Second)
	s.wantShrinksBehind()
}

// wantGoodEnd is what every release that goes through has in common.
func (s *stage) wantGoodEnd() {
	s.t.Helper()
	s.wantEnd("succeeded", "completed")
	s.wantAllVerified()
	s.wantPassed(10, 25, 50, 100)
	s.wantWeights(100)
	s.wantCanaryGone()
	s.wantDrained("canary")
	s.wantNothingLost(false)
	s.wantFewWrites()
}

// wantGoodRetreat is what every way back with telemetry has in common. smallest
// is the canary's size when it began.
func (s *stage) wantGoodRetreat(smallest int) {
	s.t.Helper()
	s.wantAllVerified()
	s.wantRegrown(smallest)
	s.wantWeights(0)
	s.wantDrained("primary")
	s.wantUndone()
}

// wantLongOnPrimary checks that the primary served long requests when its share
// was taken away, and that it was given the time to answer them.
func (s *stage) wantLongOnPrimary() {
	s.t.Helper()
	re, last := s.release.Status.Retreat, s.traffic.Long.Last[primary]
	if re == nil || re.Moved == nil || re.Drained == nil {
		s.t.Fatalf("the retreat is %s; want one that moved and drained", jsonOf(re))
	}
	if !last.After(*re.Moved) || last.After(*re.Drained) {
		s.t.Errorf("the primary's last long answer came at %s; its share was taken away at %s and it was found quiet at %s; want it between the two",
			clock(last), clock(*re.Moved), clock(*re.Drained))
	}
	if d := s.release.Status.Drain; d == nil || d.Took < 2 {
		s.t.Errorf("the drain is %s; want one that took its time", jsonOf(d))
	}
	s.t.Logf("the primary's last long answer came %s after its share was taken away; %d long requests in all", last.Sub(*re.Moved), s.traffic.Long.Sent)
}

// slowMesh makes istiod slow for the time of a test.
func slowMesh(t *testing.T) {
	t.Helper()
	suite.needLab(t, "slowing istiod down")
	// What changes in older scenes would hasten what is told to the new one.
	if err := suite.cleared(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := lately(t, 5*time.Minute)
		defer cancel()
		if err := suite.inLab(ctx, "slow", "off"); err != nil {
			t.Error(err)
		}
	})
	if err := suite.inLab(t.Context(), "slow", "on"); err != nil {
		t.Fatal(err)
	}
}

func stopPrometheus(t *testing.T) {
	t.Helper()
	if err := suite.inLab(t.Context(), "prom", "stop"); err != nil {
		t.Fatal(err)
	}
}

// startPrometheus does nothing where it runs.
func startPrometheus(t *testing.T) {
	t.Helper()
	ctx, cancel := lately(t, 2*time.Minute)
	defer cancel()
	if err := suite.inLab(ctx, "prom", "start"); err != nil {
		t.Error(err)
	}
}
