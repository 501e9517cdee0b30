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
func (g *gathered) foretell(plans []release.StagePlan) {
	size := [2]int{g.binding.Tracks[0].Replicas, g.binding.Tracks[1].Replicas}
	last, _ := g.present()
	for i, p := range plans {
		if i > 0 || g.spec.Stages[0] == release.StagePromote {
			last = 0
		}
		for _, st := range p.Steps {
			size = g.sized(size, p.Stage, last, st.Share)
			e, slow := analysis.Expect(g.spec.Gate, st.Share, g.traffic.rps(), g.traffic.bad), g.slowestProof(st.Share)
			g.plan = append(g.plan, step{st, p.Stage})
			g.expected, g.slowest = append(g.expected, e), append(g.slowest, slow)
			x := release.ExpectedStep{
				Stage: p.Stage, Share: st.Share, Replicas: size, Requests: e.Requests, Time: g.judged(e),
				Certifiable: e.Certifiable, Control: st.Share < 100,
			}
			if slow.asked {
				x.Requests, x.Time = max(x.Requests, slow.Requests), max(x.Time, g.judged(slow.Expectation))
				x.Certifiable = x.Certifiable && slow.Certifiable
			}
			x.Time += g.untilShown(last, st.Share)
			g.steps = append(g.steps, x)
			last = st.Share
		}
	}
}

// sized is the size of both tracks while a step of a stage runs.
func (g *gathered) sized(size [2]int, stage release.Stage, last, share float64) [2]int {
	in := stage.Incoming()
	size[in] = max(size[in], g.need(share))
	if stage == release.StageShift {
		size[in.Other()] = g.shrunk(size[in.Other()], last, share)
	}
	return size
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
// the outgoing one shrinks, so the most pods are there in between; a promote has
// some more for a while.
func course(f release.Forecast, g *gathered) release.Forecast {
	before := [2]int{g.binding.Tracks[0].Replicas, g.binding.Tracks[1].Replicas}
	f.PeakPods = before[0] + before[1]
	f.Steps = g.steps
	for _, s := range g.steps {
		in := s.Stage.Incoming()
		f.PeakPods = max(f.PeakPods, s.Replicas[in]+before[in.Other()])
		f.Total += s.Time
		before = s.Replicas
	}
	f.Total += g.quiet()
	if g.runs(release.StagePromote) {
		primary, canary := g.binding.Tracks[release.Primary].Replicas, g.binding.Tracks[release.Canary].Replicas
		if g.runs(release.StageCanary) {
			canary = max(canary, g.need(100))
		}
		f.PeakPods = max(f.PeakPods, canary+primary+int(math.Ceil(surge*float64(primary))))
		f.Total += g.spec.Deadlines.Steady + 2*g.binding.Scrape
		if g.runs(release.StageShift) {
			f.Total += g.quiet() // the drain before it, and the one at the end
		}
	}
	return f
}

// surge is how much more pods a rolling update has at one time, unless the
// Deployment says otherwise.
const surge = 0.25

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
