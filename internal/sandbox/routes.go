package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// Routes reads and sets the split of the World's route. It fits engine.Router
// and engine.Watcher.
type Routes struct{ r *route }

// Read looks at every bound route. One that is not there, or is another object
// by UID, has unknown facts with the reason.
func (rs *Routes) Read(ctx context.Context, b release.Binding) ([]release.RouteState, error) {
	if err := answer(ctx); err != nil {
		return nil, err
	}
	rs.r.mu.Lock()
	defer rs.r.mu.Unlock()
	out := make([]release.RouteState, 0, len(b.Routes))
	for _, bound := range b.Routes {
		out = append(out, rs.r.state(bound.Ref, bound.UID, time.Now()))
	}
	return out, nil
}

func (r *route) state(ref release.RouteRef, uid string, now time.Time) release.RouteState {
	if why := r.notBound(ref, uid); why != "" {
		return release.RouteState{
			Ref:   ref,
			Split: release.Unseen[[]release.Pair](why), Accepted: release.Unseen[release.Acceptance](why),
			Epoch: release.Unseen[uint64](why), Marked: release.Unseen[string](why),
		}
	}
	accepted := release.AcceptedUnknown
	if r.observed == r.generation {
		accepted = release.AcceptedYes
	}
	return release.RouteState{
		Ref: ref, UID: r.uid,
		Split:    release.Known([]release.Pair{r.split}, now),
		Accepted: release.Known(accepted, now),
		Epoch:    release.Known(r.fence.Epoch, now),
		Marked:   release.Known(r.marked, now),
		Foreign:  r.foreign,
	}
}

// notBound says why the route is not the one that is meant.
func (r *route) notBound(ref release.RouteRef, uid string) string {
	if !isRoute(ref) {
		return fmt.Sprintf("%s does not exist", ref)
	}
	if uid != r.uid {
		return fmt.Sprintf("%s is another object: its UID is %s, not %s", ref, r.uid, uid)
	}
	return ""
}

func isRoute(ref release.RouteRef) bool {
	return ref.Kind == RouteKind && ref.Namespace == Namespace && ref.Name == RouteName
}

// SetShare writes the weights, with the fence, if they are as the action
// expects. The proxy enforces them after Config.Propagation.
func (rs *Routes) SetShare(ctx context.Context, a release.SetShare, f release.Fence) (release.Receipt, error) {
	var receipt release.Receipt
	err := rs.change(ctx, a, a.Route, a.UID, f, func(r *route) error {
		if err := validWeights(a.To); err != nil {
			return err
		}
		if len(a.From) != 1 || a.From[0] != r.split {
			return fmt.Errorf("%w: the weights are %d/%d", release.ErrConflict, r.split.Primary, r.split.Canary)
		}
		r.fence = f
		r.write(a.To[0], "")
		receipt = release.Receipt{At: time.Now(), Generation: r.generation}
		return nil
	})
	if err == nil {
		rs.r.declared()
	}
	return receipt, err
}

// validWeights refuses what the schema would, and weights that send nothing
// anywhere.
func validWeights(to []release.Pair) error {
	if len(to) != 1 {
		return fmt.Errorf("%w: the route has 1 rule, not %d", release.ErrConflict, len(to))
	}
	for _, w := range []int32{to[0].Primary, to[0].Canary} {
		if w < 0 || w > 1_000_000 {
			return fmt.Errorf("%w: weight %d: it must be from 0 to 1000000", release.ErrRefused, w)
		}
	}
	if to[0].Sum() == 0 {
		return fmt.Errorf("%w: all weights are 0", release.ErrRefused)
	}
	return nil
}

// Mark sets or clears the in-progress label, with the fence. Another release's
// label is a conflict.
func (rs *Routes) Mark(ctx context.Context, a release.Mark, f release.Fence) error {
	return rs.change(ctx, a, a.Route, a.UID, f, func(r *route) error {
		if r.marked != "" && r.marked != f.Key.Name {
			return fmt.Errorf("%w: it is marked by release %s", release.ErrConflict, r.marked)
		}
		r.fence, r.marked = f, ""
		if a.On {
			r.marked = f.Key.Name
		}
		r.hub.notify()
		return nil
	})
}

// change runs f on the route if it is the one that is meant and no newer writer
// has been there.
func (rs *Routes) change(ctx context.Context, a release.Action, ref release.RouteRef, uid string, fence release.Fence, f func(*route) error) error {
	if err := answer(ctx); err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	r := rs.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if why := r.notBound(ref, uid); why != "" {
		return fmt.Errorf("%s: %w: %s", a, release.ErrNotFound, why)
	}
	if r.closed {
		return fmt.Errorf("%s: %w: the sandbox is stopped", a, release.ErrUnavailable)
	}
	if r.fence.Epoch > fence.Epoch {
		return fmt.Errorf("%s: %w: the route has epoch %d, we have %d", a, release.ErrFenced, r.fence.Epoch, fence.Epoch)
	}
	if err := f(r); err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

// Watch tells that something in the World has changed.
func (rs *Routes) Watch(ctx context.Context, _ release.Binding) (<-chan struct{}, error) {
	return rs.r.hub.listen(ctx), nil
}

// Resolve binds the routes of a request to what is there. What is missing or
// does not fit comes back as release.Finding, joined.
func (rs *Routes) Resolve(ctx context.Context, namespace string, spec release.Spec) ([]release.BoundRoute, error) {
	if err := answer(ctx); err != nil {
		return nil, err
	}
	var wrong error
	out := make([]release.BoundRoute, 0, len(spec.Routes))
	for i, ref := range spec.Routes {
		if ref.Namespace == "" {
			ref.Namespace = namespace
		}
		if err := unfit(i, ref, spec); err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		out = append(out, rs.r.bind(ref))
	}
	if wrong != nil {
		return nil, fmt.Errorf("resolving the routes: %w", wrong)
	}
	return out, nil
}

func (r *route) bind(ref release.RouteRef) release.BoundRoute {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state(ref, r.uid, time.Now())
	return release.BoundRoute{
		Ref: ref, UID: r.uid, Rules: []string{RuleName}, Split: s.Split.Val,
		Accepted: s.Accepted.Val, Epoch: r.fence.Epoch,
	}
}

// unfit says why a request cannot use the World's route.
func unfit(i int, ref release.RouteRef, spec release.Spec) error {
	at := fmt.Sprintf("/routes/%d", i)
	if !isRoute(ref) {
		return release.Finding{
			Pointer: at + "/name", Code: "routeNotFound",
			Message: fmt.Sprintf("%s does not exist", ref), Fix: fmt.Sprintf("the sandbox has %s", RouteRef()),
		}
	}
	for j, rule := range ref.Rules {
		if rule != RuleName {
			return release.Finding{
				Pointer: fmt.Sprintf("%s/rules/%d", at, j), Code: "ruleNotFound",
				Message: fmt.Sprintf("%s has no rule %q", ref, rule), Fix: fmt.Sprintf("its one rule is %q", RuleName),
			}
		}
	}
	for j, t := range spec.Tracks {
		if want := Service(release.Track(j)); t.Service != want {
			return release.Finding{
				Pointer: fmt.Sprintf("/%s/service", release.Track(j)), Code: "backendNotInRoute",
				Message: fmt.Sprintf("no rule of %s has both tracks: the %s's Service is not %s", ref, release.Track(j), t.Service),
				Fix:     fmt.Sprintf("the sandbox's is %s", want),
			}
		}
	}
	return nil
}
