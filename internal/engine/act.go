package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/shifter-dev/shifter/internal/release"
)

// act takes the actions in order, each on a fresh look. The first one that is
// not taken ends the list: the next turn looks at the world that is then. No
// action is ever tried again as it was.
func (w *worker) act(ctx context.Context, as release.Actions, seen release.Observation) error {
	for _, a := range as {
		fresh, err := w.lookAgain(ctx, a, seen)
		if err != nil {
			return fmt.Errorf("look before: %s: %w", a, err)
		}
		if err := w.engine.brain.permit(w.rec.Release, fresh, a); err != nil {
			return fmt.Errorf("not permitted: %s: %w", a, err)
		}
		if err := w.do(ctx, a); err != nil {
			w.remember(a, err)
			return fmt.Errorf("%s: %w", a, err)
		}
		w.engine.cfg.Logger.Debug("acted", "release", w.key, "action", a.String())
	}
	return nil
}

// lookAgain reads what an action depends on right before it: the routes and the
// tracks, and the inbox before a write that raises the suspect's share. A write is
// refused if its own object is not as expected; what takes pods away depends on
// the routes' weights too, so these are asked for. The judges' answers are those
// of the turn.
func (w *worker) lookAgain(ctx context.Context, a release.Action, seen release.Observation) (release.Observation, error) {
	o := seen
	o.Unreachable = ""
	switch a := a.(type) {
	case release.Mark:
		w.readRoutes(ctx, &o, w.engine.cfg.Router.Read)
	case release.SetShare:
		w.readRoutes(ctx, &o, w.engine.cfg.Router.Read)
		w.readTracks(ctx, &o)
		if raises(w.rec.Release, a) {
			if err := w.rereadInbox(ctx); err != nil {
				return o, err
			}
		}
	case release.Promote:
		w.readRoutes(ctx, &o, w.asking())
		w.readTracks(ctx, &o)
		if err := w.rereadInbox(ctx); err != nil {
			return o, err
		}
	case release.Scale, release.SetTemplate, release.Undo, release.SetFloor:
		w.readRoutes(ctx, &o, w.asking())
		w.readTracks(ctx, &o)
	case release.Check:
	}
	o.Inbox = waiting(w.rec.Inbox, w.rec.Release.Consumed)
	o.Now = w.now()
	if o.Unreachable != "" {
		return o, fmt.Errorf("%w: %s", release.ErrUnavailable, o.Unreachable)
	}
	return o, ctx.Err()
}

// raises reports whether a write gives the suspect more share in any rule. While
// the release advances the suspect is on the incoming track, in a retreat on the
// one that is not the refuge.
func raises(r release.Release, a release.SetShare) bool {
	suspect := r.Incoming()
	if r.Retreat != nil {
		suspect = r.Retreat.Refuge.Other()
	}
	for i := range a.To {
		if i >= len(a.From) || a.To[i].Share(suspect) > a.From[i].Share(suspect) {
			return true
		}
	}
	return false
}

// rereadInbox looks for commands that came in since the decision.
func (w *worker) rereadInbox(ctx context.Context) error {
	known := w.saved.Revision
	if err := w.reload(ctx); err != nil {
		return err
	}
	if w.saved.Revision != known {
		return fmt.Errorf("the record was written by another: %w", release.ErrConflict)
	}
	return nil
}

// do makes the one call that is the action.
func (w *worker) do(ctx context.Context, a release.Action) error {
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	c := w.engine.cfg
	switch a := a.(type) {
	case release.SetShare:
		_, err := c.Router.SetShare(ctx, a, w.fence())
		return err
	case release.Mark:
		return c.Router.Mark(ctx, a, w.fence())
	case release.Scale:
		return c.Workloads.Scale(ctx, a)
	case release.SetTemplate:
		return c.Workloads.SetTemplate(ctx, a)
	case release.Promote:
		return c.Workloads.Promote(ctx, a)
	case release.Undo:
		return c.Workloads.SetTemplate(ctx, release.SetTemplate(a))
	case release.SetFloor:
		return c.Workloads.SetFloor(ctx, a)
	case release.Check:
		return fmt.Errorf("checks are not served by this version: %w", release.ErrRefused)
	}
	return fmt.Errorf("action %T is not known: %w", a, release.ErrRefused)
}

func (w *worker) fence() release.Fence {
	r := w.rec.Release
	return release.Fence{Key: w.key, Epoch: w.engine.epoch.get(), Step: r.StepIx, Safe: safeSide(r)}
}

// safeSide is the track to which somebody without the record should send the
// traffic.
func safeSide(r release.Release) release.Track {
	switch {
	case r.Retreat != nil:
		return r.Retreat.Refuge
	case r.Passed >= 100:
		return r.Incoming()
	}
	return r.Outgoing()
}

// remember keeps a failure for the brain's next turn. A conflict is not one: the
// next look shows what the world is.
func (w *worker) remember(a release.Action, err error) {
	if kind, ok := kindOf(err); ok {
		w.failed = append(w.failed, release.ActionError{Kind: a.Kind(), Err: kind, Text: err.Error(), At: w.now()})
	}
}

// kindOf names the kind of an action's error. Whatever says nothing about the
// world may have happened, as if there had been no answer.
func kindOf(err error) (release.ErrKind, bool) {
	switch {
	case errors.Is(err, release.ErrConflict):
		return "", false
	case errors.Is(err, release.ErrFenced):
		return release.ErrKindFenced, true
	case errors.Is(err, release.ErrForbidden):
		return release.ErrKindForbidden, true
	case errors.Is(err, release.ErrRefused):
		return release.ErrKindRefused, true
	case errors.Is(err, release.ErrNotFound):
		return release.ErrKindNotFound, true
	}
	return release.ErrKindUnavailable, true
}
