package release

import (
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
)

// judged plays a release with the real judges over counted traffic: one proxy,
// scraped every second, at 200 requests per second.
type judged struct {
	*world
	looks    Looks
	errRate  [2]float64
	badFrom  float64
	slowFrom float64
	rps      float64
	last     time.Time // of the last scrape that was read
	injected float64
	silent   bool
	crashes  float64 // chance a turn that the process dies between save and act
}

func newJudged(seed uint64) *judged {
	w := newWorld(seed, StageShift)
	w.faults = faults{lag: time.Second, longRequest: 20 * time.Millisecond}
	v1 := w.r.Binding.Tracks[Primary].UndoTo
	spec := w.r.Spec
	spec.Steps, spec.Size, spec.Shrink, spec.Preset = DefaultSteps(), Size{1, 1}, ShrinkBehind, "prod"
	spec.Gate = analysis.Defaults()
	spec.Gate.Soak, spec.Gate.MaxWindow, spec.Gate.TelemetryGrace = 15*time.Second, time.Minute, 15*time.Second
	spec.EndReplicas = 0
	b := w.r.Binding
	b.Full = 4
	b.Tracks[Primary].UndoTo = v1
	for t := range w.tracks {
		w.tracks[t].desired, w.tracks[t].ready = 4, 4
		b.Tracks[t].Replicas = 4
	}
	for i := range w.routes {
		p := Pair{0, 100}
		w.routes[i].split, w.routes[i].changes = []Pair{p}, []simChange{{[]Pair{p}, w.now}}
		b.Routes[i].Split = []Pair{p}
	}
	w.r = New(b.Key, "uid", spec, b, "test", w.now)
	return &judged{world: w, rps: 200, last: w.now}
}

// reading is what the eyes would read now: whole scrapes since the last one.
func (j *judged) reading() Reading {
	at := j.now.Add(-time.Second).Truncate(time.Second) // read lag
	rd := Reading{Asked: j.now, At: at, Scrape: time.Second}
	if j.silent {
		rd.At, rd.Trouble = time.Time{}, "503"
		return rd
	}
	if !at.After(j.last) {
		return rd
	}
	n := j.rps * at.Sub(j.last).Seconds()
	w := TrackWindow{Metric: analysis.MetricErrors, Stratum: "gw", From: j.last, To: at}
	p := ProxyLook{Proxy: "gw", From: j.last, To: at}
	for t := Primary; t <= Canary; t++ {
		mean := n * j.served(t) / 100
		if t == Canary {
			mean = n - w.Counts[Primary].Requests
		}
		got := mean
		if t == Primary && mean > 0 && mean < n {
			got = float64(j.binomial(int(n), j.served(t)/100))
		}
		w.Counts[t].Requests, p.New[t] = got, got
		rate := j.errRate[t]
		if t == Primary && j.badFrom > 0 && j.served(Primary) >= j.badFrom {
			rate = 0.05
		}
		w.Counts[t].Bad = float64(j.binomial(int(got), rate))
		j.injected += w.Counts[t].Bad
		rd.Drain[t] = drain.Signals{At: at, From: j.last, New: got, Source: drain.SourceApp, Pods: []drain.PodSignal{{Pod: t.String()}}}
	}
	rd.Windows, rd.Proxies = append([]TrackWindow{w}, j.slow(w)...), []ProxyLook{p}
	j.last = at
	return rd
}

// slow are the windows of the watched bounds: a fifth of the answers takes
// longer than the first one, and next to nothing longer than the others.
func (j *judged) slow(all TrackWindow) []TrackWindow {
	var out []TrackWindow
	for i, b := range j.r.Binding.Watch.Bounds {
		w := all
		w.Metric, w.Stratum = analysis.Latency(b).String(), "pods"
		for t := range w.Counts {
			share := []float64{.2, .002}[min(i, 1)]
			if Track(t) == Primary && j.slowFrom > 0 && j.served(Primary) >= j.slowFrom {
				share += .2
			}
			w.Counts[t].Bad = float64(j.binomial(int(w.Counts[t].Requests), share))
		}
		out = append(out, w)
	}
	return out
}

func (j *judged) binomial(n int, p float64) int {
	k := 0
	for range n {
		if j.rng.Float64() < p {
			k++
		}
	}
	return k
}

func (j *judged) run() Release {
	r := j.r
	for range 3000 {
		if r.Phase.Terminal() {
			break
		}
		j.tick()
		o := j.observe()
		for t := range o.Tracks {
			o.Tracks[t].Pods = Known([]string{Track(t).String()}, j.now)
		}
		j.looks = j.looks.Add(o, j.reading())
		r, o = Assess(r, j.looks, o)
		d := Decide(r, o)
		r = d.Next
		if d.Save {
			r = roundTrip(r)
			j.save(r)
		}
		if j.rng.Float64() < j.crashes {
			j.now = j.now.Add(2 * time.Second)
			r, j.looks, j.last = Resume(roundTrip(j.r), j.now), Looks{}, j.now.Truncate(time.Second)
			continue
		}
		for _, a := range d.Actions {
			if err := Permit(r, j.observe(), a); err != nil {
				j.breaks("Permit: %v", err)
				break
			}
			j.passed = map[passKey]time.Time{{StageShift, 10}: j.now, {StageShift, 25}: j.now, {StageShift, 50}: j.now}
			j.apply(r, a)
		}
		j.now = j.now.Add(500 * time.Millisecond)
	}
	j.r = r
	return r
}

func TestGoodReleasePassesTheRealJudgesInAboutNinetySeconds(t *testing.T) {
	for seed := range uint64(20) {
		j := newJudged(seed)
		r := j.run()
		if r.Phase != Succeeded || len(j.broken) > 0 {
			t.Fatalf("seed %d: %s %v\n%s", seed, r.Phase, j.broken, j.story())
		}
		if took := r.Ended.Sub(r.Created); took < time.Minute || took > 150*time.Second {
			t.Errorf("seed %d: took %s\n%s", seed, took, j.story())
		}
		if r.Drain == nil || r.Drain.Status != drain.Drained {
			t.Errorf("seed %d: the drain was not measured: %+v", seed, r.Drain)
		}
		for _, s := range r.Steps {
			if s.ShownBy != ShownByData || s.Verdict == nil || s.Verdict.Outcome != analysis.Pass {
				t.Errorf("seed %d: step %+v", seed, s)
			}
		}
	}
}

func TestFivePercentErrorsFrom50AreStoppedAndUndone(t *testing.T) {
	for seed := range uint64(20) {
		j := newJudged(seed)
		j.badFrom = 50
		r := j.run()
		if r.Phase != RolledBack || r.Reason != ReasonGateFailed || len(j.broken) > 0 {
			t.Fatalf("seed %d: %s (%s) %v\n%s", seed, r.Phase, r.Reason, j.broken, j.story())
		}
		if r.Retreat.Undone.IsZero() || r.Drain.Status != drain.Drained || j.tracks[Primary].template.Hash != "p-v1" {
			t.Errorf("seed %d: %+v %+v", seed, r.Retreat, r.Drain)
		}
		if h := r.Verdict.Harm; h.Mid <= 0 || h.Low > j.injected || h.High < j.injected*0.3 {
			t.Errorf("seed %d: harm %+v, injected %g", seed, h, j.injected)
		}
		if j.injected > 250 {
			t.Errorf("seed %d: %g requests were harmed", seed, j.injected)
		}
	}
}

func TestSilenceOfTheTelemetryNeverPassesAndNeverFails(t *testing.T) {
	j := newJudged(3)
	j.silent = true
	r := j.run()
	if r.Phase != RolledBack || r.Reason != ReasonTelemetry || r.Drain.Status != drain.Assumed {
		t.Fatalf("%s (%s), drain %+v\n%s", r.Phase, r.Reason, r.Drain, j.story())
	}
	if len(r.Steps) != 1 || !r.Steps[0].Passed.IsZero() {
		t.Errorf("steps: %+v", r.Steps)
	}
}

func TestAQuietServiceIsNotAHealthyOne(t *testing.T) {
	j := newJudged(4)
	j.rps = 0
	r := j.run()
	if r.Phase != RolledBack || r.Reason != ReasonGateInconclusive {
		t.Fatalf("%s (%s)\n%s", r.Phase, r.Reason, j.story())
	}
}

func TestACrashBetweenAnyTwoTurnsChangesNothingAboutTheEnd(t *testing.T) {
	for seed := range uint64(10) {
		j := newJudged(seed)
		j.badFrom = []float64{0, 50}[seed%2]
		j.crashes = 0.03
		r := j.run()
		want := Succeeded
		if j.badFrom > 0 {
			want = RolledBack
		}
		if r.Phase != want {
			t.Errorf("seed %d: %s, want %s\n%s", seed, r.Phase, want, j.story())
		}
	}
}
