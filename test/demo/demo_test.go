//go:build scenarios

package demo

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// The exit codes that users are told of.
const (
	succeeded  = 0
	rolledBack = 1
)

func TestGood(t *testing.T) {
	o := play(t, build(t), "good")
	o.endsWell(t)
	if o.Report.Failed != 0 {
		t.Errorf("%d requests failed; want none", o.Report.Failed)
	}
	o.sizes(t, []int{4, 4, 3, 2})
}

func TestCrash(t *testing.T) {
	o := play(t, build(t), "crash", "-v")
	o.endsWell(t)
	if o.Report.Failed != 0 {
		t.Errorf("%d requests failed; want none", o.Report.Failed)
	}
	o.mentions(t, `msg="the engine is dropped"`) // else nothing was tried
}

func TestErrors(t *testing.T) {
	o := play(t, build(t), "errors")
	s := o.Release.Status
	if o.code != rolledBack || s.Phase != "rolledBack" || s.Reason != "gateFailed" {
		t.Fatalf("ended %s (%s) with exit code %d; want rolledBack (gateFailed) with %d", s.Phase, s.Reason, o.code, rolledBack)
	}
	o.counts(t)
	if o.Report.Injected == 0 || o.Report.Failed != o.Report.Injected {
		t.Errorf("%d requests failed and %d failures were injected; want the same number, and some", o.Report.Failed, o.Report.Injected)
	}
	o.passed(t, 10, 25)
	o.sizes(t, []int{4, 4, 3})
	last := o.Release.Steps[len(o.Release.Steps)-1]
	if last.Share != 50 || last.State != "ended" || last.Gate == nil || last.Gate.Outcome != "fail" {
		t.Errorf("the last step is %s; want 50, ended by a verdict that failed", jsonOf(last))
	}

	r := s.Retreat
	switch {
	case r == nil:
		t.Fatal("there was no retreat")
	case r.Why != "gateFailed" || r.Refuge != "canary" || r.Forced:
		t.Errorf("the retreat is %s; want gateFailed, to the canary, not forced", jsonOf(r))
	case r.Moved == nil || r.Shown == nil || r.Undone == nil || r.Shown.Before(*r.Moved) || r.Undone.Before(*r.Shown):
		t.Errorf("the retreat is %s; want moved, then shown, then undone", jsonOf(r))
	}
	o.drained(t, "primary")
	if n := s.Tracks.Canary.Desired; n == nil || *n != 4 {
		t.Errorf("the canary ends with %s replicas; want 4, regrown", jsonOf(n))
	}
	if n := s.Tracks.Canary.Ready; n == nil || *n != 4 {
		t.Errorf("the canary ends with %s ready pods; want 4", jsonOf(n))
	}
	if p := s.Tracks.Primary; p.Template == nil || p.Template.Hash == p.Admitted.Hash || !isVersion(*p.Template, "v1") || !isVersion(p.Admitted, "v2") {
		t.Errorf("the primary is %s; want it back on v1 from the admitted v2", jsonOf(p))
	}
	o.declared(t, 0)
	if s.NeedsHuman || len(s.Unverified) > 0 {
		t.Errorf("something is left to do: needsHuman %t, unverified %q", s.NeedsHuman, s.Unverified)
	}
}

func TestSlow(t *testing.T) {
	o := play(t, build(t), "slow")
	s := o.Release.Status
	if o.code != rolledBack || s.Phase != "rolledBack" || s.Reason != "gateFailed" {
		t.Fatalf("ended %s (%s) with exit code %d; want rolledBack (gateFailed) with %d", s.Phase, s.Reason, o.code, rolledBack)
	}
	o.counts(t)
	if o.Report.Failed != 0 {
		t.Errorf("%d requests failed; want none: the answers are slow and right", o.Report.Failed)
	}
	o.passed(t, 10, 25)
	last := o.Release.Steps[len(o.Release.Steps)-1]
	g := last.Gate
	if last.Share != 50 || last.State != "ended" || g == nil || g.Outcome != "fail" || !strings.HasPrefix(g.Metric, "latency:") || !strings.Contains(g.Sentence, "slowly") {
		t.Errorf("the last step is %s; want 50, ended by a verdict on slow answers", jsonOf(last))
	}
	for _, st := range o.Release.Steps[:2] {
		proven := 0
		for _, p := range st.Gate.Parts {
			if p.Proves && strings.HasPrefix(p.Metric, "latency:") && p.Candidate.Requests > 0 {
				proven++
			}
		}
		if proven == 0 {
			t.Errorf("step %g passed without a proof about latency: %s", st.Share, jsonOf(st.Gate.Parts))
		}
	}
	if r := s.Retreat; r == nil || r.Why != "gateFailed" || r.Refuge != "canary" || r.Undone == nil || !strings.Contains(r.Reason, "slower than") {
		t.Errorf("the retreat is %s; want one to the canary for slow answers, undone", jsonOf(r))
	}
	o.mentions(t, "of the primary's answers")
	o.drained(t, "primary")
	o.declared(t, 0)
	if s.NeedsHuman || len(s.Unverified) > 0 {
		t.Errorf("something is left to do: needsHuman %t, unverified %q", s.NeedsHuman, s.Unverified)
	}
}

func TestFull(t *testing.T) {
	o := play(t, build(t), "full")
	s := o.Release.Status
	if o.code != succeeded || s.Phase != "succeeded" {
		t.Fatalf("ended %s (%s) with exit code %d; want succeeded with %d", s.Phase, s.Reason, o.code, succeeded)
	}
	o.counts(t)
	o.passed(t, 10, 25, 50, 100, 10, 25, 50, 100)
	o.drained(t, "canary")
	o.declared(t, 100)
	if o.Report.Failed != 0 {
		t.Errorf("%d requests failed; want none", o.Report.Failed)
	}
	o.ends(t, "v2")
}

func TestFullBadPrimary(t *testing.T) {
	o := play(t, build(t), "full-bad-primary")
	s := o.Release.Status
	if o.code != rolledBack || s.Phase != "rolledBack" || s.Reason != "gateFailed" {
		t.Fatalf("ended %s (%s) with exit code %d; want rolledBack (gateFailed) with %d", s.Phase, s.Reason, o.code, rolledBack)
	}
	if o.Report.Injected == 0 || o.Report.Failed != o.Report.Injected || o.Report.Lost != 0 {
		t.Errorf("%d requests failed, %d were lost, and %d failures were injected", o.Report.Failed, o.Report.Lost, o.Report.Injected)
	}
	if r := s.Retreat; r == nil || r.Refuge != "primary" || r.Undone == nil {
		t.Errorf("the retreat is %s; want undone, and home to the primary", jsonOf(r))
	}
	o.drained(t, "canary")
	o.declared(t, 100)
	o.ends(t, "v1")
}

// ends checks that the primary serves a version, and the canary is gone.
func (o outcome) ends(t *testing.T, version string) {
	t.Helper()
	s := o.Release.Status
	if n := s.Tracks.Canary.Desired; n == nil || *n != 0 {
		t.Errorf("the canary ends with %s replicas; want 0", jsonOf(n))
	}
	if n := s.Tracks.Primary.Ready; n == nil || *n != 4 {
		t.Errorf("the primary ends with %s ready pods; want 4", jsonOf(n))
	}
	if p := s.Tracks.Primary; p.Template == nil || !isVersion(*p.Template, version) {
		t.Errorf("the primary is %s; want %s", jsonOf(p), version)
	}
	if s.NeedsHuman || len(s.Unverified) > 0 {
		t.Errorf("something is left to do: needsHuman %t, unverified %q", s.NeedsHuman, s.Unverified)
	}
}

// TestErrorsWithoutJudge proves that the gate is what stops a bad version: with
// a judge that passes everything, the same scenario goes all the way.
func TestErrorsWithoutJudge(t *testing.T) {
	o := play(t, build(t, "-overlay", alwaysPass(t)), "errors")
	o.endsWell(t)
	if o.Report.Injected == 0 || o.Report.Failed != o.Report.Injected {
		t.Errorf("%d requests failed and %d failures were injected; want the same number, and some", o.Report.Failed, o.Report.Injected)
	}
}

// endsWell checks the end of a release that went through.
func (o outcome) endsWell(t *testing.T) {
	t.Helper()
	s := o.Release.Status
	if o.code != succeeded || s.Phase != "succeeded" {
		t.Fatalf("ended %s (%s) with exit code %d; want succeeded with %d", s.Phase, s.Reason, o.code, succeeded)
	}
	o.counts(t)
	o.passed(t, 10, 25, 50, 100)
	o.drained(t, "canary")
	o.declared(t, 100)
	if n := s.Tracks.Canary.Desired; n == nil || *n != 0 {
		t.Errorf("the canary ends with %s replicas; want 0", jsonOf(n))
	}
	if n := s.Tracks.Primary.Ready; n == nil || *n != 4 {
		t.Errorf("the primary ends with %s ready pods; want 4", jsonOf(n))
	}
	if s.Retreat != nil || s.NeedsHuman || len(s.Unverified) > 0 {
		t.Errorf("a release that succeeded has retreat %s, needsHuman %t, unverified %q", jsonOf(s.Retreat), s.NeedsHuman, s.Unverified)
	}
}

// passed checks that the given steps passed, each once, in this order, on
// evidence that is newer than what the data plane showed.
func (o outcome) passed(t *testing.T, want ...float64) {
	t.Helper()
	for _, st := range o.Release.Steps {
		if st.State != "passed" {
			continue
		}
		switch g := st.Gate; {
		case g == nil || g.Outcome != "pass":
			t.Errorf("step %g passed without a pass: %s", st.Share, jsonOf(g))
		case st.Shown == nil || st.Passed == nil || g.Data == nil || !g.Data.After(*st.Shown) || st.Passed.Before(*st.Shown):
			t.Errorf("step %g passed on data that is not newer than shown: %s", st.Share, jsonOf(st))
		case st.ShownBy != "data":
			t.Errorf("step %g was shown by %q; want data", st.Share, st.ShownBy)
		}
	}
	if got := o.shares("passed"); !slices.Equal(got, want) {
		t.Errorf("the steps %v passed; want %v", got, want)
	}
}

// shares lists the steps in a state.
func (o outcome) shares(state string) []float64 {
	var shares []float64
	for _, st := range o.Release.Steps {
		if st.State == state {
			shares = append(shares, st.Share)
		}
	}
	return shares
}

// sizes checks the canary's replicas at the end of each step.
func (o outcome) sizes(t *testing.T, want []int) {
	t.Helper()
	var got []int
	for _, st := range o.Release.Steps {
		if st.Replicas != nil {
			got = append(got, st.Replicas.Canary)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the canary had %v replicas at the ends of the steps; want %v", got, want)
	}
}

// drained checks that the drain was measured, not waited out, and cut nothing.
func (o outcome) drained(t *testing.T, track string) {
	t.Helper()
	d := o.Release.Status.Drain
	if d == nil || d.Status != "drained" || d.Track != track || d.Source == "none" || d.Source == "" || d.Cut != 0 {
		t.Errorf("the drain is %s; want the %s drained, measured, nothing cut", jsonOf(d), track)
	}
}

func (o outcome) declared(t *testing.T, want float64) {
	t.Helper()
	if got := o.Release.Status.Share.Declared; got == nil || *got != want {
		t.Errorf("the routes declare a share of %s for the primary; want %g", jsonOf(got), want)
	}
}

// counts checks that the client's counts add up, and are told in words too.
func (o outcome) counts(t *testing.T) {
	t.Helper()
	r := o.Report
	sum := 0
	for _, n := range r.ByVersion {
		sum += n
	}
	if r.Sent < 5000 {
		t.Errorf("%d requests were sent: too few to have shown anything", r.Sent)
	}
	if sum > r.Sent || sum < r.Sent-r.Failed {
		t.Errorf("%d requests were sent and %d failed, but the versions served %d", r.Sent, r.Failed, sum)
	}
	if r.Lost != 0 {
		t.Errorf("%d requests were lost; want none", r.Lost)
	}
	o.mentions(t, fmt.Sprintf("%d sent", r.Sent))
	judged := 0
	for _, st := range r.Steps {
		if st.Seen == nil || st.Answers < 200 {
			continue // a step that failed at once
		}
		judged++
		if math.Abs(*st.Seen-st.Target) > 5 {
			t.Errorf("clients saw %s; want a share near the target", jsonOf(st))
		}
	}
	if passed := len(o.shares("passed")); judged < passed {
		t.Errorf("%d steps passed, but the report says of %d what clients saw", passed, judged)
	}
}
