package preflight

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
)

// past is what the look back found.
type past struct {
	// why says why latency is not judged, empty where it is or was not asked for.
	why string
	// proofs are the bounds at which a pass needs a proof, with the share of the
	// baseline's requests that are slower.
	proofs []proof
}

type proof struct {
	bound float64 // seconds
	slow  float64
}

// enoughPast is how many requests a look back must have seen before bounds are
// chosen from it.
const enoughPast = 100

// lookBack chooses what every step is judged by beside the errors, from what
// the baseline did before. Nothing that it meets refuses the release: without
// an answer the errors are judged alone.
func (p *Planner) lookBack(ctx context.Context, g *gathered, ask release.Ask) {
	var before release.Past
	err := p.bounded(ctx, func(ctx context.Context) (err error) {
		before, err = p.cfg.Telemetry.LookBack(ctx, ask, g.baseline(), g.firstShare())
		return err
	})
	if err == nil {
		g.watch(before.Buckets)
		seeds := analysis.LookBack(before.Windows)
		g.binding.Seeds = slices.DeleteFunc(seeds, func(s analysis.Seed) bool { return !g.watches(s.Metric) })
		return
	}
	if judgesLatency(g.spec.Gate) {
		g.past.why = fmt.Sprintf("the look back at the track that has the traffic failed: %v", err)
	}
}

// baseline is the track that has the traffic, and is compared with first.
func (g *gathered) baseline() release.Track {
	if g.spec.Stages[0] == release.StagePromote {
		return release.Canary
	}
	return g.incoming().Other()
}

// firstShare is the first share that is compared, between 0 and 1.
func (g *gathered) firstShare() float64 {
	if s := g.spec.Steps[0]; s < 100 {
		return s / 100
	}
	return 0.5
}

func judgesLatency(s analysis.Settings) bool {
	return s.MaxSlowShareDelta > 0 || s.MaxSlowShareRatio > 0
}

// watch chooses the bounds of latency.
func (g *gathered) watch(buckets []analysis.Bucket) {
	if !judgesLatency(g.spec.Gate) {
		return
	}
	total := 0.0
	for _, b := range buckets {
		total = math.Max(total, b.Count)
	}
	switch {
	case !g.sight.Latency:
		g.past.why = "durations are not read from this metrics source"
		return
	case total == 0:
		g.past.why = "the metrics hold no durations of the track that has the traffic"
		return
	case total < enoughPast:
		g.past.why = fmt.Sprintf("durations of only %.0f requests were seen before, and %d are needed to choose bounds", total, enoughPast)
		return
	}
	if g.binding.Watch, g.past.why = bounds(buckets); g.past.why != "" {
		return
	}
	for _, b := range buckets {
		if slices.Contains(g.binding.Watch.Prove, b.Bound) {
			g.past.proofs = append(g.past.proofs, proof{b.Bound, 1 - b.Count/total})
		}
	}
}

// leastBound is the smallest bound that steps are judged by, in seconds. Below it
// a track is slower for having less traffic, with colder connections and caches,
// and no user feels it.
const leastBound = 0.005

// bounds chooses what is watched. Where nearly all answers are quicker than the
// least bound, that one is proven, so that a track cannot become slow unseen.
func bounds(buckets []analysis.Bucket) (analysis.Watch, string) {
	w, why := analysis.Bounds(buckets, analysis.Percentiles()...)
	if why != "" || w.Bounds[0] >= leastBound {
		return w, why
	}
	felt := slices.DeleteFunc(slices.Clone(buckets), func(b analysis.Bucket) bool { return !(b.Bound >= leastBound) })
	if w, why := analysis.Bounds(felt, analysis.Percentiles()...); why == "" {
		return w, ""
	}
	var rest []float64
	for _, b := range felt {
		if !math.IsInf(b.Bound, 1) {
			rest = append(rest, b.Bound)
		}
	}
	if len(rest) == 0 {
		return analysis.Watch{}, "the histogram's buckets end below 5 ms, where less traffic alone makes answers slower"
	}
	slices.Sort(rest)
	rest = slices.Compact(rest)
	return analysis.Watch{Bounds: rest[:min(2, len(rest))], Prove: rest[:1]}, ""
}

// watches reports whether the steps are judged by a metric.
func (g *gathered) watches(metric string) bool {
	m, ok := analysis.MetricOf(metric)
	return ok && (m.Kind == analysis.MetricErrors || slices.Contains(g.binding.Watch.Bounds, m.Bound))
}

// slowest is the proof of latency that takes longest; asked is false where none
// is needed.
type slowest struct {
	analysis.Expectation
	proof
	asked bool
}

func (g *gathered) slowestProof(share float64) slowest {
	var out slowest
	if share >= 100 {
		return out
	}
	for _, p := range g.past.proofs {
		e := analysis.ExpectSlow(g.spec.Gate, share, g.traffic.rps(), p.slow)
		if !out.asked || e.Time > out.Time || e.Requests == 0 && out.Requests > 0 {
			out = slowest{e, p, true}
		}
	}
	return out
}

// text says which requests the proof is about.
func (s slowest) text() string {
	return fmt.Sprintf(" of which %.2g %% take longer than %s", 100*s.slow, seconds(s.bound).Round(time.Microsecond))
}

// wayOutOfSlow is wayOut for a proof of latency.
func (g *gathered) wayOutOfSlow(s slowest) string {
	ways := []string{moreTime(s.Expectation)}
	if s.Margin > g.spec.Gate.MaxSlowShareDelta && s.Margin < 0.5 {
		ways = append(ways, fmt.Sprintf("set gates.maxSlowShareDelta to %g", math.Ceil(s.Margin*1000)/1000))
	}
	ways = append(ways, `set "allow": ["uncertain"]`)
	return strings.Join(ways, ", or ")
}

// metricsAreWhole warns of what the metrics leave out, since nobody can judge
// what is not counted.
func metricsAreWhole(g *gathered) (out []note) {
	for _, why := range g.sight.Cannot {
		out = append(out, warn("/metrics", "metricsLimited", "", "of the metrics by the provider %s: %s", g.binding.Metrics.Provider, why)...)
	}
	return out
}

// latencyIsJudged warns where the errors are judged alone, and refuses that
// where the request requires more.
func latencyIsJudged(g *gathered) []note {
	why := g.past.why
	if why == "" || len(telemetryAnswers(g)) > 0 {
		return nil
	}
	if g.spec.Gate.RequireLatency {
		return refuse("/gates/requireLatency", "latencyNotJudged",
			"have the metrics source read durations, or leave gates.requireLatency out",
			"latency is required and could not be judged: %s", why)
	}
	return warn("/metrics", "latencyNotJudged", "set gates.requireLatency to have such a release refused",
		"only failed requests are judged, not slow ones: %s", why)
}
