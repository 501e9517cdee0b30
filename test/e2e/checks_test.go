//go:build e2e

package e2e

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What shifter leaves on a route: see the README.
const (
	releaseAnnotation = "shifter.dev/release"
	epochAnnotation   = "shifter.dev/epoch"
	progressLabel     = "shifter.dev/in-progress"
)

// epoch is that of the route's last writer; 0 without one.
func (s *stage) epoch() uint64 {
	n, err := strconv.ParseUint(s.seen.route().annotations[epochAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// need is how many pods carry a share.
func need(share int) int { return int(math.Ceil(full * float64(share) / 100)) }

// wantEnd checks the end, and that nothing is left for a person.
func (s *stage) wantEnd(phase, reason string) {
	s.t.Helper()
	st := s.release.Status
	if st.Phase != phase || st.Reason != reason {
		s.t.Fatalf("the release ended %s (%s): %s; want %s (%s)", st.Phase, st.Reason, st.Message, phase, reason)
	}
	if st.NeedsHuman {
		s.t.Errorf("a person is needed: %s", st.Message)
	}
	if st.Retreat != nil && (st.Retreat.Refuge != "canary" || st.Retreat.Forced) {
		s.t.Errorf("the retreat is %s; want it to the canary, and not forced", jsonOf(st.Retreat))
	}
}

// wantAllVerified checks that nothing was waited out in place of being measured.
func (s *stage) wantAllVerified() {
	s.t.Helper()
	if u := s.release.Status.Unverified; len(u) > 0 {
		s.t.Errorf("this was not verified: %q", u)
	}
}

// wantPassed checks which steps passed, each on data that is newer than what the
// data plane showed, and that the client saw each share while it was shown.
func (s *stage) wantPassed(want ...float64) {
	s.t.Helper()
	var got []float64
	for _, st := range s.release.Steps {
		if st.State != "passed" {
			continue
		}
		got = append(got, st.Share)
		switch g := st.Gate; {
		case st.Shown == nil || st.Passed == nil || st.ShownBy != "data":
			s.t.Errorf("step %g passed, but was not counted on the data plane: %s", st.Share, jsonOf(st))
			continue
		case g == nil || g.Outcome != "pass" || g.Data == nil || !g.Data.After(*st.Shown):
			s.t.Errorf("step %g passed without a pass on data that is newer than shown: %s", st.Share, jsonOf(st))
		}
		s.wantShareSeen(st.Share, st.Shown.Add(time.Second), st.Passed.Add(-time.Second), 500)
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("the steps %v passed; want %v", got, want)
	}
}

// wantShareSeen checks that the client saw a share, within four standard errors:
// one true share in 16,000 is off by more.
func (s *stage) wantShareSeen(share float64, from, to time.Time, least int64) {
	s.t.Helper()
	got, n := s.shareIn(from, to)
	if n < least {
		s.t.Errorf("the client got %d answers from %s to %s; too few to see a share of %g", n, clock(from), clock(to), share)
		return
	}
	p := share / 100
	if off := math.Abs(got - p); off > 4*math.Sqrt(p*(1-p)/float64(n))+1e-9 {
		s.t.Errorf("the client saw %.2f %% on the primary in %d answers from %s to %s; want %g %%", 100*got, n, clock(from), clock(to), share)
	}
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }

// wantSizes checks the canary's replicas at the ends of the steps.
func (s *stage) wantSizes(want ...int) {
	s.t.Helper()
	var got []int
	for _, st := range s.release.Steps {
		if st.Replicas != nil {
			got = append(got, st.Replicas.Canary)
		}
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("the canary had %v replicas at the ends of the steps; want %v", got, want)
	}
}

// canarySizes are the replicas that the canary was given, in order.
func (s *stage) canarySizes() (sizes []int) {
	for _, d := range s.seen.sizes(canary) {
		sizes = append(sizes, d.replicas)
	}
	return sizes
}

// wantCanaryGone checks that the canary only shrank, to nothing in the end, and
// that the primary was left alone.
func (s *stage) wantCanaryGone() {
	s.t.Helper()
	sizes := s.canarySizes()
	if !slices.IsSortedFunc(sizes, func(a, b int) int { return b - a }) || sizes[len(sizes)-1] != 0 {
		s.t.Errorf("the canary was given %v replicas; want it to shrink to 0", sizes)
	}
	all := s.seen.of(primary)
	for _, d := range all {
		if d.template != all[0].template || d.replicas != full {
			s.t.Errorf("the primary was changed at %s: %d replicas of %s", clock(d.at), d.replicas, d.image)
			break
		}
	}
}

// wantWeights checks the route's weights in the end.
func (s *stage) wantWeights(onPrimary int) {
	s.t.Helper()
	if r := s.seen.route(); r.onPrimary != onPrimary || r.onCanary != 100-onPrimary {
		s.t.Errorf("the weights are %d on the primary and %d on the canary; want %d and %d", r.onPrimary, r.onCanary, onPrimary, 100-onPrimary)
	}
}

// wantPodsForEveryShare checks, write by write, that a track got share only when
// the pods for it were ready, and was made smaller only for the share it had.
func (s *stage) wantPodsForEveryShare() {
	s.t.Helper()
	moves := s.seen.moves()
	for i := 1; i < len(moves); i++ {
		was, is := moves[i-1], moves[i]
		for _, g := range []struct {
			track    string
			was, now int
		}{{primary, was.onPrimary, is.onPrimary}, {canary, was.onCanary, is.onCanary}} {
			if ready := s.seen.readyBefore(is.version, g.track); g.now > g.was && ready < need(g.now) {
				s.t.Errorf("%s was given %d %% at %s with %d ready pods; it needs %d", g.track, g.now, clock(is.at), ready, need(g.now))
			}
		}
	}
	for _, track := range []string{primary, canary} {
		sizes := s.seen.sizes(track)
		for i := 1; i < len(sizes); i++ {
			d, r := sizes[i], s.seen.routeBefore(sizes[i].version)
			share := r.onPrimary
			if track == canary {
				share = r.onCanary
			}
			if d.replicas < sizes[i-1].replicas && d.replicas < need(share) {
				s.t.Errorf("%s was made %d pods small at %s while it had %d %%; it needs %d", track, d.replicas, clock(d.at), share, need(share))
			}
		}
	}
}

// wantRegrown checks that the canary was as small as said, and was given all of
// its pods again, ready before it got all of the traffic back.
func (s *stage) wantRegrown(from int) {
	s.t.Helper()
	sizes := s.canarySizes()
	if slices.Min(sizes) != from || sizes[len(sizes)-1] != full {
		s.t.Errorf("the canary was given %v replicas; want it at %d and then at %d again", sizes, from, full)
	}
	moves := s.seen.moves()
	back := moves[len(moves)-1]
	grown := s.seen.sizes(canary)
	if last := grown[len(grown)-1]; last.version > back.version {
		s.t.Errorf("the canary was given %d replicas at %s, after all of the traffic (%s)", last.replicas, clock(last.at), clock(back.at))
	}
	if ready := s.seen.readyBefore(back.version, canary); ready < full {
		s.t.Errorf("the canary got all of the traffic back at %s with %d ready pods; want %d", clock(back.at), ready, full)
	}
}

// wantDrained checks that a track's drain was measured, and cut nothing.
func (s *stage) wantDrained(track string) {
	s.t.Helper()
	d := s.release.Status.Drain
	if d == nil || d.Status != "drained" || d.Track != track || d.Source == "none" || d.Source == "" || d.Cut != 0 {
		s.t.Errorf("the drain is %s; want the %s drained, measured, nothing cut", jsonOf(d), track)
	}
}

// wantUndone checks that the primary kept v2 until it was known to be quiet, and
// is all on v1 in the end, in pods that have no faults.
func (s *stage) wantUndone() {
	s.t.Helper()
	re, all := s.release.Status.Retreat, s.seen.of(primary)
	if re == nil || re.Drained == nil || re.Undone == nil {
		s.t.Errorf("the retreat is %s; want one that was drained and undone", jsonOf(re))
		return
	}
	if !strings.HasSuffix(all[0].image, ":v2") {
		s.t.Errorf("the primary began on %s; want v2", all[0].image)
	}
	for _, d := range all {
		if d.template == all[0].template {
			continue
		}
		if d.at.Before(*re.Drained) {
			s.t.Errorf("the primary's template was changed at %s, before it was known to be quiet (%s)", clock(d.at), clock(*re.Drained))
		}
		break
	}
	last := all[len(all)-1]
	if !strings.HasSuffix(last.image, ":v1") || !last.done || last.replicas != full {
		s.t.Errorf("the primary ends with %d replicas of %s, rolled out: %t; want %d of v1, rolled out", last.replicas, last.image, last.done, full)
	}
	tr := s.release.Status.Tracks.Primary
	before, after := s.seen.hash(primary, all[0]), s.seen.hash(primary, last)
	if tr.Template == nil || tr.Template.Hash != after || tr.Admitted.Hash != before || before == after {
		s.t.Errorf("the release says that the primary went from template %s to %s; the API server that it went from %s to %s",
			tr.Admitted.Hash, jsonOf(tr.Template), before, after)
	}
	s.wantNoFaults()
}

// wantNoFaults checks that no pod of the primary has any fault.
func (s *stage) wantNoFaults() {
	s.t.Helper()
	pods, err := podsOf(s.t.Context(), s.ns, primary)
	if err != nil || len(pods) != full {
		s.t.Errorf("the primary has the pods %q (%v); want %d", pods, err, full)
	}
	for _, pod := range pods {
		var f struct {
			ErrorRate float64 `json:"errorRate"`
		}
		if err := suite.api.do(s.t.Context(), "GET", faultsOf(s.ns, pod), "", &f); err != nil || f.ErrorRate != 0 {
			s.t.Errorf("pod %s fails %g of its requests (%v); want a new pod without faults", pod, f.ErrorRate, err)
		}
	}
}

// wantNothingLost checks that every request was sent and answered well, but for
// the errors that were ordered. The client counts what it gets; nothing it counts
// passes through telemetry.
func (s *stage) wantNothingLost(injected bool) {
	s.t.Helper()
	for name, c := range map[string]counts{"requests": s.traffic.Paced, "long requests": s.traffic.Long} {
		if c.Failed != 0 || c.Bad != 0 || c.Missed != 0 || c.Answered != c.Sent {
			s.t.Errorf("%s: %d sent, %d answered, %d failed %v, %d answered badly, %d not sent; want all answered well: %s",
				name, c.Sent, c.Answered, c.Failed, c.Failures, c.Bad, c.Missed, jsonOf(c.Samples))
		}
	}
	if n := s.traffic.Paced.Injected; injected != (n > 0) {
		s.t.Errorf("%d injected errors were seen; want some: %t", n, injected)
	}
	if least := int64(rps * s.over.Sub(s.posted).Seconds() * 9 / 10); s.traffic.Paced.Sent < least {
		s.t.Errorf("%d requests were sent; want %d at least", s.traffic.Paced.Sent, least)
	}
}

// wantHarmKnown checks that the harm which the release tells of is the one that
// the client had when the judge looked.
func (s *stage) wantHarmKnown() {
	s.t.Helper()
	h, g := s.release.Status.Harm, s.release.Status.Gate
	if h == nil || g == nil || g.Data == nil {
		s.t.Errorf("the release tells of no harm: %s, gate %s", jsonOf(h), jsonOf(g))
		return
	}
	if n := float64(s.injectedUntil(*g.Data)); n < h.Low || n > h.High {
		s.t.Errorf("the release tells of %.0f bad requests, between %.0f and %.0f; the client had %.0f by then", h.Mid, h.Low, h.High, n)
	}
}

// wantFewWrites checks that no step took more than three writes to the route and
// the Deployments.
func (s *stage) wantFewWrites() {
	s.t.Helper()
	for part, n := range s.writes() {
		if n > 3 {
			s.t.Errorf("the part %q took %d writes; want 3 at the most", part, n)
		}
	}
	if suite.auditLog != "" && len(s.calls) == 0 {
		s.t.Error("the audit log has no call of shifter at all: nothing was counted")
	}
}

// wantShrinksBehind checks that each time the canary was made smaller, the share
// that allows it had been shown before, and the client saw it.
func (s *stage) wantShrinksBehind() {
	s.t.Helper()
	sizes := s.seen.sizes(canary)
	for i := 1; i < len(sizes); i++ {
		d := sizes[i]
		if d.replicas >= sizes[i-1].replicas || s.release.part(d.at) == "retreat" {
			continue
		}
		var behind *step
		for j, st := range s.release.Steps {
			if st.Passed != nil && !st.Passed.After(d.at) {
				behind = &s.release.Steps[j]
			}
		}
		if behind == nil || d.replicas < need(100-int(behind.Share)) {
			s.t.Errorf("the canary was made %d pods small at %s; the last step that had passed was %s", d.replicas, clock(d.at), jsonOf(behind))
			continue
		}
		s.wantShareSeen(behind.Share, d.at.Add(-6*time.Second), d.at, 4*rps)
	}
}

// wantSlow checks that the mesh was slow: else nothing was proved.
func (s *stage) wantSlow(least time.Duration) {
	s.t.Helper()
	for _, st := range s.release.Steps {
		if st.Written == nil || st.Shown == nil {
			continue
		}
		if took := st.Shown.Sub(*st.Written); took < least {
			s.t.Errorf("step %g was shown %s after it was written; want a mesh that takes %s at least", st.Share, took, least)
		}
	}
}

// wantStill checks that neither weights nor sizes changed in a span of time.
func (s *stage) wantStill(from, to time.Time) {
	s.t.Helper()
	in := func(at time.Time) bool { return at.After(from) && at.Before(to) }
	for _, r := range s.seen.moves() {
		if in(r.at) {
			s.t.Errorf("the weights became %d and %d at %s; want no change from %s to %s", r.onPrimary, r.onCanary, clock(r.at), clock(from), clock(to))
		}
	}
	for _, track := range []string{primary, canary} {
		for _, d := range s.seen.sizes(track) {
			if in(d.at) {
				s.t.Errorf("%s was given %d replicas at %s; want no change from %s to %s", track, d.replicas, clock(d.at), clock(from), clock(to))
			}
		}
	}
}
