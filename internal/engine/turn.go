package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// maxTries bounds how often one turn decides again because a command came in
// while it saved.
const maxTries = 4

// fault is a failure of shifter itself: trying again would only repeat it.
type fault struct{ cause error }

func (f fault) Error() string { return f.cause.Error() }
func (f fault) Unwrap() error { return f.cause }

// guardedTurn takes a turn. A panic in it, or a fault, ends this release and no
// other.
func (w *worker) guardedTurn(ctx context.Context) (wake time.Time, over bool) {
	defer func() {
		if p := recover(); p != nil {
			w.engine.cfg.Logger.Error("panic in a turn", "release", w.key, "panic", p, "stack", string(debug.Stack()))
			over = true
			w.quarantine(ctx, fmt.Sprintf("a turn panicked: %v", p))
		}
	}()
	wake, over, err := w.turn(ctx)
	var f fault
	switch {
	case err == nil:
		w.failures = 0
		return wake, over
	case ctx.Err() != nil:
		return time.Time{}, true
	case errors.As(err, &f):
		w.engine.cfg.Logger.Error("fault in a turn", "release", w.key, "err", err)
		w.quarantine(ctx, err.Error())
		return time.Time{}, true
	}
	return w.after(err), over
}

// after says when to look again after a turn that ended early, whatever the
// brain had in mind: a write that fails is not tried with every look. A conflict
// means that the world is another one: look at once, but only once in a row.
func (w *worker) after(err error) time.Time {
	w.engine.cfg.Logger.Warn("turn ended early", "release", w.key, "err", err, "failures", w.failures+1)
	w.failures++
	pause := time.Duration(0)
	switch conflict := errors.Is(err, release.ErrConflict); {
	case !conflict:
		pause = backoff(w.failures)
	case w.failures > 1:
		pause = backoff(w.failures - 1)
	}
	return w.now().Add(pause)
}

// turn looks, decides, saves and acts, once.
func (w *worker) turn(ctx context.Context) (wake time.Time, over bool, err error) {
	// Without the record there is still the duty to look; a command waits then.
	before := w.refresh(ctx)
	if w.gone(before) {
		return time.Time{}, true, nil
	}
	o, looked := w.observe(ctx)
	if ctx.Err() != nil {
		return time.Time{}, true, ctx.Err()
	}
	if !looked {
		before = w.refresh(ctx)
	}
	d, seen, err := w.decide(ctx, o)
	if err != nil {
		w.publishTrouble(seen, err)
		return time.Time{}, false, err
	}
	if d.Next.Phase.Terminal() {
		err = w.act(ctx, d.Actions, seen)
		w.publish(seen)
		return time.Time{}, true, err
	}
	w.publish(seen)
	if err = w.act(ctx, d.Actions, seen); err == nil {
		err = before
	}
	return w.wakeAt(d, looked), false, err
}

// wakeAt is when to look again after a whole turn: soon, if the telemetry was
// left out, else when the brain says, but never so soon that the release spins.
func (w *worker) wakeAt(d release.Decision, looked bool) time.Time {
	soon := w.now().Add(minTurn)
	if !looked || !d.Wake.IsZero() && d.Wake.Before(soon) {
		return soon
	}
	return d.Wake
}

// refresh loads the record when it may have changed.
func (w *worker) refresh(ctx context.Context) error {
	if !w.stale {
		return nil
	}
	return w.reload(ctx)
}

// gone reports a record with which nothing more can be done: somebody else ended
// the release, removed it, or made it unreadable.
func (w *worker) gone(err error) bool {
	switch {
	case errors.Is(err, release.ErrNotFound):
		w.engine.cfg.Views.drop(w.key)
	case release.IsUnreadable(err):
		w.setAside(err)
	case w.saved.Phase.Terminal():
		w.publishRecord()
	default:
		return false
	}
	return true
}

// setAside shows a record that cannot be understood, and leaves it alone.
func (w *worker) setAside(err error) {
	w.engine.cfg.Logger.Error("record set aside", "release", w.key, "err", err)
	w.engine.cfg.Views.publish(unreadableView(w.key, err, w.now()))
}

// decide asks the brain, and saves what it says when there is anything to save.
// When the record has moved on meanwhile, it is loaded and the brain asked
// again, with the same evidence.
func (w *worker) decide(ctx context.Context, o release.Observation) (release.Decision, release.Observation, error) {
	var err error
	for range maxTries {
		o.Inbox = waiting(w.rec.Inbox, w.rec.Release.Consumed)
		r, seen := w.engine.brain.assess(w.rec.Release, w.looks, o)
		d := w.engine.brain.decide(r, seen)
		if err = w.keep(ctx, d); err == nil {
			w.failed = nil
			w.say(d)
			return d, seen, ctx.Err()
		}
		if ctx.Err() != nil || !errors.Is(err, release.ErrConflict) && !errors.Is(err, release.ErrRefused) {
			return release.Decision{}, seen, err
		}
		if again := w.reload(ctx); again != nil {
			return release.Decision{}, seen, errors.Join(err, again)
		}
		if w.saved.Phase.Terminal() {
			return release.Decision{Next: w.saved}, seen, nil
		}
		if errors.Is(err, release.ErrRefused) {
			return release.Decision{}, seen, fault{err}
		}
	}
	return release.Decision{}, o, err
}

// keep makes the decision's release the worker's own, in the journal first where
// it must be.
func (w *worker) keep(ctx context.Context, d release.Decision) error {
	if !w.mustSave(d) {
		w.rec.Release = d.Next
		return nil
	}
	err := w.save(ctx, d.Next)
	if !errors.Is(err, release.ErrRefused) {
		return err
	}
	// As a rule it is too large: what is not needed to go on is given up first.
	w.engine.cfg.Logger.Warn("the record was refused; it is tried again without details", "release", w.key, "err", err)
	if again := w.save(ctx, release.Compact(d.Next)); again != nil {
		return again
	}
	w.tried, w.stale = nil, false
	return nil
}

// mustSave reports whether a decision may not be lost: it says so, or it has an
// effect, took a command, or ends the release.
func (w *worker) mustSave(d release.Decision) bool {
	return d.Save || len(d.Actions) > 0 || d.Next.Consumed != w.saved.Consumed || d.Next.Phase.Terminal()
}

// say writes the one line of a decision that has something to say.
func (w *worker) say(d release.Decision) {
	if d.Say == "" {
		return
	}
	r := d.Next
	w.engine.cfg.Logger.Info("decision",
		"release", w.key, "phase", r.Phase, "stage", r.Stage, "step", r.StepIx, "share", r.Target,
		"reason", r.Reason, "actions", names(d.Actions), "say", d.Say)
}

func names(as release.Actions) []string {
	out := make([]string, 0, len(as))
	for _, a := range as {
		out = append(out, a.String())
	}
	return out
}
