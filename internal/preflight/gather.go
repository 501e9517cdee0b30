package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
)

// gathered is everything that the checks judge, read once.
type gathered struct {
	now  time.Time
	key  release.Key
	spec release.Spec
	// findings are what the adapters could not bind. bound is set when nothing is
	// missing, and everything below is filled in then.
	findings []release.Finding
	bound    bool
	binding  release.Binding
	routes   []release.RouteState
	tracks   [2]release.TrackState
	reading  release.Reading
	traffic  traffic
	// sight is what the source can tell; past is what the baseline did before.
	sight release.Sight
	past  past
	// plan are the steps that are left of all stages, with what the judge expects of
	// each, and what each is expected to cost in all.
	plan     []step
	expected []analysis.Expectation
	slowest  []slowest // as many, of the proof of latency
	steps    []release.ExpectedStep
}

// step is one step of a stage.
type step struct {
	release.Step

	stage release.Stage
}

// lookBack is how far back the traffic is measured: long enough to count, short
// enough to be the present.
func lookBack(scrape time.Duration) time.Duration { return max(8*scrape, 10*time.Second) }

// gather reads the world. Findings of the adapters are collected; any other
// error ends it.
func (p *Planner) gather(ctx context.Context, k release.Key, spec release.Spec) (*gathered, error) {
	g := &gathered{now: p.cfg.Clock(), key: k, spec: spec}
	b := release.Binding{Key: k}
	resolve := []func(context.Context) error{
		func(ctx context.Context) (err error) {
			b.Routes, err = p.cfg.Routes.Resolve(ctx, k.Namespace, spec)
			return err
		},
		func(ctx context.Context) (err error) {
			b.Tracks, err = p.cfg.Workloads.Resolve(ctx, k.Namespace, spec)
			return err
		},
		func(context.Context) error { return p.source(g, &b, spec) },
	}
	for _, r := range resolve {
		if err := g.collect(p.bounded(ctx, r)); err != nil {
			return nil, err
		}
	}
	if len(g.findings) > 0 {
		return g, nil
	}
	b.Full = full(spec, b)
	g.binding, g.bound = withUndoTargets(spec, b), true
	if g.runs(release.StagePromote) {
		err := g.collect(p.bounded(ctx, func(ctx context.Context) error { return p.cfg.Workloads.Promotable(ctx, g.binding) }))
		if err != nil {
			return nil, err
		}
	}
	return g, p.look(ctx, g)
}

// full is the size of the track that serves at admission. Where only a shift is
// left to do, either may have been sized for everything.
func full(spec release.Spec, b release.Binding) int {
	p, c := b.Tracks[release.Primary].Replicas, b.Tracks[release.Canary].Replicas
	switch spec.Stages[0] {
	case release.StageCanary:
		return p
	case release.StagePromote:
		return c
	case release.StageShift:
	}
	return max(p, c)
}

// withUndoTargets keeps the undo targets that the release may use: none of the
// canary, whose template it does not change, unless it only shifts, where the
// target is found in history. A primary that it promotes goes back to what it has.
func withUndoTargets(spec release.Spec, b release.Binding) release.Binding {
	if spec.Stages[0] == release.StageShift {
		return b
	}
	b.Tracks[release.Primary].UndoTo, b.Tracks[release.Canary].UndoTo = nil, nil
	if slices.Contains(spec.Stages, release.StagePromote) {
		admitted := b.Tracks[release.Primary].Template
		b.Tracks[release.Primary].UndoTo = &admitted
	}
	return b
}

// runs reports whether a stage is asked for.
func (g *gathered) runs(s release.Stage) bool { return slices.Contains(g.spec.Stages, s) }

// source fills in how the metrics are read. Sources are configuration, so an
// unknown one is the request's fault.
func (p *Planner) source(g *gathered, b *release.Binding, spec release.Spec) error {
	scrape, provider, err := p.cfg.Telemetry.Scrape(spec.Metrics)
	if err != nil {
		return release.Finding{
			Pointer: "/metrics", Code: "metricsUnknown", Message: err.Error(),
			Fix: "name a configured source, and a provider that it can be read by",
		}
	}
	if g.sight, err = p.cfg.Telemetry.Sight(spec.Metrics); err != nil {
		return err
	}
	b.Scrape = scrape
	b.Metrics = release.MetricsRef{Source: spec.Metrics.Source, Provider: provider}
	return nil
}

// look reads the bound objects and the telemetry.
func (p *Planner) look(ctx context.Context, g *gathered) error {
	err := p.bounded(ctx, func(ctx context.Context) (err error) {
		g.routes, err = p.cfg.Routes.Read(ctx, g.binding)
		return err
	})
	if err == nil && len(g.routes) != len(g.binding.Routes) {
		err = fmt.Errorf("%d of %d routes were read", len(g.routes), len(g.binding.Routes))
	}
	if err != nil {
		return err
	}
	err = p.bounded(ctx, func(ctx context.Context) (err error) {
		g.tracks, err = p.cfg.Workloads.Read(ctx, g.binding)
		return err
	})
	if err != nil {
		return err
	}
	ask := release.Ask{
		Binding: g.binding, Since: g.now.Add(-lookBack(g.binding.Scrape)), Now: g.now, Bounds: []float64{},
	}
	for t, s := range g.tracks {
		ask.Pods[t] = s.Pods.Val
	}
	err = p.bounded(ctx, func(ctx context.Context) (err error) {
		g.reading, err = p.cfg.Telemetry.Look(ctx, ask)
		return err
	})
	if err != nil {
		g.reading = release.Reading{Asked: g.now, Trouble: err.Error()}
	}
	g.traffic = measure(g.reading)
	if g.reading.Trouble == "" {
		p.lookBack(ctx, g, ask)
	}
	return ctx.Err()
}

func (p *Planner) bounded(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.CallTimeout)
	defer cancel()
	return call(ctx)
}

// collect keeps the findings in an error, and gives back one that holds anything
// else.
func (g *gathered) collect(err error) error {
	found, rest := findingsIn(err)
	if rest != nil {
		return err
	}
	g.findings = append(g.findings, found...)
	return nil
}

// findingsIn takes an error apart: the findings that it joins, and the first
// part that is none.
func findingsIn(err error) (found []release.Finding, rest error) {
	if err == nil {
		return nil, nil
	}
	if f, ok := any(err).(release.Finding); ok {
		return []release.Finding{f}, nil
	}
	var parts []error
	if j, ok := any(err).(interface{ Unwrap() []error }); ok {
		parts = j.Unwrap()
	} else if inner := errors.Unwrap(err); inner != nil {
		parts = []error{inner}
	} else {
		return nil, err
	}
	for _, part := range parts {
		more, other := findingsIn(part)
		found = append(found, more...)
		if rest == nil {
			rest = other
		}
	}
	return found, rest
}

// traffic is the managed traffic as the telemetry counted it.
type traffic struct {
	at   time.Time // zero when nothing could be counted
	rate [2]float64
	bad  float64 // the rate of bad events, of all
	seen float64 // requests counted
	why  string
}

// measure adds up the counts of errors over all strata, each over its own time.
func measure(rd release.Reading) traffic {
	if rd.Trouble != "" || rd.At.IsZero() {
		return traffic{why: "the telemetry does not answer"}
	}
	out := traffic{at: rd.At}
	var all analysis.Counts
	counted := false
	for _, w := range rd.Windows {
		span := w.To.Sub(w.From).Seconds()
		if w.Metric != analysis.MetricErrors || span <= 0 {
			continue
		}
		counted = true
		for t, c := range w.Counts {
			out.rate[t] += c.Requests / span
			all = all.Add(c)
		}
	}
	if !counted {
		return traffic{why: "no request has been counted yet"}
	}
	out.seen = all.Requests
	out.bad, _ = all.Rate()
	return out
}

// rps is the rate of all managed traffic.
func (t traffic) rps() float64 { return t.rate[0] + t.rate[1] }

func (t traffic) fact() release.Fact[float64] {
	if t.at.IsZero() {
		return release.Unseen[float64](t.why)
	}
	return release.Known(t.rps(), t.at)
}
