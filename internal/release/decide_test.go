package release

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// Ways into a release, as the transcripts write them.
const (
	toGating   = "turn\napply\nafter 1s\nturn\napply\nafter 1s\nturn\nafter 2s\nshown yes\nturn\n"
	nextStep   = "after 5m\nverdict certified\nturn\napply\nafter 1s\nturn\nafter 2s\nshown yes\nturn\n"
	toDraining = "steps 50,100\n" + toGating + nextStep + "after 5m\nverdict soakClean\nturn\n"
	toRetreat  = toGating + "after 5s\nverdict regression\nturn\n"
)

// told plays a story and returns the world in which it has got to.
func told(t *testing.T, story string) *script {
	t.Helper()
	s := newScript()
	for line := range strings.Lines(story) {
		words := strings.Fields(line)
		if words[0] == "turn" {
			s.turn()
			continue
		}
		if err := s.do(words); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return s
}

func TestATerminalReleaseIsInert(t *testing.T) {
	for _, p := range Phases() {
		if !p.Terminal() {
			continue
		}
		for name, story := range map[string]string{
			"left alone":         "",
			"aborted":            "abort back force\n",
			"after a verdict":    "verdict safetyLimit\n",
			"after a restart":    "crash\n",
			"fenced off":         "epoch 9\n",
			"recreated":          "recreated route\n",
			"weights of another": "weights 70/30\nmarked r1\n",
			"long after":         "after 100h\n",
		} {
			s := told(t, toGating)
			s.r.Phase, s.r.Ended = p, s.o.Now
			for line := range strings.Lines(story) {
				if err := s.do(strings.Fields(line)); err != nil {
					t.Fatal(err)
				}
			}
			before := s.r
			if d := Decide(s.r, s.o); !reflect.DeepEqual(d, Decision{Next: before}) {
				t.Errorf("%s, %s: %+v", p, name, d)
			}
		}
	}
}

func TestRecreatedObjectsAreHeldInEveryPhaseThatAdvances(t *testing.T) {
	pass := "after 5m\nready primary 3\nverdict certified\nturn\n"
	for phase, story := range map[Phase]string{
		Growing:    "steps 50,100\n" + toGating + pass,
		Shifting:   toGating + "after 5m\nverdict certified\nturn\n",
		Settling:   "turn\napply\nafter 1s\nturn\napply\nafter 1s\nturn\n",
		Gating:     toGating,
		Draining:   toDraining,
		Shrinking:  toDraining + "after 5s\ndrain canary drained\nturn\n",
		Confirming: toDraining + "after 5s\ndrain canary drained\nturn\napply\nready primary 3\nafter 1s\nturn\n",
		Held:       "steps 50,100\n" + toGating + pass + "after 6m\nturn\n",
	} {
		for _, what := range []string{"route", "primary", "canary"} {
			s := told(t, story)
			if s.r.Phase != phase {
				t.Fatalf("the story leads to %s, not to %s", s.r.Phase, phase)
			}
			from := phase
			if phase == Held {
				from = s.r.Hold.From
			}
			if err := s.do([]string{"recreated", what}); err != nil {
				t.Fatal(err)
			}
			s.turn()
			if s.r.Phase != Held || s.r.Hold.Class != ClassRecreated || s.r.Hold.From != from || s.r.Reason != ReasonRecreated {
				t.Errorf("%s, %s: %s (%s), %+v", phase, what, s.r.Phase, s.r.Reason, s.r.Hold)
			}
			if len(s.last.Actions) > 0 {
				t.Errorf("%s, %s: %v", phase, what, s.last.Actions)
			}
			if out := s.turn(); s.r.Phase != Held || strings.Contains(out, "Held:") {
				t.Errorf("%s, %s: it is held again: %s", phase, what, out)
			}
		}
	}
}

func TestLastIsTheShareThatWasShownLast(t *testing.T) {
	s := told(t, toRetreat) // 10 was shown, 0 is written
	if s.r.Target != 0 || s.r.Last != 10 {
		t.Fatalf("target %g, last %g", s.r.Target, s.r.Last)
	}
	// Hops that were never shown do not make the data plane forget.
	s = told(t, "steps 50,100\n"+toGating+nextStep+"after 10s\nverdict guardAlarmAgain\nturn\n")
	if s.r.Target != 50 || s.r.Last != 100 {
		t.Fatalf("first hop: target %g, last %g", s.r.Target, s.r.Last)
	}
	s = told(t, "steps 50,100\n"+toGating+nextStep+"after 10s\nverdict guardAlarmAgain\nturn\napply\nafter 1s\nturn\n")
	if s.r.Target != 0 || s.r.Last != 100 {
		t.Errorf("second hop, the first one never shown: target %g, last %g", s.r.Target, s.r.Last)
	}
	down := Scale{Track: Primary, UID: "d-primary", Replicas: 3}
	if err := Permit(s.r, s.o, down); err == nil {
		t.Error("the suspect may be made smaller while the data plane may give it everything")
	}
}

func TestADrainDoesNotOutlastTheShareThatComesBack(t *testing.T) {
	drained := toDraining + "after 5s\ndrain canary drained\nturn\n"
	back := toRetreat + "apply\nafter 1s\nturn\nafter 1s\nshown yes\nturn\nafter 20s\ndrain primary drained\nturn\n"
	for name, c := range map[string]struct{ story, then string }{
		"a fail while it shrinks":    {drained, "verdict regression\nafter 1s\nturn\n"},
		"an abort while it shrinks":  {drained, "abort back immediate\nafter 1s\nturn\n"},
		"another hand while it goes": {drained, "weights 50/50\nafter 1s\nturn\nweights 100/0\nafter 1s\nturn\n"},
		"another hand in a retreat":  {back, "weights 40/60\nafter 1s\nturn\n"},
	} {
		s := told(t, c.story)
		if s.r.Drained == nil || s.r.Drain == nil {
			t.Fatalf("%s: nothing is drained in %s", name, s.r.Phase)
		}
		for line := range strings.Lines(c.then) {
			if strings.HasPrefix(line, "turn") {
				s.turn()
			} else if err := s.do(strings.Fields(line)); err != nil {
				t.Fatal(err)
			}
		}
		if s.r.Drained != nil || s.r.Drain != nil {
			t.Errorf("%s: in %s the %s still counts as drained", name, s.r.Phase, *s.r.Drained)
		}
		if re := s.r.Retreat; re != nil && !re.Drained.IsZero() {
			t.Errorf("%s: the retreat still says drained", name)
		}
	}
}

func TestARecordThatANewerWriterHasTakenIsLeftAlone(t *testing.T) {
	s := told(t, toGating)
	s.r.Epoch, s.o.Routes[0].Epoch = 7, Known(uint64(7), s.o.Now)
	for i := range 1000 {
		if i == 500 { // what is on the routes is no matter
			s.o.Routes[0].Epoch = Unseen[uint64]("away")
		}
		s.o.Now = s.o.Now.Add(15 * time.Second)
		before := s.r
		d := Decide(s.r, s.o)
		if d.Save || len(d.Actions) > 0 || !reflect.DeepEqual(d.Next, before) || !d.Wake.After(s.o.Now) {
			t.Fatalf("it fights with the newer writer: %+v", d)
		}
		s.r = d.Next
	}
	s.o.Epoch = 7 // this is the newer writer
	if d := Decide(s.r, s.o); d.Next.Fenced != nil || d.Next.Phase == Failed {
		t.Errorf("the writer stands back from itself: %+v", d.Next.Fenced)
	}
}

func TestEverySavedRecordCarriesItsWritersEpoch(t *testing.T) {
	s := told(t, "begin\n")
	s.o.Epoch = 4
	if s.turn(); s.r.Epoch != 4 {
		t.Errorf("epoch %d", s.r.Epoch)
	}
	// A new leader takes the record with its first decision, before any effect.
	s.r = Resume(roundTrip(s.r), s.o.Now)
	s.o.Epoch = 5
	if d := Decide(s.r, s.o); !d.Save || d.Next.Epoch != 5 {
		t.Errorf("saved %v, epoch %d", d.Save, d.Next.Epoch)
	}
}

func TestStandingBackIsBoundedForAProcessThatKeepsDying(t *testing.T) {
	s := told(t, toGating+"epoch 7\nturn\n")
	for i := range 60 { // dies ten seconds after each start
		s.r = Resume(roundTrip(s.r), s.o.Now)
		s.o.Now = s.o.Now.Add(10 * time.Second)
		d := Decide(s.r, s.o)
		if s.r = d.Next; !d.Save {
			t.Fatal("the charge is not saved")
		}
		if s.r.Phase == Failed {
			if i > 6 {
				t.Errorf("it took %d deaths", i)
			}
			return
		}
	}
	t.Errorf("still %s, %+v", s.r.Phase, s.r.Fenced)
}

// evidence is a gate that has seen ten good windows at 10 and half a proof of
// failure.
func evidence(r Release, from time.Time) (Release, time.Time) {
	var ws []analysis.Window
	for i := range 10 {
		at := from.Add(time.Duration(i) * 10 * time.Second)
		ws = append(ws, analysis.Window{
			Metric: analysis.MetricErrors, Stratum: "gw", From: at, To: at.Add(10 * time.Second),
			Candidate: analysis.Counts{Requests: 100, Bad: 2}, Baseline: analysis.Counts{Requests: 900, Bad: 1},
		})
	}
	r.Gate = r.Gate.Add(r.Spec.Gate, ws)
	return r, from.Add(100 * time.Second)
}

// proof says how many scrapes count for a pass, and how far the fail process is.
func proof(r Release, now time.Time) (pass int, fail float64) {
	v := r.Gate.Verdict(r.Spec.Gate, analysis.Health{Fresh: now, Scrape: 10 * time.Second}, now)
	return v.Scrapes, v.LogFailRaw
}

func TestARestartBeginsTheProofAnewAndKeepsTheFailProcess(t *testing.T) {
	s := told(t, toGating)
	r, now := evidence(s.r, s.o.Now)
	pass, fail := proof(r, now)
	if pass == 0 || fail <= 0 {
		t.Fatalf("no evidence to lose: %d, %g", pass, fail)
	}
	again := Resume(roundTrip(r), now)
	if pass, after := proof(again, now); pass != 0 || after != fail {
		t.Errorf("%d scrapes count for a pass, and the fail process is at %g of %g", pass, after, fail)
	}
	if !reflect.DeepEqual(again.Gate, r.Gate.RestartProof(now)) {
		t.Error("the gate is not the old one with its proof begun anew")
	}
}

func TestTelemetryThatComesBackBeginsTheProofAnew(t *testing.T) {
	s := told(t, toGating)
	r, now := evidence(s.r, s.o.Now)
	s.r, s.o.Now = r, now.Add(3*time.Minute)
	for _, line := range []string{"verdict telemetryUnavailable", "turn", "after 1m", "verdict warmingUp", "turn"} {
		if line == "turn" {
			s.turn()
		} else if err := s.do(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	if s.r.Phase != Gating {
		t.Fatalf("it is %s", s.r.Phase)
	}
	if pass, fail := proof(s.r, s.o.Now); pass != 0 || fail <= 0 {
		t.Errorf("%d scrapes of before the hold count for a pass, the fail process is at %g", pass, fail)
	}
}

func TestWhatIsOverIsNothingToWakeFor(t *testing.T) {
	s := told(t, "exposure 10m\n"+toRetreat+"apply\nafter 1s\nturn\nafter 1s\nshown yes\nturn\nafter 9m59s\ndrain primary draining\nturn\n")
	s.o.Now = s.o.Now.Add(time.Minute)
	s.turn()
	if s.r.Phase != Draining || s.r.Work.Left > 0 || s.r.ExposedUntil.After(s.o.Now) {
		t.Fatalf("%s, %s left, exposed until %s", s.r.Phase, s.r.Work.Left, s.r.ExposedUntil)
	}
	if in := s.last.Wake.Sub(s.o.Now); in < s.r.Binding.Scrape {
		t.Errorf("it spins: looks again in %s", in)
	}
}

func TestAGuardThatRingsInTheDrainBoundsTheExposureAgain(t *testing.T) {
	s := told(t, toDraining)
	if !s.r.ExposedUntil.IsZero() {
		t.Fatalf("all has passed, and the exposure is bounded until %s", s.r.ExposedUntil)
	}
	// Nothing can be written yet, since the canary has not the pods.
	for _, line := range []string{"ready canary 1", "after 10s", "verdict guardAlarm"} {
		if err := s.do(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	s.turn()
	if s.r.Passed != 50 {
		t.Errorf("%g counts as passed", s.r.Passed)
	}
	if s.r.Phase != Shifting || s.r.ExposedUntil != s.o.Now.Add(s.r.Spec.Deadlines.Exposure) {
		t.Errorf("%s, exposed until %s", s.r.Phase, s.r.ExposedUntil)
	}
}

func TestAPassOfAnotherShareDoesNotClearAHold(t *testing.T) {
	s := told(t, toGating+"after 10m\nverdict windowExhausted\nturn\nafter 1m\nverdict certified\n")
	s.o.Verdict.Val.Share = 5
	if s.turn(); s.r.Phase != Held {
		t.Errorf("it is %s", s.r.Phase)
	}
}

// twoRoutes is a release with a second route, at the same weights.
func twoRoutes(s *script) {
	second := s.o.Routes[0]
	second.Ref.Name, second.UID = "checkout-mesh", "r-2"
	second.Split = Known(slices.Clone(second.Split.Val), s.o.Now)
	s.o.Routes = append(s.o.Routes, second)
	s.r.Binding.Routes = append(slices.Clone(s.r.Binding.Routes), BoundRoute{Ref: second.Ref, UID: "r-2", Split: s.r.Binding.Routes[0].Split, Accepted: AcceptedYes})
}

func TestARouteThatCannotBeReadDoesNotKeepTheOthersFromGoingBack(t *testing.T) {
	s := told(t, toGating)
	twoRoutes(s)
	s.o.Routes[1].Split, s.o.Routes[1].UID = Unseen[[]Pair]("another object"), "another"
	s.r.Phase = Settling // the watch holds an advance for it; an abort goes back at once
	if err := s.do([]string{"abort", "back", "immediate"}); err != nil {
		t.Fatal(err)
	}
	s.turn()
	want := SetShare{Route: s.o.Routes[0].Ref, UID: "r-1", From: []Pair{{10, 90}}, To: []Pair{{0, 100}}}
	if s.r.Phase != Retreating || len(s.last.Actions) != 1 || s.last.Actions[0].String() != want.String() {
		t.Fatalf("%s: %v", s.r.Phase, s.last.Actions)
	}
	s.apply()
	s.o.Now = s.o.Now.Add(s.r.Spec.Deadlines.Grow)
	s.turn()
	if s.r.Ending == nil || s.r.Ending.Reason != ReasonRecreated || !strings.Contains(s.r.Ending.Message, "checkout-mesh") {
		t.Errorf("%s, ending %+v", s.r.Phase, s.r.Ending)
	}
}

func TestStandingBackLastsAMinuteAtLeast(t *testing.T) {
	for write, want := range map[time.Duration]time.Duration{time.Second: time.Minute, 5 * time.Minute: 5 * time.Minute} {
		s := told(t, toGating)
		s.r.Spec.Deadlines.Write = write
		s.o.Routes[0].Epoch = Known(uint64(7), s.o.Now)
		s.turn()
		if s.r.Fenced == nil || s.r.Fenced.Left != want {
			t.Errorf("write deadline %s: %+v", write, s.r.Fenced)
		}
	}
}

func TestRoutesOfWhichOneCannotBeMarkedAreNotMarkedAtTheEnd(t *testing.T) {
	s := told(t, "begin\n")
	twoRoutes(s)
	s.turn()
	if len(s.last.Actions) != 2 {
		t.Fatalf("%v", s.last.Actions)
	}
	s.o.Routes[0].Marked = Known("r1", s.o.Now)
	s.o.Now = s.o.Now.Add(s.r.Spec.Deadlines.Preflight)
	s.turn()
	if s.r.Ending == nil || len(s.last.Actions) != 1 || s.last.Actions[0].String() != (Mark{Route: s.o.Routes[0].Ref}).String() {
		t.Errorf("%s, ending %+v: %v", s.r.Phase, s.r.Ending, s.last.Actions)
	}
}

func TestWithoutShareThereIsNothingToGoBackFor(t *testing.T) {
	s := told(t, "ready primary 0\nturn\napply\nafter 1s\nturn\nverdict regression\n")
	s.r.ExposedUntil = s.o.Now.Add(-time.Second)
	if s.turn(); s.r.Phase != Growing {
		t.Errorf("it is %s (%s)", s.r.Phase, s.r.Reason)
	}
}

func TestPreflightRejectsWhatIsNotAsAtTheRequest(t *testing.T) {
	for change, want := range map[string]string{
		"weights 30/70":       "the weights of HTTPRoute shop/checkout have changed",
		"marked other":        "is marked by release other",
		"recreated route":     "HTTPRoute shop/checkout is another object",
		"recreated primary":   "Deployment checkout is another object",
		"recreated canary":    "Deployment checkout-canary is another object",
		"template primary xx": "the template of Deployment checkout has changed",
		"template canary xx":  "the template of Deployment checkout-canary has changed",
	} {
		s := told(t, "begin\n"+change+"\nturn\n")
		if s.r.Phase != Rejected || !strings.Contains(s.last.Say, want) || s.r.NeedsHuman {
			t.Errorf("%s: %s, %q", change, s.r.Phase, s.last.Say)
		}
	}
}

func TestAnAbortDoesNotChangeAnEndThatIsDecided(t *testing.T) {
	for _, traffic := range []string{"stay", "back"} {
		s := told(t, toRetreat+"after 10m\nturn\nabort "+traffic+" graceful\nafter 16m\nturn\n")
		e := s.r.Ending
		if e == nil {
			t.Fatalf("it is %s", s.r.Phase)
		}
		if err := s.do([]string{"abort", traffic, "graceful"}); err != nil {
			t.Fatal(err)
		}
		if s.turn(); *s.r.Ending != *e || s.r.Retreat.Ends != RolledBack {
			t.Errorf("%s: the end was %+v and is %+v", traffic, e, s.r.Ending)
		}
		s = told(t, toGating+"abort stay graceful\nafter 1s\nturn\n")
		e = s.r.Ending
		if err := s.do([]string{"abort", traffic, "graceful"}); err != nil {
			t.Fatal(err)
		}
		if s.turn(); s.r.Retreat != nil || *s.r.Ending != *e {
			t.Errorf("%s: the end was %+v and is %+v", traffic, e, s.r.Ending)
		}
	}
}

func TestOnlyForceForcesARetreat(t *testing.T) {
	for mode, want := range map[Mode]Mode{ModeGraceful: ModeGraceful, ModeImmediate: ModeGraceful, ModeForce: ModeForce} {
		s := told(t, toRetreat+"abort back "+string(mode)+"\nturn\n")
		if s.r.Retreat.Mode != want {
			t.Errorf("%s makes it %s", mode, s.r.Retreat.Mode)
		}
	}
}

func TestARefusalToScaleIsNotOneOfTheWeights(t *testing.T) {
	s := told(t, toGating+"after 5m\nverdict certified\nturn\nfailed Scale forbidden\nturn\n")
	if s.r.Phase != Shifting {
		t.Errorf("it is %s (%s)", s.r.Phase, s.r.Reason)
	}
}

func TestAWriteThatIsHalfDoneIsNotAnotherHand(t *testing.T) {
	s := told(t, toGating)
	twoRoutes(s)
	for _, line := range []string{"after 5m", "verdict certified"} {
		if err := s.do(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	if s.turn(); len(s.last.Actions) != 2 {
		t.Fatalf("%s: %v", s.r.Phase, s.last.Actions)
	}
	s.o.Routes[0].Split = Known([]Pair{{25, 75}}, s.o.Now)
	if s.turn(); s.r.Phase != Shifting || len(s.last.Actions) != 1 || !strings.Contains(s.last.Actions[0].String(), "checkout-mesh") {
		t.Errorf("%s (%s): %v", s.r.Phase, s.r.Reason, s.last.Actions)
	}
	s.o.Routes[1].Split = Known([]Pair{{70, 30}}, s.o.Now)
	if s.turn(); s.r.Phase != Held || s.r.Hold.Class != ClassContested {
		t.Errorf("weights of nobody here: %s (%s)", s.r.Phase, s.r.Reason)
	}
}

func TestASplitThatTheControllerRefusesIsNotJudged(t *testing.T) {
	s := told(t, "turn\napply\nafter 1s\nturn\napply\nafter 1s\nturn\naccepted refused\nafter 1s\nshown yes\nturn\n")
	if s.r.Phase != Held || s.r.Hold.Class != ClassRouteRefused {
		t.Errorf("%s (%s)", s.r.Phase, s.r.Reason)
	}
}

func TestTheProofBeginsWhenTheSplitIsShown(t *testing.T) {
	s := told(t, "turn\napply\nafter 1s\nturn\napply\nafter 1s\nturn\nafter 1m\nshown yes\nturn\n")
	v := s.r.Gate.Verdict(s.r.Spec.Gate, analysis.Health{}, s.o.Now)
	if s.r.Phase != Gating || v.Elapsed != 0 {
		t.Errorf("%s: %s of the window are gone", s.r.Phase, v.Elapsed)
	}
}

func TestAStaleNoDoesNotHoldUpWhatCannotBeCountedAnyMore(t *testing.T) {
	s := told(t, "turn\napply\nafter 1s\nturn\napply\nafter 1s\nturn\nafter 1s\nshown no\nafter 1m\nturn\n")
	if s.r.Phase != Settling {
		t.Fatalf("a fresh no: %s", s.r.Phase)
	}
	s.r.Work.Left = time.Hour
	s.o.Now = s.o.Now.Add(3 * time.Minute)
	if s.turn(); s.r.Phase != Gating || s.r.ShownBy != ShownBySettle {
		t.Errorf("a stale no: %s", s.r.Phase)
	}
}

func TestDataOfTheMomentOfTheWriteSayNothingOfIt(t *testing.T) {
	s := told(t, "turn\napply\nafter 1s\nturn\napply\nafter 1s\nturn\nshown no\nafter 1m\nturn\n")
	if s.r.Phase != Gating || strings.Contains(s.last.Say, "Data have come") {
		t.Errorf("%s: %s", s.r.Phase, s.last.Say)
	}
}

func TestTrafficThatIsNotSplitAsTheWeightsSayIsHeldWhenTheWindowIsOver(t *testing.T) {
	s := told(t, toGating+"after 5m\nverdict trafficMismatch\n")
	if s.turn(); s.r.Phase != Gating {
		t.Errorf("before: %s", s.r.Phase)
	}
	s.o.Verdict.Val.Left = 0
	if s.turn(); s.r.Phase != Held || s.r.Hold.Class != ClassGateInconclusive {
		t.Errorf("after: %s (%s)", s.r.Phase, s.r.Reason)
	}
}

func TestTheGuardGoesBackToTheLastStepWithAControl(t *testing.T) {
	s := told(t, "steps 10,50,100\n"+toGating+nextStep+nextStep+"after 1m\nverdict guardAlarm\nturn\n")
	if s.r.Phase != Shifting || s.r.Target != 50 || s.r.StepIx != 1 || s.r.Passed != 50 || s.r.Proof != nil || s.r.Backs != 1 {
		t.Errorf("%s to %g, step %d, passed %g, proof %+v, %d times", s.r.Phase, s.r.Target, s.r.StepIx, s.r.Passed, s.r.Proof, s.r.Backs)
	}
	s = told(t, "allow noControl\nsteps 100\n"+toGating+"after 1m\nverdict guardAlarm\nturn\n")
	if s.r.Retreat == nil || s.r.Retreat.Why != ReasonGateFailed {
		t.Errorf("without any: %s (%s)", s.r.Phase, s.r.Reason)
	}
}
