//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// TestWholeRelease takes the traffic to the canary, gives the primary the new
// version while nothing reaches it, and brings the traffic back.
func TestWholeRelease(t *testing.T) {
	t.Parallel()
	s := playIn(t, "whole-release", httpRoute, func(ns string) { oldScene(t, ns) })
	q := s.kind.request(s.name)
	q.Stages = []string{"canary", "promote", "shift"}
	q.Deadlines["promote"], q.Deadlines["steady"] = "120s", "10s"
	s.postAs(q)
	s.end()

	s.wantEnd("succeeded", "completed")
	s.wantAllVerified()
	s.wantStepsPassed(10, 25, 50, 100, 10, 25, 50, 100)
	s.wantWeights(100)
	s.wantDrained("canary")
	s.wantNothingLost(false)
	s.wantPromotedAtRest()
	if sizes := s.canarySizes(); slices.Max(sizes) != full || sizes[0] != 0 || sizes[len(sizes)-1] != 0 {
		t.Errorf("the canary was given %v replicas; want it to grow from 0 to %d and to end with 0", sizes, full)
	}
}

// wantStepsPassed checks which steps passed, over all stages, on counts.
func (s *stage) wantStepsPassed(want ...float64) {
	s.t.Helper()
	var got []float64
	for _, st := range s.release.Steps {
		if st.State == "passed" && st.ShownBy == "data" && st.Gate != nil && st.Gate.Outcome == "pass" {
			got = append(got, st.Share)
		}
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("the steps %v passed, shown and certified by counts; want %v", got, want)
	}
}

// wantPromotedAtRest checks that the primary went from v1 to v2 once, while the
// route gave it nothing, and that clients got both versions and nothing else.
func (s *stage) wantPromotedAtRest() {
	s.t.Helper()
	all := s.seen.of(primary)
	changes := 0
	for i := 1; i < len(all); i++ {
		if all[i].template == all[i-1].template {
			continue
		}
		changes++
		if r := s.seen.routeBefore(all[i].version); r.onPrimary != 0 {
			s.t.Errorf("the primary's template was changed at %s, while it had %d %% of the traffic", clock(all[i].at), r.onPrimary)
		}
	}
	first, last := all[0], all[len(all)-1]
	if changes != 1 || !strings.HasSuffix(first.image, ":v1") || !strings.HasSuffix(last.image, ":v2") || !last.done || last.replicas != full {
		s.t.Errorf("the primary went from %s to %s in %d changes, with %d replicas rolled out: %t; want from v1 to v2 in one, with %d",
			first.image, last.image, changes, last.replicas, last.done, full)
	}
	by := s.traffic.Paced.ByVersion
	if by["v1"] == 0 || by["v2"] == 0 || by["v1"]+by["v2"] != s.traffic.Paced.Answered {
		s.t.Errorf("clients got %v of %d answers; want v1 and v2, and nothing else", by, s.traffic.Paced.Answered)
	}
}
