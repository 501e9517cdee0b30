package release

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// world in which a release is about to write 25 after a pass at 10.
func permitWorld() (Release, Observation) {
	s := newScript()
	s.o.Routes[0].Split = Known([]Pair{{10, 90}}, s.o.Now)
	s.begun = false
	s.o.Routes[0].Split = Known([]Pair{{0, 100}}, s.o.Now)
	s.begin()
	r := s.r
	r.Phase, r.StepIx, r.Target, r.Last, r.Passed = Shifting, 1, 25, 10, 10
	r.Proof = &PassProof{Step: 0, Share: 10, Hashes: [2]string{"p2", "c2"}, At: s.o.Now}
	s.o.Routes[0].Split = Known([]Pair{{10, 90}}, s.o.Now)
	return r, s.o
}

func TestPermitSetShare(t *testing.T) {
	write := SetShare{Route: RouteRef{Kind: "HTTPRoute", Namespace: "shop", Name: "checkout"}, UID: "r-1", From: []Pair{{10, 90}}, To: []Pair{{25, 75}}}
	for name, c := range map[string]struct {
		change func(*Release, *Observation, *SetShare)
		want   string
		kind   error
	}{
		"a passed step with ready pods is allowed": {func(*Release, *Observation, *SetShare) {}, "", nil},
		"another UID is refused":                   {func(_ *Release, _ *Observation, a *SetShare) { a.UID = "r-2" }, "I14", ErrNotFound},
		"a route that is not ours is refused":      {func(_ *Release, _ *Observation, a *SetShare) { a.Route.Name = "other" }, "I14", ErrNotFound},
		"a newer epoch is refused":                 {func(_ *Release, o *Observation, _ *SetShare) { o.Routes[0].Epoch = Known(uint64(2), o.Now) }, "I8", ErrFenced},
		"other weights than expected are a conflict": {func(_ *Release, o *Observation, _ *SetShare) {
			o.Routes[0].Split = Known([]Pair{{11, 89}}, o.Now)
		}, "not as expected", ErrConflict},
		"unknown weights are a conflict": {func(_ *Release, o *Observation, _ *SetShare) {
			o.Routes[0].Split = Unseen[[]Pair]("away")
		}, "not as expected", ErrConflict},
		"a sum that changes is refused":             {func(_ *Release, _ *Observation, a *SetShare) { a.To = []Pair{{25, 70}} }, "I1", nil},
		"a share that is not the target is refused": {func(_ *Release, _ *Observation, a *SetShare) { a.To = []Pair{{30, 70}} }, "I7", nil},
		"too few ready pods are a conflict": {func(_ *Release, o *Observation, _ *SetShare) {
			o.Tracks[Primary].Ready = Known(0, o.Now)
		}, "I2", ErrConflict},
		"unknown pods are none": {func(_ *Release, o *Observation, _ *SetShare) {
			o.Tracks[Primary].Endpoints = Unseen[int]("away")
		}, "I2", ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			r, o := permitWorld()
			a := write
			c.change(&r, &o, &a)
			checkPermit(t, Permit(r, o, a), c.want, c.kind)
		})
	}
}

// TestPermitARaise asks for the pass that a raise needs.
func TestPermitARaise(t *testing.T) {
	write := SetShare{Route: RouteRef{Kind: "HTTPRoute", Namespace: "shop", Name: "checkout"}, UID: "r-1", From: []Pair{{10, 90}}, To: []Pair{{25, 75}}}
	abort := Command{Seq: 9, Verb: VerbAbort}
	for name, c := range map[string]struct {
		change func(*Release, *Observation, *SetShare)
		want   string
		kind   error
	}{
		"a raise without a pass is refused":        {func(r *Release, _ *Observation, _ *SetShare) { r.Proof = nil }, "I5", nil},
		"a pass of an earlier step does not count": {func(r *Release, _ *Observation, _ *SetShare) { r.Proof = &PassProof{Step: 0, Share: 5} }, "I5", nil},
		"a pass of other templates does not count": {func(r *Release, _ *Observation, _ *SetShare) { r.Proof.Hashes[1] = "x" }, "I17", nil},
		"a template that changed is a conflict": {func(_ *Release, o *Observation, _ *SetShare) {
			o.Tracks[Canary].Template = Known(Template{Hash: "x"}, o.Now)
		}, "I17", ErrConflict},
		"a template that is not known is a conflict": {func(_ *Release, o *Observation, _ *SetShare) {
			o.Tracks[Canary].Template = Unseen[Template]("away")
		}, "I17", ErrConflict},
		"a pass of another step at the same share does not count": {func(r *Release, _ *Observation, _ *SetShare) { r.Proof.Step = 1 }, "I5", nil},
		"one pod too few is too few": {func(r *Release, o *Observation, _ *SetShare) {
			r.Spec.Size.MinReplicas = 2
			o.Tracks[Primary].Ready = Known(1, o.Now)
		}, "I2", ErrConflict},
		"weights below zero are refused": {func(r *Release, _ *Observation, a *SetShare) {
			a.To, r.Target = []Pair{{110, -10}}, 110
		}, "I1", nil},
		"a pair of zeros is refused": {func(_ *Release, o *Observation, a *SetShare) {
			o.Routes[0].Split = Known([]Pair{{0, 0}}, o.Now)
			a.From, a.To = []Pair{{0, 0}}, []Pair{{0, 0}}
		}, "I1", nil},
		"the first step needs no pass": {func(r *Release, o *Observation, a *SetShare) {
			r.StepIx, r.Passed, r.Target, r.Last, r.Proof = 0, 0, 10, 0, nil
			setSplit(o, 0, 100)
			a.From, a.To = []Pair{{0, 100}}, []Pair{{10, 90}}
		}, "", nil},
		"a first step to which the guard went back is not raised to": {func(r *Release, _ *Observation, _ *SetShare) {
			r.StepIx, r.Passed = 0, 25
			r.Plan = append([]Step{{Share: 25}}, r.Plan[2:]...)
		}, "I5", nil},
		"a first step after a share that passed needs one": {func(r *Release, _ *Observation, _ *SetShare) {
			r.Plan = append([]Step{{Share: 10, Present: true}}, r.Plan[1:]...)
			r.Proof = nil
		}, "I5", nil},
		"an abort in the inbox stops a raise": {func(_ *Release, o *Observation, _ *SetShare) { o.Inbox = []Command{abort} }, "I9", ErrConflict},
		"an abort that was consumed does not": {func(r *Release, o *Observation, _ *SetShare) { o.Inbox, r.Consumed = []Command{abort}, 9 }, "", nil},
		"a retreat never raises the suspect": {func(r *Release, _ *Observation, _ *SetShare) {
			r.Retreat = &Retreat{Refuge: Canary}
		}, "I6", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, o := permitWorld()
			a := write
			c.change(&r, &o, &a)
			checkPermit(t, Permit(r, o, a), c.want, c.kind)
		})
	}
}

func checkPermit(t *testing.T, err error, want string, kind error) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want a refusal with %q", err, want)
	case kind != nil && !errors.Is(err, kind):
		t.Errorf("%v is not of the kind %v", err, kind)
	}
}

func TestPermitScale(t *testing.T) {
	down := Scale{Track: Canary, UID: "d-canary", Replicas: 4}
	quiet := Canary
	for name, c := range map[string]struct {
		change func(*Release, *Observation, *Scale)
		want   string
	}{
		"growing is always allowed":             {func(_ *Release, _ *Observation, a *Scale) { a.Replicas = 9 }, ""},
		"below what the share needs is refused": {func(_ *Release, _ *Observation, a *Scale) { a.Replicas = 3 }, "I3"},
		"what the last shown share needs counts": {func(r *Release, o *Observation, a *Scale) {
			r.Target, r.Last, a.Replicas = 100, 50, 1
			setSplit(o, 100, 0)
		}, "I3"},
		"to 0 without a drain is refused":         {func(r *Release, o *Observation, a *Scale) { atFull(r, o); a.Replicas = 0 }, "I4"},
		"to 0 after the drain is allowed":         {func(r *Release, o *Observation, a *Scale) { atFull(r, o); r.Drained, a.Replicas = &quiet, 0 }, ""},
		"while a route cannot be read is refused": {func(_ *Release, o *Observation, a *Scale) { o.Routes[0].Split, a.Replicas = Unseen[[]Pair]("away"), 3 }, "I3"},
		"another UID is refused":                  {func(_ *Release, _ *Observation, a *Scale) { a.UID = "x" }, "I14"},
		"to 0 after the drain of the other track is refused": {func(r *Release, o *Observation, a *Scale) {
			atFull(r, o)
			other := Primary
			r.Drained, a.Replicas = &other, 0
		}, "I4"},
		"an unknown size is not made smaller than needed": {func(_ *Release, o *Observation, a *Scale) {
			o.Tracks[Canary].Desired, a.Replicas = Unseen[int]("away"), 3
		}, "I3"},
		"below what the shrink policy keeps is refused": {func(r *Release, o *Observation, a *Scale) {
			r.Target, r.Last, r.Shown, a.Replicas = 50, 50, o.Now, 2
			setSplit(o, 50, 50)
		}, "I3"},
	} {
		t.Run(name, func(t *testing.T) {
			r, o := permitWorld()
			a := down
			c.change(&r, &o, &a)
			checkPermit(t, Permit(r, o, a), c.want, nil)
		})
	}
}

func setSplit(o *Observation, p, c int32) { o.Routes[0].Split = Known([]Pair{{p, c}}, o.Now) }

func atFull(r *Release, o *Observation) {
	r.Target, r.Last, r.Passed, r.Shown = 100, 100, 100, o.Now.Add(-time.Second)
	setSplit(o, 100, 0)
}

func TestPermitUndo(t *testing.T) {
	quiet := Primary
	undo := Undo{Track: Primary, UID: "d-primary", From: Template{Hash: "p2"}, To: Template{Hash: "p1"}}
	for name, c := range map[string]struct {
		change func(*Release, *Observation, *Undo)
		want   string
	}{
		"after the drain it is allowed":                    {func(*Release, *Observation, *Undo) {}, ""},
		"twice is allowed, since it is absolute":           {func(_ *Release, o *Observation, _ *Undo) { o.Tracks[0].Template = Known(Template{Hash: "p1"}, o.Now) }, ""},
		"before the drain it is refused":                   {func(r *Release, _ *Observation, _ *Undo) { r.Drained = nil }, "I4"},
		"while the track has share it is refused":          {func(_ *Release, o *Observation, _ *Undo) { setSplit(o, 10, 90) }, "I4"},
		"without a retreat it is refused":                  {func(r *Release, _ *Observation, _ *Undo) { r.Retreat = nil }, "I4"},
		"to another template it is refused":                {func(_ *Release, _ *Observation, a *Undo) { a.To.Hash = "p0" }, "I4"},
		"from another template it is refused":              {func(_ *Release, _ *Observation, a *Undo) { a.From.Hash = "p3" }, "I4"},
		"a template of somebody else is left":              {func(_ *Release, o *Observation, _ *Undo) { o.Tracks[0].Template = Known(Template{Hash: "zz"}, o.Now) }, "not as expected"},
		"another UID is refused":                           {func(_ *Release, _ *Observation, a *Undo) { a.UID = "x" }, "I14"},
		"of an object that is not the admitted one":        {func(_ *Release, o *Observation, a *Undo) { a.UID, o.Tracks[0].UID = "x", "x" }, "I14"},
		"while a route cannot be read it is refused":       {func(_ *Release, o *Observation, _ *Undo) { o.Routes[0].Split = Unseen[[]Pair]("away") }, "I4"},
		"after the drain of the other track it is refused": {func(r *Release, _ *Observation, _ *Undo) { other := Canary; r.Drained = &other }, "I4"},
		"a template that is not known is a conflict":       {func(_ *Release, o *Observation, _ *Undo) { o.Tracks[0].Template = Unseen[Template]("away") }, "not as expected"},
	} {
		t.Run(name, func(t *testing.T) {
			r, o := permitWorld()
			r.Retreat, r.Drained = &Retreat{Refuge: Canary, Suspect: "p2"}, &quiet
			setSplit(&o, 0, 100)
			a := undo
			c.change(&r, &o, &a)
			checkPermit(t, Permit(r, o, a), c.want, nil)
		})
	}
}

func TestNothingIsPermittedWhereANewerWriterIsOnARoute(t *testing.T) {
	r, o := permitWorld()
	o.Routes[0].Epoch = Known(o.Epoch+1, o.Now)
	for _, a := range []Action{
		SetShare{Route: o.Routes[0].Ref, UID: "r-1", From: []Pair{{10, 90}}, To: []Pair{{25, 75}}},
		Scale{Track: Canary, UID: "d-canary", Replicas: 9},
		Undo{Track: Primary, UID: "d-primary", From: Template{Hash: "p2"}, To: Template{Hash: "p1"}},
		Mark{Route: o.Routes[0].Ref, UID: "r-1", On: false},
	} {
		checkPermit(t, Permit(r, o, a), "I8", ErrFenced)
	}
}

func TestPermitMark(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Release, *Observation, *Mark)
		want   string
	}{
		"on the admitted route it is allowed":   {func(*Release, *Observation, *Mark) {}, ""},
		"on another object it is refused":       {func(_ *Release, o *Observation, _ *Mark) { o.Routes[0].UID = "r-2" }, "I14"},
		"on a route not admitted it is refused": {func(_ *Release, _ *Observation, a *Mark) { a.Route.Name = "other" }, "I14"},
	} {
		t.Run(name, func(t *testing.T) {
			r, o := permitWorld()
			a := Mark{Route: o.Routes[0].Ref, UID: "r-1", On: true}
			c.change(&r, &o, &a)
			checkPermit(t, Permit(r, o, a), c.want, nil)
		})
	}
}

func TestPermitShareOnTheWayBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Release, *Observation, *SetShare)
		want   string
	}{
		"a hop that the refuge can carry is allowed": {func(*Release, *Observation, *SetShare) {}, ""},
		"beyond its ready pods it is a conflict":     {func(_ *Release, o *Observation, _ *SetShare) { o.Tracks[Canary].Ready = Known(2, o.Now) }, "I2"},
		"a little beyond them too": {func(r *Release, o *Observation, a *SetShare) { // they carry 75
			o.Tracks[Canary].Ready = Known(3, o.Now)
			setSplit(o, 50, 50)
			r.Target, a.From, a.To = 20, []Pair{{50, 50}}, []Pair{{20, 80}}
		}, "I2"},
		"forced by a safety limit it is allowed": {func(r *Release, o *Observation, _ *SetShare) {
			r.Retreat.Forced = true
			o.Tracks[Canary].Ready = Known(2, o.Now)
		}, ""},
		"forced by a person it is allowed": {func(r *Release, o *Observation, _ *SetShare) {
			r.Retreat.Mode = ModeForce
			o.Tracks[Canary].Ready = Known(2, o.Now)
		}, ""},
		"the suspect never rises": {func(r *Release, _ *Observation, _ *SetShare) { r.Retreat.Refuge = Primary }, "I6"},
		"a template that changed is no bar": {func(_ *Release, o *Observation, _ *SetShare) {
			o.Tracks[Primary].Template = Known(Template{Hash: "x"}, o.Now)
		}, ""},
		"an abort that has arrived is no bar": {func(_ *Release, o *Observation, _ *SetShare) { o.Inbox = []Command{{Seq: 9, Verb: VerbAbort}} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, o := permitWorld()
			r.Retreat, r.Target = &Retreat{Refuge: Canary, Mode: ModeGraceful}, 0
			a := SetShare{Route: o.Routes[0].Ref, UID: "r-1", From: []Pair{{10, 90}}, To: []Pair{{0, 100}}}
			c.change(&r, &o, &a)
			checkPermit(t, Permit(r, o, a), c.want, nil)
		})
	}
}
