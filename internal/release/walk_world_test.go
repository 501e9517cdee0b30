package release

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
)

// world is a small model of a cluster, a data plane and their telemetry, for the
// walk. It applies actions as the ports would (guarded by what they expect) and
// checks after every effect that no invariant broke.
type world struct {
	seed uint64
	rng  *rand.Rand
	now  time.Time
	r    Release // the saved record

	routes []simRoute
	tracks [2]simTrack
	inbox  []Command
	epoch  uint64

	faults      faults
	lostUntil   time.Time // telemetry
	apiUntil    time.Time // API server
	abortSaid   bool      // an abort was consumed
	passed      map[passKey]time.Time
	failed      []ActionError // of the last turn
	broken      []string
	stale       *Observation
	seenPhases  map[[2]Phase]int
	undoApplied bool
	fenced      bool // another installation has taken a route
}

// passKey names a step of a stage.
type passKey struct {
	stage Stage
	share float64
}

type simRoute struct {
	uid     string
	split   []Pair
	changes []simChange // declared history, oldest first
	marked  string
	epoch   uint64
	refused bool
}

// simChange is a split with the time at which the data plane serves it.
type simChange struct {
	split []Pair
	from  time.Time
}

type simTrack struct {
	uid      string
	desired  int
	ready    int
	leaving  int
	leftAt   time.Time
	readyAt  time.Time
	template Template
	stale    int
	history  []Template
	inflight int
	idleAt   time.Time // when the last request in flight ends
}

// faults is what may go wrong in one walk.
type faults struct {
	badFrom     float64 // the suspect fails from this share on, 0 never
	safety      bool
	noTraffic   float64 // from this share on
	lag         time.Duration
	badTrack    Track  // whose v2 is bad
	stuckHash   string // a template whose last pod never gets ready
	stuckKind   TroubleKind
	refuse      bool // the promote
	refuseWrite bool
	guardAt100  int // how often the guard rings
	deaf        bool
	longRequest time.Duration
	crash, lose, stale, fence,
	foreign, template, abort, podLoss, outage, api float64
}

func newWorld(seed uint64, of ...Stage) *world {
	rng := rand.New(rand.NewPCG(seed, 17))
	w := &world{seed: seed, rng: rng, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), epoch: 1, passed: map[passKey]time.Time{}, seenPhases: map[[2]Phase]int{}}
	w.faults = pickFaults(rng)
	spec := pickSpec(rng)
	stages := pickStages(rng)
	if len(of) > 0 {
		stages = of
	}
	spec.Stages = stages
	w.faults = w.faults.of(stages, rng)
	replicas := [2]int{1 + rng.IntN(6), 1 + rng.IntN(6)}
	present := []float64{0, 0, 0, 0, 25, 40}[rng.IntN(6)] // of the incoming track
	b := Binding{Key: Key{"shop", "r1"}, Full: max(replicas[0], replicas[1]), Scrape: time.Second}
	onPrimary := present
	switch stages[0] {
	case StageCanary:
		onPrimary, b.Full = 100-present, replicas[Primary]
		if present == 0 {
			replicas[Canary] = rng.IntN(4)
		}
	case StagePromote:
		onPrimary, b.Full = 0, replicas[Canary]
	case StageShift:
	}
	spec.Routes = nil
	for i := range 1 + rng.IntN(2) {
		p := Pair{Primary: 0, Canary: []int32{100, 100, 80, 1000}[rng.IntN(4)]}.At(Primary, onPrimary)
		ref := RouteRef{Kind: "HTTPRoute", Namespace: "shop", Name: fmt.Sprintf("route%d", i)}
		spec.Routes = append(spec.Routes, ref)
		w.routes = append(w.routes, simRoute{uid: "u" + ref.Name, split: []Pair{p}, changes: []simChange{{[]Pair{p}, w.now}}})
		b.Routes = append(b.Routes, BoundRoute{Ref: ref, UID: "u" + ref.Name, Split: []Pair{p}, Accepted: AcceptedYes})
	}
	w.settle(&b, replicas, stages[0])
	w.r = New(b.Key, "uid", spec, b, "walk", w.now)
	return w
}

func pickStages(rng *rand.Rand) []Stage {
	return [][]Stage{
		{StageShift},
		{StageShift},
		{StageShift},
		{StageCanary},
		{StagePromote},
		{StageCanary, StagePromote},
		{StagePromote, StageShift},
		{StageCanary, StagePromote, StageShift},
		{StageCanary, StagePromote, StageShift},
		{StageCanary, StagePromote, StageShift},
	}[rng.IntN(10)]
}

// settle gives the tracks their templates: v2 on the canary, and on the primary
// too where the release only shifts.
func (w *world) settle(b *Binding, replicas [2]int, first Stage) {
	v1 := Template{Hash: "p-v1", Images: map[string]string{"app": "app:v1"}}
	older := Template{Hash: "c-v0", Images: map[string]string{"app": "app:v0"}}
	for t := Primary; t <= Canary; t++ {
		tpl := Template{Hash: t.String()[:1] + "-v2", Images: map[string]string{"app": "app:v2"}}
		if t == Primary && first != StageShift {
			tpl = v1
		}
		w.tracks[t] = simTrack{uid: "d" + t.String(), desired: replicas[t], ready: replicas[t], template: tpl, history: []Template{tpl}}
		b.Tracks[t] = BoundTrack{Namespace: "shop", Deployment: t.String(), UID: "d" + t.String(), Replicas: replicas[t], Template: tpl, Service: t.String()}
	}
	w.tracks[Canary].history = append(w.tracks[Canary].history, older)
	b.Tracks[Canary].UndoTo = &older
	if first == StageShift {
		w.tracks[Primary].history = append(w.tracks[Primary].history, v1)
		b.Tracks[Primary].UndoTo = &v1
	}
}

// of fits the faults to the stages: what is bad is what a stage exposes.
func (f faults) of(stages []Stage, rng *rand.Rand) faults {
	in := stages[rng.IntN(len(stages))].Incoming()
	if stages[0] == StagePromote {
		in = Primary
	}
	f.badTrack = in
	if f.stuckHash != "" {
		f.stuckHash = in.String()[:1] + "-v2"
		f.stuckKind = []TroubleKind{"", TroubleTerminal, TroubleRetryable}[rng.IntN(3)]
	}
	f.refuse = rng.IntN(20) == 0
	return f
}

func pickSpec(rng *rand.Rand) Spec {
	s := Spec{
		Steps:  [][]float64{{10, 25, 50, 100}, {10, 25, 50, 100}, {50, 100}, {1, 5, 20, 60, 100}}[rng.IntN(4)],
		Shrink: []Shrink{ShrinkBehind, ShrinkAfterShown, ShrinkAtEnd}[rng.IntN(3)],
		Size:   Size{Headroom: 1 + 0.3*rng.Float64(), MinReplicas: 1 + rng.IntN(2)},
		Preset: Presets()[rng.IntN(5)],
		Holds:  20 * time.Second,
		Tracks: [2]TrackSpec{{Service: "p", Deployment: "p"}, {Service: "c", Deployment: "c"}},
		Deadlines: Deadlines{
			Preflight: 20 * time.Second, Grow: 30 * time.Second, Settle: 8 * time.Second, Shown: 30 * time.Second,
			Write: 15 * time.Second, Drain: 40 * time.Second, Request: 10 * time.Second, Undo: 60 * time.Second,
			Confirm: 30 * time.Second, Exposure: 5 * time.Minute, Promote: 40 * time.Second, Steady: 5 * time.Second,
		},
	}
	s = s.WithDefaults()
	s.EndReplicas = rng.IntN(2)
	s.Gate.Soak, s.Gate.MaxWindow, s.Gate.TelemetryGrace = 5*time.Second, 30*time.Second, 8*time.Second
	return s
}

func pickFaults(rng *rand.Rand) faults {
	f := faults{lag: time.Duration(rng.IntN(4000)) * time.Millisecond, longRequest: time.Duration(rng.IntN(5000)) * time.Millisecond}
	some := func(p float64) bool { return rng.Float64() < p }
	at := []float64{1, 10, 25, 50, 100}[rng.IntN(5)]
	if some(0.3) {
		f.badFrom = at
		f.safety = some(0.3)
	}
	if some(0.1) {
		f.noTraffic = at
	}
	if some(0.05) {
		f.stuckHash = "p-v2"
	}
	f.refuseWrite, f.deaf = some(0.03), some(0.05)
	if some(0.15) {
		f.guardAt100 = 1 + rng.IntN(2)
	}
	rate := func(p, v float64) float64 {
		if some(p) {
			return v
		}
		return 0
	}
	f.crash, f.lose, f.stale = rate(0.4, 0.08), rate(0.4, 0.2), rate(0.4, 0.2)
	f.foreign, f.template, f.abort = rate(0.1, 0.01), rate(0.05, 0.01), rate(0.15, 0.02)
	f.podLoss, f.outage, f.api = rate(0.2, 0.02), rate(0.2, 0.03), rate(0.15, 0.02)
	f.fence = rate(0.05, 0.01)
	return f
}

// served is the greatest share of a track that any route's data plane serves.
func (w *world) served(t Track) float64 {
	hi := 0.0
	for _, rt := range w.routes {
		cur := rt.changes[0].split
		for _, c := range rt.changes {
			if !c.from.After(w.now) {
				cur = c.split
			}
		}
		hi = max(hi, cur[0].Share(t))
	}
	return hi
}

// converged reports whether all data planes serve what is declared.
func (w *world) converged() bool {
	for _, rt := range w.routes {
		if rt.changes[len(rt.changes)-1].from.After(w.now) {
			return false
		}
	}
	return true
}

func (w *world) declare(i int, split []Pair) {
	lag := w.faults.lag
	if w.faults.deaf {
		lag = time.Hour
	}
	rt := &w.routes[i]
	rt.split = split
	rt.changes = append(rt.changes, simChange{split, w.now.Add(lag)})
}

// tick lets the world live until now.
func (w *world) tick() {
	for t := range w.tracks {
		tr := &w.tracks[t]
		if !tr.readyAt.After(w.now) {
			tr.ready, tr.stale = tr.desired, 0
			if w.faults.stuckHash == tr.template.Hash {
				tr.ready = max(0, tr.desired-1)
				tr.stale = min(tr.desired, w.oldPods(Track(t)))
			}
		}
		if !tr.leftAt.After(w.now) {
			tr.leaving = 0
		}
		if w.served(Track(t)) > 0 && !w.quiet() {
			tr.idleAt = w.now.Add(w.faults.longRequest)
		}
		tr.inflight = 0
		if tr.idleAt.After(w.now) {
			tr.inflight = 3
		}
		if w.rng.Float64() < w.faults.podLoss && tr.ready > 0 {
			tr.ready--
			tr.readyAt = w.now.Add(3 * time.Second)
		}
	}
	w.accidents()
}

// oldPods is how many pods of the template before a stuck rollout keeps.
func (w *world) oldPods(t Track) int {
	if t == Primary && w.r.Spec.Stages[0] != StageShift {
		return 1
	}
	return 0
}

func (w *world) quiet() bool {
	return w.faults.noTraffic > 0 && w.served(w.r.Incoming()) >= w.faults.noTraffic
}

func (w *world) accidents() {
	f := w.faults
	if w.rng.Float64() < f.outage {
		w.lostUntil = w.now.Add(time.Duration(w.rng.IntN(30)) * time.Second)
	}
	if w.rng.Float64() < f.api {
		w.apiUntil = w.now.Add(time.Duration(w.rng.IntN(10)) * time.Second)
		if w.rng.IntN(10) == 0 {
			w.apiUntil = w.now.Add(time.Duration(w.rng.IntN(8)) * time.Minute)
		}
	}
	if w.rng.Float64() < f.fence {
		w.routes[w.rng.IntN(len(w.routes))].epoch, w.fenced = 50, true
	}
	if w.rng.Float64() < f.foreign {
		i := w.rng.IntN(len(w.routes))
		w.declare(i, []Pair{w.routes[i].split[0].At(Primary, float64(w.rng.IntN(101)))})
	}
	if w.rng.Float64() < f.template {
		w.setTemplate(Track(w.rng.IntN(2)), Template{Hash: "foreign"})
	}
	if w.rng.Float64() < f.abort && len(w.inbox) < 3 {
		w.inbox = append(w.inbox, Command{
			Seq: uint64(len(w.inbox) + 1), Verb: VerbAbort, Subject: "walker", At: w.now,
			Traffic: []Traffic{TrafficBack, TrafficBack, TrafficStay}[w.rng.IntN(3)],
			Mode:    []Mode{ModeGraceful, ModeImmediate, ModeForce}[w.rng.IntN(3)],
		})
	}
}

func (w *world) setTemplate(t Track, to Template) {
	tr := &w.tracks[t]
	tr.template, tr.stale = to, tr.desired
	if !slices.ContainsFunc(tr.history, func(h Template) bool { return h.Hash == to.Hash }) {
		tr.history = append([]Template{to}, tr.history...)
	}
	tr.readyAt = w.now.Add(time.Duration(1+w.rng.IntN(5)) * time.Second)
	tr.leaving, tr.leftAt = 1, tr.readyAt
}

// observe looks at the world as ports and judges would.
func (w *world) observe() Observation {
	o := Observation{Now: w.now, Epoch: w.epoch, Inbox: slices.Clone(w.inbox), Failed: w.failed}
	api := !w.apiUntil.After(w.now)
	if !api {
		o.Unreachable = "the API server is away"
	}
	for i, rt := range w.routes {
		s := RouteState{Ref: w.r.Binding.Routes[i].Ref}
		if api {
			s.UID, s.Split, s.Marked = rt.uid, Known(slices.Clone(rt.split), w.now), Known(rt.marked, w.now)
			s.Epoch, s.Accepted = Known(rt.epoch, w.now), Known(AcceptedYes, w.now)
			if rt.refused {
				s.Accepted = Known(AcceptedRefused, w.now)
			}
		} else {
			s.Split = Unseen[[]Pair]("away")
		}
		o.Routes = append(o.Routes, s)
	}
	for t, tr := range w.tracks {
		if api {
			o.Tracks[t] = TrackState{
				UID: tr.uid, Desired: Known(tr.desired, w.now), Ready: Known(tr.ready, w.now), Endpoints: Known(tr.ready, w.now),
				Leaving: Known(tr.leaving, w.now), Stale: Known(tr.stale, w.now), Floor: Known(-1, w.now),
				Template: Known(tr.template, w.now), History: slices.Clone(tr.history),
			}
			if w.faults.stuckHash == tr.template.Hash && w.faults.stuckKind != "" && tr.desired > 0 {
				o.Tracks[t].Trouble = []Trouble{{Kind: w.faults.stuckKind, Reason: "CrashLoopBackOff", Template: tr.template.Hash}}
			}
		}
	}
	return o
}

// judge fills in what the judges would say, by the truth of the world.
func (w *world) judge(r Release, o Observation) Observation {
	lost := w.lostUntil.After(w.now)
	o.Verdict = Known(w.verdict(r, lost), w.now)
	if !r.Declared.IsZero() {
		sh := analysis.Shown{Status: analysis.ShownUnknown, At: w.now}
		switch {
		case lost || w.quiet():
		case w.converged():
			sh.Status = analysis.ShownYes
		default:
			sh.Status, sh.Lagging = analysis.ShownNo, []string{"gw"}
		}
		o.Shown = Known(sh, w.now)
	}
	for t := Primary; t <= Canary; t++ {
		if r.shareOf(t) == 0 && !r.Shown.IsZero() {
			o.Drain[t] = Known(w.drainState(r, t, lost), w.now)
		}
	}
	return o
}

func (w *world) verdict(r Release, lost bool) analysis.Verdict {
	v := analysis.Verdict{Outcome: analysis.Inconclusive, Reason: analysis.NotCertified, At: w.now, Data: w.now, Share: r.Target, Step: r.StepIx}
	since := r.Shown
	if since.IsZero() {
		since = w.now
	}
	v.Elapsed = w.now.Sub(since)
	v.Left = max(0, r.Spec.Gate.MaxWindow-v.Elapsed)
	share, bad := w.served(r.Incoming()), w.bad(r)
	set := func(o analysis.Outcome, why analysis.Reason) analysis.Verdict {
		v.Outcome, v.Reason = o, why
		return v
	}
	switch {
	case lost && w.lostUntil.Sub(w.now) > 5*time.Second:
		v.Data = time.Time{}
		return set(analysis.Inconclusive, analysis.TelemetryUnavailable)
	case lost:
		return set(analysis.Inconclusive, analysis.TelemetryGap)
	case r.Stage == StagePromote && r.Spec.Stages[0] == StagePromote: // no step was begun
	case bad && share >= w.faults.badFrom && !w.quiet() && w.rng.Float64() < 0.3:
		if w.faults.safety {
			return set(analysis.Fail, analysis.SafetyLimit)
		}
		return set(analysis.Fail, analysis.Regression)
	case r.Target == 100 && w.faults.guardAt100 > r.Backs && !w.quiet() && !r.Shown.IsZero():
		if r.Backs > 0 {
			return set(analysis.Fail, analysis.GuardAlarmAgain)
		}
		return set(analysis.Inconclusive, analysis.GuardAlarm)
	case w.quiet() && v.Left == 0:
		return set(analysis.Inconclusive, analysis.WindowExhausted)
	case w.quiet():
		return set(analysis.Inconclusive, analysis.InsufficientRequests)
	case v.Elapsed >= r.Spec.Gate.Soak && v.Elapsed > 0 && !bad:
		why := analysis.Certified
		if r.Target == 100 {
			why = analysis.SoakClean
		}
		w.passed[passKey{r.Stage, r.Target}] = w.now
		return set(analysis.Pass, why)
	case v.Left == 0:
		return set(analysis.Inconclusive, analysis.WindowExhausted)
	}
	return v
}

// bad reports a stage whose incoming track is the bad one.
func (w *world) bad(r Release) bool { return w.faults.badFrom > 0 && w.faults.badTrack == r.Incoming() }

func (w *world) drainState(r Release, t Track, lost bool) drain.State {
	s := drain.State{Status: drain.Draining, Source: drain.SourceApp, Since: r.Shown, At: w.now, Took: w.now.Sub(r.Shown)}
	switch {
	case lost:
		s.Status = drain.Unknown
	case w.served(t) > 0:
		s.Senders = []string{"gw"}
	case w.tracks[t].inflight == 0:
		s.Status = drain.Drained
	}
	return s
}
