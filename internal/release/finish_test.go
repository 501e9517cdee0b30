package release

import (
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
)

func TestTheConfirmationNamesWhatIsMissing(t *testing.T) {
	advance := toDraining + "after 5s\ndrain canary drained\nturn\napply\n"
	back := toRetreat + "apply\nafter 1s\nturn\nafter 1s\nshown yes\nturn\nafter 20s\ndrain primary drained\nturn\napply\nafter 1s\nturn\n"
	for name, c := range map[string]struct {
		story  string
		change func(*script)
		want   string
	}{
		"nothing, forwards":      {advance, func(*script) {}, ""},
		"nothing, backwards":     {back, func(*script) {}, ""},
		"weights of another":     {advance, func(s *script) { setSplit(&s.o, 99, 1) }, "do not give the primary everything"},
		"weights, backwards":     {back, func(s *script) { setSplit(&s.o, 1, 99) }, "do not give the canary everything"},
		"a refusal":              {advance, func(s *script) { s.o.Routes[0].Accepted = Known(AcceptedRefused, s.o.Now) }, "refuses the weights"},
		"another split is shown": {advance, func(s *script) { s.o.Shown = Known(analysis.Shown{Status: analysis.ShownNo, At: s.o.Now}, s.o.Now) }, "shows another split"},
		"another split was shown long ago": {advance, func(s *script) {
			s.o.Shown = Known(analysis.Shown{Status: analysis.ShownNo, At: s.o.Now.Add(-time.Hour)}, s.o.Now)
		}, ""},
		"a pod that serves":       {advance, func(s *script) { s.o.Tracks[Primary].Endpoints = Known(3, s.o.Now) }, "the primary is not rolled out"},
		"pods that are not known": {advance, func(s *script) { s.o.Tracks[Primary].Stale = Unseen[int]("away") }, "the primary is not rolled out"},
		"the last size":           {advance, func(s *script) { s.o.Tracks[Canary].Desired = Known(1, s.o.Now) }, "the canary is not at 0 replicas"},
		"the last size unknown":   {advance, func(s *script) { s.o.Tracks[Canary].Desired = Unseen[int]("away") }, "the canary is not at 0 replicas"},
		"pods that leave":         {advance, func(s *script) { s.o.Tracks[Canary].Leaving = Known(1, s.o.Now) }, "coming or leaving"},
		"the drain":               {advance, func(s *script) { s.r.Drained = nil }, "not known to be quiet"},
		"the other drain":         {advance, func(s *script) { tr := Primary; s.r.Drained = &tr }, "not known to be quiet"},
		"the earlier revision":    {advance, func(s *script) { s.o.Tracks[Primary].History = nil }, "gone from its history"},
		"the undone template":     {back, func(s *script) { s.o.Tracks[Primary].Template = Known(Template{Hash: "zz"}, s.o.Now) }, "not on the template it was undone to"},
		"the undone template, unknown": {back, func(s *script) {
			s.o.Tracks[Primary].Template = Unseen[Template]("away")
		}, "not on the template it was undone to"},
	} {
		s := told(t, c.story)
		c.change(s)
		u := turn{r: s.r, o: s.o, now: s.o.Now}
		if got := strings.Join(u.unconfirmed(), "; "); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestATrackThatIsStillSentRequestsIsLeftRunning(t *testing.T) {
	for name, st := range map[string]drain.State{
		"a sender is named":    {Status: drain.Draining, Senders: []string{"gw"}},
		"requests are counted": {Status: drain.Draining, New: 2},
	} {
		s := told(t, toRetreat+"apply\nafter 1s\nturn\nafter 1s\nshown yes\nturn\n")
		st.At = s.o.Now
		s.o.Drain[Primary] = Known(st, s.o.Now)
		s.o.Now = s.o.Now.Add(time.Hour)
		if s.turn(); s.r.Ending == nil || s.r.Ending.Reason != ReasonDrainIncomplete || s.r.Drained != nil {
			t.Errorf("%s: %s, ending %+v", name, s.r.Phase, s.r.Ending)
		}
	}
}

func TestTheGuardOfAnotherShareDoesNotStopADrain(t *testing.T) {
	s := told(t, toDraining+"after 1s\nverdict guardAlarm\n")
	s.o.Verdict.Val.Share = 50
	if s.turn(); s.r.Phase != Draining {
		t.Errorf("it is %s", s.r.Phase)
	}
	s = told(t, toRetreat+"apply\nafter 1s\nturn\nafter 1s\nshown yes\nturn\nverdict guardAlarm\n")
	began := *s.r.Retreat
	if s.turn(); s.r.Phase != Draining || *s.r.Retreat != began {
		t.Errorf("in a retreat: %s, %+v", s.r.Phase, s.r.Retreat)
	}
}

func TestARefugeIsNotATrackThatFails(t *testing.T) {
	changed := "steps 50,100\npreset prod-manual\n" + toGating + "template canary xx\nafter 5s\nturn\n"
	s := told(t, changed+"after 31m\nturn\n")
	if re := s.r.Retreat; re == nil || re.Refuge != Primary || re.Suspect != "c2" {
		t.Errorf("nothing is known against the primary: %s, %+v", s.r.Phase, re)
	}
	s = told(t, changed+"after 31m\nverdict safetyLimit\nturn\n")
	if s.r.Ending == nil || s.r.Ending.Reason != ReasonNoRefuge {
		t.Errorf("the primary fails: %s, %+v", s.r.Phase, s.r.Retreat)
	}
}

func TestAWayBackThatWasWaitedOutSaysSo(t *testing.T) {
	s := told(t, toRetreat+"apply\nafter 1s\nturn\nafter 31s\nturn\n")
	if s.r.Phase != Draining || len(s.r.Unverified) != 1 || !strings.Contains(s.r.Unverified[0], "was not counted, but waited out") {
		t.Errorf("%s: %v", s.r.Phase, s.r.Unverified)
	}
}

func TestWeightsThatMayNotBeMovedBackSaySo(t *testing.T) {
	s := told(t, toRetreat+"after 6m\nfailed SetShare forbidden\nturn\n")
	if s.r.Ending == nil || s.r.Ending.Reason != ReasonRouteRefused {
		t.Errorf("%s, ending %+v", s.r.Phase, s.r.Ending)
	}
	s = told(t, toGating+"ready canary 2\nabort back force\nturn\nafter 6m\nturn\n")
	if s.r.Ending == nil || s.r.Ending.Reason != ReasonTimeout {
		t.Errorf("forced, pods are no matter: %s (%s), ending %+v", s.r.Phase, s.r.Reason, s.r.Ending)
	}
}

func TestOnlyTheIncomingTrackIsUndone(t *testing.T) {
	s := told(t, "steps 50,100\npreset prod-manual\nbegin\n")
	s.r.Binding.Tracks[Canary].UndoTo = &Template{Hash: "c1"}
	for line := range strings.Lines(toGating + "template canary xx\nafter 5s\nturn\nafter 31m\nturn\napply\nafter 1s\nturn\nafter 31s\nturn\napply\nafter 1s\nturn\nafter 31s\nturn\nafter 5s\ndrain canary drained\nturn\n") {
		if line == "turn\n" {
			s.turn()
		} else if err := s.do(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	if s.r.Retreat == nil || s.r.Retreat.Refuge != Primary || s.r.Drained == nil {
		t.Fatalf("%s, %+v", s.r.Phase, s.r.Retreat)
	}
	for _, a := range s.r.Intent {
		if _, undo := a.(Undo); undo || len(s.r.Unverified) > 0 && strings.Contains(s.r.Unverified[len(s.r.Unverified)-1], "template") {
			t.Errorf("the canary is undone: %v, %v", a, s.r.Unverified)
		}
	}
}

func TestAnUndoThatIsRefusedIsSkippedWhateverTheWord(t *testing.T) {
	for kind, want := range map[string]Reason{"forbidden": ReasonUndoSkipped, "refused": ReasonUndoSkipped, "unavailable": ""} {
		s := told(t, toRetreat+"apply\nafter 1s\nturn\nafter 1s\nshown yes\nturn\nafter 20s\ndrain primary drained\nturn\nfailed Undo "+kind+"\nturn\n")
		got := Reason("")
		if s.r.Ending != nil {
			got = s.r.Ending.Reason
		}
		if got != want {
			t.Errorf("%s: %s, ending %+v", kind, s.r.Phase, s.r.Ending)
		}
	}
}

func TestADrainThatWasWaitedOutIsListed(t *testing.T) {
	for status, want := range map[string]string{"drained": "", "assumed": "was not measured, but waited out"} {
		s := told(t, toRetreat+"apply\nafter 1s\nturn\nafter 1s\nshown yes\nturn\nafter 20s\ndrain primary "+status+"\nturn\n")
		if got := strings.Join(s.r.Unverified, "; "); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", status, got)
		}
	}
}

func TestShrinkingWaitsForThePodsThatLeave(t *testing.T) {
	s := told(t, toDraining+"after 5s\ndrain canary drained\nturn\napply\n")
	s.o.Tracks[Canary].Leaving = Known(2, s.o.Now)
	if s.turn(); s.r.Phase != Shrinking {
		t.Errorf("it is %s", s.r.Phase)
	}
	s.o.Tracks[Canary].Leaving = Known(0, s.o.Now)
	if s.turn(); s.r.Phase != Confirming {
		t.Errorf("it is %s", s.r.Phase)
	}
}
