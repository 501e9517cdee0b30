package preflight

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
	"github.com/shifter-dev/shifter/internal/release"
)

// foretell fills in what each step that is left takes at the present traffic, and
// the sizes of both tracks while it runs.
func (g *gathered) foretell(plan []release.Step) {
	in := g.incoming()
	size := [2]int{g.binding.Tracks[0].Replicas, g.binding.Tracks[1].Replicas}
	last, _ := g.present()
	g.plan = plan
	for _, st := range plan {
		size[in] = max(size[in], g.need(st.Share))
		size[in.Other()] = g.shrunk(size[in.Other()], last, st.Share)
		e := analysis.Expect(g.spec.Gate, st.Share, g.traffic.rps(), g.traffic.bad)
		slow := g.slowestProof(st.Share)
		g.expected, g.slowest = append(g.expected, e), append(g.slowest, slow)
		step := release.ExpectedStep{
			Share: st.Share, Replicas: size, Requests: e.Requests, Time: g.judged(e),
			Certifiable: e.Certifiable, Control: st.Share < 100,
		}
		if slow.asked {
			step.Requests, step.Time = max(step.Requests, slow.Requests), max(step.Time, g.judged(slow.Expectation))
			step.Certifiable = step.Certifiable && slow.Certifiable
		}
		step.Time += g.untilShown(last, st.Share)
		g.steps = append(g.steps, step)
		last = st.Share
	}
}

// judged is how long the judge takes: a step that no number of requests
// certifies takes its whole window.
func (g *gathered) judged(e analysis.Expectation) time.Duration {
	if e.Requests == 0 {
		return g.spec.Gate.MaxWindow
	}
	return e.Time
}

func (g *gathered) need(share float64) int { return release.Need(g.binding.Full, share, g.spec.Size) }

// shrunk is the outgoing track's size while a step runs, by the shrink policy:
// what the last passed step leaves it, or the present one, or all.
func (g *gathered) shrunk(size int, passed, share float64) int {
	keep := g.need(100 - passed)
	switch g.spec.Shrink {
	case release.ShrinkAtEnd:
		return size
	case release.ShrinkAfterShown:
		if share < 100 {
			keep = g.need(100 - share)
		}
	case release.ShrinkBehind:
	}
	if keep == 0 {
		return size
	}
	return min(size, keep)
}

// untilShown is how long the data plane takes to show a share: until enough
// requests tell it from the one before, or the settle time, and two scrapes.
func (g *gathered) untilShown(last, share float64) time.Duration {
	if last == share {
		return 0
	}
	wait := g.spec.Deadlines.Settle
	if rps := g.traffic.rps(); rps > 0 {
		wait = min(wait, seconds(analysis.ShownNeed(last, share)/rps))
	}
	return wait + 2*g.binding.Scrape
}

// quiet is how long the drain at the end takes, when nothing hangs.
func (g *gathered) quiet() time.Duration {
	wait := g.spec.Deadlines.Settle
	if rps := g.traffic.rps(); rps > 0 {
		wait = min(wait, seconds(drain.MinExpected/rps))
	}
	return wait + 2*g.binding.Scrape
}

func seconds(v float64) time.Duration {
	if !(v < (30 * 24 * time.Hour).Seconds()) {
		return 30 * 24 * time.Hour
	}
	return time.Duration(v * float64(time.Second))
}

// course adds the expected course to a forecast. The incoming track grows before
// the outgoing one shrinks, so the most pods are there in between.
func course(f release.Forecast, g *gathered) release.Forecast {
	in := g.incoming()
	before := [2]int{g.binding.Tracks[0].Replicas, g.binding.Tracks[1].Replicas}
	f.PeakPods = before[0] + before[1]
	f.Steps, f.Total = g.steps, g.quiet()
	for _, s := range g.steps {
		f.PeakPods = max(f.PeakPods, s.Replicas[in]+before[in.Other()])
		f.Total += s.Time
		before = s.Replicas
	}
	return f
}

// wayOut says what would let a step be certified: a longer window, a wider
// margin, or the risk taken by name.
func (g *gathered) wayOut(e analysis.Expectation, control bool) string {
	ways := []string{moreTime(e)}
	if control && e.Margin > g.spec.Gate.MaxErrorRateDelta && e.Margin < 0.5 {
		ways = append(ways, fmt.Sprintf("set gates.maxErrorRateDelta to %g", math.Ceil(e.Margin*1000)/1000))
	}
	ways = append(ways, `set "allow": ["uncertain"]`)
	return strings.Join(ways, ", or ")
}

// moreTime is the first way out of a proof that takes too long.
func moreTime(e analysis.Expectation) string {
	if e.Requests > 0 && e.Time < 24*time.Hour {
		return fmt.Sprintf("set gates.maxWindow to %s", readable(roundUp(e.Time, time.Minute)))
	}
	return "send more traffic"
}

func roundUp(d, to time.Duration) time.Duration {
	if r := d % to; r > 0 {
		d += to - r
	}
	return d
}

// readable leaves out the zeros of a duration's string.
func readable(d time.Duration) string {
	if d >= 30*24*time.Hour {
		return "more than 30 days"
	}
	if d >= time.Minute {
		d = d.Round(time.Second)
	} else {
		d = d.Round(100 * time.Millisecond)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
