package release

import (
	"fmt"
	"math"
)

// This file answers what the observation says about the routes and tracks, for
// the phases to decide on. Everything unknown is said to be unknown.

// atTarget reports whether every managed rule of every route is known to
// declare the share, as nearly as its weights can.
func (t *turn) atTarget(share float64) bool {
	if len(t.o.Routes) == 0 {
		return false
	}
	for _, s := range t.o.Routes {
		if !s.Split.Ok() {
			return false
		}
		for _, p := range s.Split.Val {
			if p != p.At(t.r.Incoming(), share) {
				return false
			}
		}
	}
	return true
}

// declared returns the least and the greatest share that any rule declares for
// a track, and whether all routes are known.
func declared(routes []RouteState, tr Track) (lo, hi float64, ok bool) {
	lo, hi, ok = 100, 0, len(routes) > 0
	for _, s := range routes {
		if !s.Split.Ok() {
			return 0, 100, false
		}
		for _, p := range s.Split.Val {
			v := p.Share(tr)
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return lo, hi, ok
}

// exposure is the greatest share that a track may have at this moment: what is
// declared, and, until the data plane shows it, what was shown before.
func exposure(r Release, routes []RouteState, tr Track) float64 {
	_, hi, _ := declared(routes, tr)
	if r.Shown.IsZero() {
		last := r.Last
		if tr != r.Incoming() {
			last = 100 - last
		}
		hi = max(hi, last)
	}
	return hi
}

// suspectShare is the exposure of the incoming track.
func (t *turn) suspectShare() float64 { return exposure(t.r, t.o.Routes, t.r.Incoming()) }

// accepted is the routes' status about the present weights, as one answer: one
// refusal refuses; all confirmed confirms. A parent that was refused already at
// admission does not count.
func (t *turn) accepted() Acceptance {
	all := AcceptedYes
	for i, s := range t.o.Routes {
		if t.r.Binding.Routes[i].Accepted == AcceptedRefused {
			continue
		}
		if !s.Accepted.Ok() || s.Accepted.Val == AcceptedUnknown {
			all = AcceptedUnknown
			continue
		}
		if s.Accepted.Val == AcceptedRefused {
			return AcceptedRefused
		}
	}
	return all
}

// usable is how many of the track's pods can take requests: ready, and in the
// endpoints. Unknown counts as none.
func usable(s TrackState) int {
	if !s.Ready.Ok() || !s.Endpoints.Ok() {
		return 0
	}
	return min(s.Ready.Val, s.Endpoints.Val)
}

// counted says in words what usable says in a number, except that unknown is not
// none.
func counted(s TrackState) string {
	if !s.Ready.Ok() || !s.Endpoints.Ok() {
		return "an unknown number"
	}
	return fmt.Sprint(usable(s))
}

// need is the size of a track for a share.
func (r Release) need(share float64) int { return Need(r.Binding.Full, share, r.Spec.Size) }

// rolledOut reports whether all pods have the live template, are ready, and no
// other pod is left.
func rolledOut(s TrackState) bool {
	return s.Desired.Ok() && s.Stale.Ok() && s.Leaving.Ok() &&
		s.Stale.Val == 0 && s.Leaving.Val == 0 && usable(s) >= s.Desired.Val
}

// worst returns the first trouble of a kind among the pods of a template.
func worst(s TrackState, k TroubleKind, template string) (Trouble, bool) {
	for _, tr := range s.Trouble {
		if tr.Kind == k && (tr.Template == "" || tr.Template == template) {
			return tr, true
		}
	}
	return Trouble{}, false
}

// representable reports how far the rule's whole numbers are from a share, in
// percent points.
func representable(p Pair, in Track, share float64) float64 {
	return math.Abs(p.At(in, share).Share(in) - share)
}

// Representable reports whether every managed rule can declare the share within
// one percent point (I1).
func (b BoundRoute) Representable(in Track, share float64) bool {
	for _, p := range b.Split {
		if p.Sum() == 0 || representable(p, in, share) > 1 {
			return false
		}
	}
	return true
}
