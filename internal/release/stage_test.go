package release

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// Ways into a release of all stages.
const (
	toFull       = "stages canary,promote,shift\nsteps 50,100\nturn\napply\nafter 1s\nturn\napply\nafter 1s\nturn\napply\nafter 1s\nturn\nafter 2s\nshown yes\nturn\n"
	toFullAt100  = toFull + "after 5m\nverdict certified\nturn\napply\nafter 1s\nturn\napply\nafter 1s\nturn\nafter 2s\nshown yes\nturn\n"
	toPromoting  = toFullAt100 + "after 5m\nverdict soakClean\nturn\nafter 20s\ndrain primary drained\nturn\n"
	toRollingOut = toPromoting + "apply\nafter 5s\nstale primary 2\nturn\n"
)

func TestStagesRunInTheirOrder(t *testing.T) {
	for names, ok := range map[string]bool{
		"canary": true, "promote": true, "shift": true, "canary,promote": true, "promote,shift": true, "canary,promote,shift": true,
		"canary,shift": false, "shift,promote": false, "promote,canary": false, "canary,canary": false,
	} {
		s := soundSpec()
		s.Stages = nil
		for n := range strings.SplitSeq(names, ",") {
			s.Stages = append(s.Stages, Stage(n))
		}
		if p := s.Problems(); (len(p) == 0) != ok {
			t.Errorf("%s: %v", names, p)
		}
	}
}

func TestAPromoteIsPermittedOnlyToAQuietPrimary(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*script, *Promote)
		kind   error
	}{
		"as decided":          {func(*script, *Promote) {}, nil},
		"done already":        {func(s *script, _ *Promote) { s.apply() }, nil},
		"another object":      {func(s *script, _ *Promote) { s.o.Tracks[Primary].UID = "another" }, ErrNotFound},
		"share":               {func(s *script, _ *Promote) { s.o.Routes[0].Split = Known([]Pair{{1, 99}}, s.o.Now) }, ErrConflict},
		"routes unseen":       {func(s *script, _ *Promote) { s.o.Routes[0].Split = Unseen[[]Pair]("away") }, ErrConflict},
		"not drained":         {func(s *script, _ *Promote) { s.r.Drained = nil }, errNotPermitted},
		"other images":        {func(_ *script, a *Promote) { a.Images = map[string]string{"app": "checkout:v9"} }, errNotPermitted},
		"the canary":          {func(_ *script, a *Promote) { a.Track = Canary }, ErrNotFound},
		"another template":    {func(s *script, _ *Promote) { s.o.Tracks[Primary].Template.Val.Hash = "x9" }, ErrConflict},
		"another stage":       {func(s *script, _ *Promote) { s.r.Stage = StageCanary }, errNotPermitted},
		"in a retreat":        {func(s *script, _ *Promote) { s.r.Retreat = &Retreat{Refuge: Canary} }, errNotPermitted},
		"an abort is waiting": {func(s *script, _ *Promote) { s.o.Inbox = []Command{{Seq: 1, Verb: VerbAbort}} }, ErrConflict},
	} {
		s := told(t, toPromoting)
		a, ok := s.last.Actions[0].(Promote)
		if !ok {
			t.Fatalf("the story leads to %v", s.last.Actions)
		}
		c.change(s, &a)
		err := Permit(s.r, s.o, a)
		switch {
		case (err == nil) != (c.kind == nil):
			t.Errorf("%s: %v", name, err)
		case c.kind != nil && !errors.Is(c.kind, errNotPermitted) && !errors.Is(err, c.kind):
			t.Errorf("%s: %v is not of the kind %v", name, err, c.kind)
		}
	}
}

var errNotPermitted = errors.New("of no kind")

func TestBeforeTheShiftThePrimaryKeepsItsSize(t *testing.T) {
	for name, story := range map[string]string{"at 50": toFull, "at 100": toFullAt100, "drained": toPromoting, "rolling out": toRollingOut} {
		s := told(t, story)
		if err := Permit(s.r, s.o, Scale{Track: Primary, UID: "d-primary", Replicas: 3}); err == nil {
			t.Errorf("%s: the primary may be made smaller", name)
		}
	}
}

func TestTheCopiesOfAllStagesArePlannedAtTheFirstStep(t *testing.T) {
	s := newScript()
	s.stages([]string{"canary", "promote", "shift"})
	s.begin()
	if st := s.r.gateStep(0, 10, s.o.Now); st.Copies != 8 {
		t.Errorf("two stages with three steps below 100 plan %d copies, not 8", st.Copies)
	}
	s = newScript()
	s.begin()
	if st := s.r.gateStep(0, 10, s.o.Now); st.Copies != 4 {
		t.Errorf("a shift with three steps below 100 plans %d copies, not 4", st.Copies)
	}
}

func TestNothingOfTheCanaryCountsForThePrimary(t *testing.T) {
	s := told(t, toRollingOut+"stale primary 0\nafter 5s\nturn\nafter 30s\nturn\n")
	if s.r.Stage != StageShift || s.r.Suspect != "p2" || s.r.Proof != nil || s.r.Passed != 0 || s.r.Last != 0 || s.r.Target != 50 {
		t.Errorf("the shift begins with suspect %s, proof %v, passed %g, last %g, target %g", s.r.Suspect, s.r.Proof, s.r.Passed, s.r.Last, s.r.Target)
	}
	if i := slices.IndexFunc(s.r.Steps, func(x StepRecord) bool { return x.Stage != StageCanary }); i >= 0 || len(s.r.Steps) != 2 {
		t.Errorf("the canary's steps are %+v", s.r.Steps)
	}
}

func TestAPromoteThatIsSeenLateIsUndoneBeforeTheWayHome(t *testing.T) {
	s := told(t, toPromoting+"abort back immediate\nafter 1s\nturn\n") // the update is not seen yet
	if s.r.Phase != Retreating || !s.r.Retreat.Home {
		t.Fatalf("the story leads to %s", s.r.Phase)
	}
	home := s.last.Actions[0]
	late := Template{Hash: "p2", Images: map[string]string{"app": "checkout:v2"}}
	s.o.Tracks[Primary].Template = Known(late, s.o.Now)
	if err := Permit(s.r, s.o, home); err == nil {
		t.Error("the traffic may go to a primary that is being promoted")
	}
	for _, line := range []string{"after 1s", "turn", "after 1s", "turn", "after 1s", "shown yes", "turn"} {
		if line == "turn" {
			s.turn()
		} else if err := s.do(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	if s.r.Phase != Undoing || s.r.Retreat.Refuge != Canary || len(s.last.Actions) != 1 || s.last.Actions[0].Kind() != "Undo" {
		t.Errorf("it is %s with %v: %v", s.r.Phase, s.last.Actions, s.r.Retreat)
	}
	s.o.Tracks[Primary].Template = Known(Template{Hash: "x9"}, s.o.Now)
	s.r.Retreat = &Retreat{Home: true, Refuge: Primary, Ends: RolledBack}
	s.r.Phase = Retreating
	s.turn()
	if s.r.Reason != ReasonTemplateChanged || !s.r.NeedsHuman || len(s.last.Actions) > 1 {
		t.Errorf("with the template of another it is %s (%s) with %v", s.r.Phase, s.r.Reason, s.last.Actions)
	}
}

func TestARecordOfAShiftHasNoFieldOfTheOtherStages(t *testing.T) {
	s := told(t, toRetreat)
	s.r.Spec.Deadlines.Promote, s.r.Spec.Deadlines.Steady = 0, 0 // as records had them
	b, err := json.Marshal(s.r)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"promotion", "home", "stay", "copy", "promote", "steady", "stage\":\"canary"} {
		if strings.Contains(string(b), `"`+field+`"`) {
			t.Errorf("the record has %q: %s", field, b)
		}
	}
	var back Release
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	s.o.Now = s.o.Now.Add(time.Second)
	if x, y := Decide(s.r, s.o), Decide(back, s.o); !sameDecision(x, y) {
		t.Errorf("a record that was read back goes on with %v, not with %v", y.Actions, x.Actions)
	}
}

func TestTheWayHomeIsNeverForced(t *testing.T) {
	for _, re := range []Retreat{{Mode: ModeForce}, {Forced: true}} {
		if !re.forced() {
			t.Errorf("%+v is not forced", re)
		}
		if re.Home = true; re.forced() {
			t.Errorf("%+v is forced", re)
		}
	}
}

func TestOlderStepsKeepTheTotalsOfTheirVerdictsOnly(t *testing.T) {
	var steps []StepRecord
	for i := range 6 {
		v := analysis.Verdict{Share: float64(i), LogPass: 3, Parts: []analysis.Part{{Metric: "errors", Proves: true, Copies: []analysis.CopyPart{{Log: 1}}}}}
		steps = append(steps, StepRecord{Share: float64(i), Passed: time.Unix(int64(i)+1, 0), Verdict: &v})
	}
	steps[3].Passed = time.Time{} // it failed
	got := trimmed(steps)
	for i, s := range got {
		parts, copies := 0, 0
		for _, p := range s.Verdict.Parts {
			parts, copies = parts+1, copies+len(p.Copies)
		}
		want := [][2]int{{0, 0}, {0, 0}, {1, 0}, {1, 1}, {1, 0}, {1, 1}}[i]
		if [2]int{parts, copies} != want || s.Verdict.LogPass != 3 || s.Verdict.Share != float64(i) {
			t.Errorf("step %d keeps %d parts with %d copies, want %v", i, parts, copies, want)
		}
		if len(steps[i].Verdict.Parts[0].Copies) != 1 {
			t.Errorf("step %d was changed", i)
		}
	}
}
