package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/shifter-dev/shifter/internal/release"
)

// observe looks at everything once. What cannot be seen is unknown with the
// reason, never a zero. looked is false when the telemetry was left out for the
// sake of a command.
func (w *worker) observe(ctx context.Context) (o release.Observation, looked bool) {
	o = release.Observation{Failed: w.failed}
	w.readRoutes(ctx, &o, w.engine.cfg.Router.Read)
	o.Epoch = w.overtake(ctx, o.Routes)
	w.readTracks(ctx, &o)
	looked = w.look(ctx, o)
	o.Now = w.now()
	return o, looked
}

// readRoutes reads by one of the router's ways.
func (w *worker) readRoutes(ctx context.Context, o *release.Observation, read routesReader) {
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	b := w.rec.Release.Binding
	routes, err := read(ctx, b)
	if err == nil && len(routes) != len(b.Routes) {
		err = fmt.Errorf("%d of %d routes were read", len(routes), len(b.Routes))
	}
	if err == nil {
		o.Routes = routes
		return
	}
	why := fmt.Sprintf("the routes could not be read: %v", err)
	o.Routes, o.Unreachable = unseenRoutes(b, why), why
}

type routesReader func(context.Context, release.Binding) ([]release.RouteState, error)

// asking is the way to read the routes that asks for them.
func (w *worker) asking() routesReader {
	if l, ok := w.engine.cfg.Router.(LiveReader); ok {
		return l.ReadLive
	}
	return w.engine.cfg.Router.Read
}

func (w *worker) readTracks(ctx context.Context, o *release.Observation) {
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	tracks, err := w.engine.cfg.Workloads.Read(ctx, w.rec.Release.Binding)
	if err == nil {
		o.Tracks = tracks
		return
	}
	why := fmt.Sprintf("the Deployments could not be read: %v", err)
	o.Tracks, o.Unreachable = unseenTracks(why), why
}

// unseenRoutes are routes of which nothing is known.
func unseenRoutes(b release.Binding, why string) []release.RouteState {
	out := make([]release.RouteState, len(b.Routes))
	for i, r := range b.Routes {
		out[i] = release.RouteState{
			Ref:      r.Ref,
			Split:    release.Unseen[[]release.Pair](why),
			Accepted: release.Unseen[release.Acceptance](why),
			Epoch:    release.Unseen[uint64](why),
			Marked:   release.Unseen[string](why),
		}
	}
	return out
}

// unseenTracks are tracks of which nothing is known.
func unseenTracks(why string) [2]release.TrackState {
	n := release.Unseen[int](why)
	t := release.TrackState{
		Desired: n, Ready: n, Endpoints: n, Leaving: n, Stale: n, Floor: n,
		Pods:     release.Unseen[[]string](why),
		Template: release.Unseen[release.Template](why),
	}
	return [2]release.TrackState{t, t}
}

// look asks the telemetry and adds the answer to the evidence. A command that
// waits is not kept waiting for it: then there is no look in this turn.
func (w *worker) look(ctx context.Context, o release.Observation) bool {
	if w.hurried() {
		return false
	}
	ask := release.Ask{Binding: w.rec.Release.Binding, Since: w.rec.Release.LookFrom(), Now: w.now(), Bounds: w.rec.Release.Bounds()}
	for t := range o.Tracks {
		if p := o.Tracks[t].Pods; p.Ok() {
			ask.Pods[t] = p.Val
		}
	}
	rd, ok := w.ask(ctx, ask)
	if ok {
		w.looks = w.looks.Add(o, rd)
	}
	return ok
}

// hurried reports a command for which no turn has hurried yet.
func (w *worker) hurried() bool {
	in := w.rec.Inbox
	if len(in) == 0 || in[len(in)-1].Seq <= w.heard {
		return false
	}
	w.heard = in[len(in)-1].Seq
	return true
}

// ask makes one call of the telemetry. It is given up when a command comes in
// meanwhile; a panic in it is the worker's.
func (w *worker) ask(ctx context.Context, ask release.Ask) (release.Reading, bool) {
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	type answer struct {
		reading release.Reading
		panic   any
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if a.panic = recover(); a.panic != nil {
				w.engine.cfg.Logger.Error("panic in a look", "release", w.key, "panic", a.panic, "stack", string(debug.Stack()))
			}
			answers <- a
		}()
		a.reading = w.lookInTurn(ctx, ask)
	}()
	select {
	case a := <-answers:
		if a.panic != nil {
			panic(a.panic)
		}
		return a.reading, true
	case <-w.called:
		w.stale = true
		cancel()
		<-answers
		return release.Reading{}, false
	}
}

// lookInTurn asks when not too many others do. An error is trouble in the
// reading, and nothing else is.
func (w *worker) lookInTurn(ctx context.Context, ask release.Ask) release.Reading {
	trouble := func(err error) release.Reading {
		return release.Reading{Asked: ask.Now, Trouble: fmt.Sprintf("the telemetry could not be asked: %v", err)}
	}
	select {
	case w.engine.looking <- struct{}{}:
	case <-ctx.Done():
		return trouble(errors.New("too many releases ask at the same time"))
	}
	defer func() { <-w.engine.looking }()
	rd, err := w.engine.cfg.Telemetry.Look(ctx, ask)
	if err != nil {
		return trouble(err)
	}
	return rd
}
