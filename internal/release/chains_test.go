package release

import (
	"testing"
	"time"
)

// heldFor is a release that is held in growing, with what follows.
func heldFor(t *testing.T, then Response) *script {
	t.Helper()
	s := told(t, "steps 50,100\n"+toGating+"after 5m\nready primary 3\nverdict certified\nturn\nafter 6m\nturn\n")
	if s.r.Phase != Held {
		t.Fatalf("it is %s", s.r.Phase)
	}
	s.r.Hold.Then = then
	return s
}

func TestChainsOfHoldsAreData(t *testing.T) {
	rollback := &Response{Do: DoRollback}
	over := func(s *script, d time.Duration) Phase {
		s.o.Now = s.o.Now.Add(d)
		s.turn()
		return s.r.Phase
	}
	for name, c := range map[string]struct {
		then  Response
		after []Phase // every eleven minutes
	}{
		"hold, then hold, then rollback":      {Response{Do: DoHold, For: 11 * time.Minute, Then: rollback}, []Phase{Held, Retreating}},
		"hold, then hold without an end":      {Response{Do: DoHold, For: 11 * time.Minute}, []Phase{Held, Failed}},
		"hold, then one more try, then back":  {Response{Do: DoRetry, Times: 1, Then: rollback}, []Phase{Growing, Held, Retreating}},
		"hold, then no try at all, then back": {Response{Do: DoRetry, Then: rollback}, []Phase{Retreating}},
		"hold, then a try without an end":     {Response{Do: DoRetry}, []Phase{Failed}},
		"hold, then no try, then hold": {
			Response{Do: DoRetry, Then: &Response{Do: DoHold, For: 11 * time.Minute, Then: rollback}}, []Phase{Held, Retreating},
		},
		"hold, then abort":            {Response{Do: DoAbort}, []Phase{Retreating}},
		"hold, then fail":             {Response{Do: DoFail}, []Phase{Failed}},
		"hold, then an unknown thing": {Response{Do: "pray"}, []Phase{Failed}},
	} {
		s := heldFor(t, c.then)
		for i, want := range c.after {
			got := over(s, 11*time.Minute)
			if got == Confirming && want == Failed { // the marks come off first
				s.apply()
				got = over(s, time.Second)
			}
			if got != want {
				t.Errorf("%s: link %d leads to %s (%s), want %s", name, i+1, got, s.r.Reason, want)
			}
			if s.r.Phase == Held { // as a policy of its own would say again
				if h := s.r.Hold; !h.Until.After(s.o.Now) || h.From != Growing || h.Class != ClassCapacity {
					t.Errorf("%s: link %d: %+v", name, i+1, h)
				}
				if c.then.Do == DoRetry && c.then.Times > 0 {
					s.r.Hold.Then = c.then
				}
			}
		}
	}
}

func TestAHoldThatIsOverInARetreatNeverBeginsAnother(t *testing.T) {
	for _, do := range []Do{DoRollback, DoAbort, DoHold, DoRetry, DoFail} {
		s := told(t, toRetreat)
		began := *s.r.Retreat
		s.r.Hold = &Hold{Class: ClassCapacity, From: Retreating, Since: s.o.Now, Until: s.o.Now.Add(time.Minute), Then: Response{Do: do, Times: 1, For: time.Hour}}
		s.r.Phase = Held
		if err := s.do([]string{"ready", "canary", "2"}); err != nil {
			t.Fatal(err)
		}
		s.o.Now = s.o.Now.Add(time.Minute)
		s.turn()
		if s.r.Ending == nil || s.r.Ending.Phase != Failed || s.r.Reason != ReasonCapacity || *s.r.Retreat != began {
			t.Errorf("%s: %s (%s), ending %+v, retreat %+v", do, s.r.Phase, s.r.Reason, s.r.Ending, s.r.Retreat)
		}
	}
}

func TestThePolicyOfAPhaseMayHoldWithoutAnEnd(t *testing.T) {
	s := told(t, toGating)
	u := &turn{r: s.r, o: s.o, now: s.o.Now}
	u.respond(ClassTimeout, Response{Do: DoRetry, Times: 0}, "Late.")
	if u.r.Ending == nil || u.r.Ending.Phase != Failed {
		t.Errorf("a try without an end: %s", u.r.Phase)
	}
	u = &turn{r: s.r, o: s.o, now: s.o.Now}
	u.respond(ClassTimeout, Response{Do: DoHold, For: time.Minute}, "Late.")
	if u.r.Phase != Held || u.r.Hold.Then.Do != DoFail {
		t.Errorf("a hold without an end: %s, %+v", u.r.Phase, u.r.Hold)
	}
}

func TestAHoldEndsWhenItsCauseIsGoneAndNotBefore(t *testing.T) {
	contested := toGating + "weights 40/60\nafter 5s\nturn\n"
	silent := toGating + "after 3m\nverdict telemetryUnavailable\nturn\n"
	for name, c := range map[string]struct {
		story string
		want  Phase
	}{
		"the weights are as they should be": {contested + "weights 10/90\nturn\n", Settling},
		"but the controller refuses them":   {contested + "weights 10/90\naccepted refused\nturn\n", Held},
		"the telemetry answers":             {silent + "verdict warmingUp\nturn\n", Gating},
		"the telemetry answers with a hole": {silent + "verdict telemetryGap\nturn\n", Held},
		"the telemetry is silent still":     {silent + "verdict telemetryUnavailable\nturn\n", Held},
		"the share of the suspect is taken": {contested + "weights 0/100\nturn\n", Retreating},
		"a share that never was is not taken": {
			"turn\napply\nafter 1s\nturn\nweights 40/60\nafter 1s\nturn\nweights 0/100\naccepted refused\nturn\n", Held,
		},
		"weights of yet another hand are there": {contested + "weights 50/50\nturn\n", Held},
	} {
		if s := told(t, c.story); s.r.Phase != c.want {
			t.Errorf("%s: %s (%s), want %s", name, s.r.Phase, s.r.Reason, c.want)
		}
	}
}
