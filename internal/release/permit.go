package release

import (
	"fmt"
	"maps"
	"math"
)

// Permit is asked on a fresh look, right before each effect of a saved decision.
// It guards the invariants that an old look could break; its error says which,
// and the engine then looks and decides again. Where a newer writer is on any of
// the routes (I8), nothing is permitted.
func Permit(r Release, fresh Observation, a Action) error {
	for _, s := range fresh.Routes {
		if s.Epoch.Ok() && s.Epoch.Val > fresh.Epoch {
			return fmt.Errorf("I8: %s carries epoch %d: %w", s.Ref, s.Epoch.Val, ErrFenced)
		}
	}
	switch a := a.(type) {
	case SetShare:
		return permitShare(r, fresh, a)
	case Scale:
		return permitScale(r, fresh, a)
	case Promote:
		return permitPromote(r, fresh, a)
	case Undo:
		return permitUndo(r, fresh, a)
	case Mark:
		_, err := freshRoute(r, fresh, a.Route, a.UID)
		return err
	case SetTemplate, SetFloor, Check:
		return fmt.Errorf("%s is not served by this version", a.Kind())
	}
	return fmt.Errorf("action %T is not known", a)
}

// freshRoute finds the route as it is now, as the admitted object (I14).
func freshRoute(r Release, fresh Observation, ref RouteRef, uid string) (RouteState, error) {
	for i, s := range fresh.Routes {
		if s.Ref.String() != ref.String() {
			continue
		}
		if s.UID != uid || r.Binding.Routes[i].UID != uid {
			return s, fmt.Errorf("I14: %s is another object than the admitted one: %w", ref, ErrNotFound)
		}
		return s, nil
	}
	return RouteState{}, fmt.Errorf("I14: %s is not one of the admitted routes: %w", ref, ErrNotFound)
}

func permitShare(r Release, fresh Observation, a SetShare) error {
	s, err := freshRoute(r, fresh, a.Route, a.UID)
	if err != nil {
		return err
	}
	if !s.Split.Ok() || !equalPairs(s.Split.Val, a.From) {
		return fmt.Errorf("the weights of %s are not as expected: %w", a.Route, ErrConflict)
	}
	in := r.Incoming()
	for i, to := range a.To {
		if to.Sum() != a.From[i].Sum() || to.Sum() == 0 || to.Primary < 0 || to.Canary < 0 {
			return fmt.Errorf("I1: %v does not keep the sum of %v", to, a.From[i])
		}
		if to != to.At(in, r.Target) {
			return fmt.Errorf("I7: %v is not the recorded target of %g", to, r.Target)
		}
		for tr := Primary; tr <= Canary; tr++ {
			if to.Share(tr) > a.From[i].Share(tr) {
				if err := permitGain(r, fresh, tr, to.Share(tr)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// permitGain guards a track's gain of share.
func permitGain(r Release, fresh Observation, tr Track, share float64) error {
	if re := r.Retreat; re != nil {
		if tr != re.Refuge {
			return fmt.Errorf("I6: in a retreat the suspect's share only falls, not up to %g", share)
		}
		if tpl, b := fresh.Tracks[tr].Template, r.Binding.Tracks[tr].Template; re.Home && (!tpl.Ok() || tpl.Val.Hash != b.Hash) {
			return fmt.Errorf("I17: the %s is not seen to have its admitted template: %w", tr, ErrConflict)
		}
		if room := Capacity(r.Binding.Full, usable(fresh.Tracks[tr]), r.Spec.Size); share > room+1 && !re.forced() {
			return fmt.Errorf("I2: %s has room for %g, not %g: %w", tr, room, share, ErrConflict)
		}
		return nil
	}
	if ready, need := usable(fresh.Tracks[tr]), r.need(share); ready < need {
		return fmt.Errorf("I2: %s has %d of %d ready pods: %w", tr, ready, need, ErrConflict)
	}
	if tr != r.Incoming() {
		return nil
	}
	for _, c := range fresh.Inbox {
		if c.Seq > r.Consumed && c.Verb == VerbAbort {
			return fmt.Errorf("I9: an abort has arrived: %w", ErrConflict)
		}
	}
	return permitRaise(r, fresh)
}

// permitRaise asks for the pass that a raise above the last step needs (I5), on
// the two templates that it judged (I17).
func permitRaise(r Release, fresh Observation) error {
	for i, t := range fresh.Tracks {
		if !t.Template.Ok() || t.Template.Val.Hash != r.template(Track(i)).Hash {
			return fmt.Errorf("I17: the template of the %s is not the judged one: %w", Track(i), ErrConflict)
		}
	}
	if r.Plan[r.StepIx].Present || r.Passed == 0 && r.StepIx == 0 {
		return nil
	}
	p := r.Proof
	if p == nil || p.Step != r.StepIx-1 || p.Share != r.Plan[r.StepIx-1].Share {
		return fmt.Errorf("I5: no pass for the step before %g", r.Target)
	}
	for i, t := range fresh.Tracks {
		if p.Hashes[i] != t.Template.Val.Hash {
			return fmt.Errorf("I17: the pass judged another template of the %s", Track(i))
		}
	}
	return nil
}

func permitScale(r Release, fresh Observation, a Scale) error {
	s := fresh.Tracks[a.Track]
	if s.UID != a.UID || r.Binding.Tracks[a.Track].UID != a.UID {
		return fmt.Errorf("I14: the Deployment of the %s is another object than the admitted one: %w", a.Track, ErrNotFound)
	}
	if s.Desired.Ok() && a.Replicas >= s.Desired.Val {
		return nil
	}
	_, hi, ok := declared(fresh.Routes, a.Track)
	if !ok {
		return fmt.Errorf("I3: the %s is not made smaller while a route cannot be read: %w", a.Track, ErrConflict)
	}
	share := math.Max(hi, exposure(r, fresh.Routes, a.Track))
	if least := r.need(share); a.Replicas < least {
		return fmt.Errorf("I3: the %s may serve %g and needs %d replicas, not %d: %w", a.Track, share, least, a.Replicas, ErrConflict)
	}
	if a.Replicas == 0 && (r.Drained == nil || *r.Drained != a.Track) {
		return fmt.Errorf("I4: the %s is not known to be quiet", a.Track)
	}
	if r.Retreat == nil && a.Track == r.Outgoing() && (share > 0 || r.Stage != StageShift) && a.Replicas < r.keep() {
		return fmt.Errorf("I3: the shrink policy keeps %d replicas of the %s", r.keep(), a.Track)
	}
	return nil
}

func permitUndo(r Release, fresh Observation, a Undo) error {
	s, b := fresh.Tracks[a.Track], r.Binding.Tracks[a.Track]
	switch _, hi, ok := declared(fresh.Routes, a.Track); {
	case s.UID != a.UID || b.UID != a.UID:
		return fmt.Errorf("I14: the Deployment of the %s is another object than the admitted one: %w", a.Track, ErrNotFound)
	case r.Retreat == nil || a.From.Hash != r.Retreat.Suspect:
		return fmt.Errorf("I4: only a retreat undoes, and only the suspect")
	case r.undoTo(a.Track) == nil || r.undoTo(a.Track).Hash != a.To.Hash:
		return fmt.Errorf("I4: %s is not the admitted target of an undo", a.To.Hash)
	case !ok || hi > 0:
		return fmt.Errorf("I4: the %s may still have share: %w", a.Track, ErrConflict)
	case r.Drained == nil || *r.Drained != a.Track:
		return fmt.Errorf("I4: the %s is not known to be quiet", a.Track)
	case !s.Template.Ok() || s.Template.Val.Hash != a.From.Hash && s.Template.Val.Hash != a.To.Hash:
		return fmt.Errorf("the template of the %s is not as expected: %w", a.Track, ErrConflict)
	}
	return nil
}

// permitPromote wants a primary without share that is known to be quiet, on the
// template that was admitted.
func permitPromote(r Release, fresh Observation, a Promote) error {
	s, b := fresh.Tracks[a.Track], r.Binding.Tracks[a.Track]
	_, hi, ok := declared(fresh.Routes, a.Track)
	switch {
	case s.UID != a.UID || b.UID != a.UID:
		return fmt.Errorf("I14: the Deployment of the %s is another object than the admitted one: %w", a.Track, ErrNotFound)
	case r.Retreat != nil || r.Stage != StagePromote || a.Track != Primary || r.Promotion == nil:
		return fmt.Errorf("I4: only the promote stage promotes, and only the %s", Primary)
	case a.From.Hash != b.Template.Hash || !maps.Equal(a.Images, r.Promotion.Images):
		return fmt.Errorf("I4: %s is not what was admitted", a)
	case !ok || hi > 0:
		return fmt.Errorf("I4: the %s may still have share: %w", a.Track, ErrConflict)
	case r.Drained == nil || *r.Drained != a.Track:
		return fmt.Errorf("I4: the %s is not known to be quiet", a.Track)
	case !s.Template.Ok() || s.Template.Val.Hash != a.From.Hash && !r.Promotion.carries(s.Template.Val, b.Template):
		return fmt.Errorf("the template of the %s is not as expected: %w", a.Track, ErrConflict)
	}
	for _, c := range fresh.Inbox {
		if c.Seq > r.Consumed && c.Verb == VerbAbort {
			return fmt.Errorf("I9: an abort has arrived: %w", ErrConflict)
		}
	}
	return nil
}
