package release

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	walkN    = flag.Int("walk.n", 5000, "how many random releases the walk takes")
	walkSeed = flag.Uint64("walk.seed", 1, "the first seed of the walk")
)

// TestWalk takes random releases through random worlds with lost, repeated and
// stale effects, crashes, foreign hands and outages, and checks the invariants
// of DESIGN.md after every effect.
func TestWalk(t *testing.T) {
	ends, byStages := map[Phase]int{}, map[string]map[Phase]int{}
	homes, seen := 0, map[[2]Phase]int{}
	for w := range walkAll(uint64(*walkN)) {
		if len(w.broken) > 0 {
			t.Errorf("seed %d (%+v):\n%v\nstory:\n%s", w.seed, w.faults, w.broken, w.story())
		}
		ends[w.r.Phase]++
		stages := fmt.Sprint(w.r.Spec.Stages)
		if byStages[stages] == nil {
			byStages[stages] = map[Phase]int{}
		}
		byStages[stages][w.r.Phase]++
		if w.r.Retreat != nil && w.r.Retreat.Home {
			homes++
		}
		for k, n := range w.seenPhases {
			seen[k] += n
		}
	}
	t.Logf("%d releases from seed %d: %v, by stages %v, %d by the way home", *walkN, *walkSeed, ends, byStages, homes)
	if *walkN < 1000 {
		return
	}
	for _, p := range []Phase{Succeeded, RolledBack, Aborted, Rejected, Failed} {
		if ends[p] == 0 {
			t.Errorf("no walk ended %s: the worlds have lost their variety", p)
		}
	}
	for stages, got := range byStages {
		if got[Succeeded] == 0 || got[RolledBack] == 0 || got[Aborted] == 0 {
			t.Errorf("stages %s ended %v: the worlds have lost their variety", stages, got)
		}
	}
	if homes == 0 {
		t.Error("no walk went home to the primary")
	}
	checkTransitions(t, seen)
}

// walkAll walks the seeds on all cores and yields each world when it is done. It
// stops handing out seeds when the walk has found enough.
func walkAll(n uint64) <-chan *world {
	seeds, done := make(chan uint64), make(chan *world)
	var walkers sync.WaitGroup
	var broken atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		walkers.Go(func() {
			for seed := range seeds {
				w := newWorld(seed)
				w.run()
				if len(w.broken) > 0 {
					broken.Add(1)
				}
				done <- w
			}
		})
	}
	go func() {
		for i := range n {
			if broken.Load() > 2 {
				break
			}
			seeds <- *walkSeed + i
		}
		close(seeds)
		walkers.Wait()
		close(done)
	}()
	return done
}

// maxSim bounds the simulated life of one release (I13): the sum of its
// deadlines, with its retries, holds, outages and restarts.
const maxSim = 90 * time.Minute

func (w *world) run() {
	r := w.r
	end := w.now.Add(maxSim)
	for turns := 0; !r.Phase.Terminal(); turns++ {
		if w.now.After(end) || turns > 20000 {
			w.breaks("I13: still %s (%s) after %s", r.Phase, r.Reason, maxSim)
			return
		}
		w.tick()
		o := w.look()
		w.failed = nil
		o = w.judge(r, o)
		d := Decide(r, o)
		w.note(r.Phase, d.Next.Phase)
		if again := Decide(r, o); !sameDecision(d, again) {
			w.breaks("Decide is not a function: %+v and %+v", d.Actions, again.Actions)
			return
		}
		if len(d.Actions) > 0 && (!d.Save || fmt.Sprint(d.Actions) != fmt.Sprint(d.Next.Intent)) {
			w.breaks("I12: %v without a saved intent (%v)", d.Actions, d.Next.Intent)
		}
		r = d.Next
		if d.Save {
			w.save(r)
		}
		if w.rng.Float64() < w.faults.crash {
			r = w.crash(r, d)
			continue
		}
		w.act(r, d.Actions)
		w.advance(d.Wake)
		if len(w.broken) > 0 {
			return
		}
	}
	w.settleEnd(r)
}

// look may be stale: one look in some is the one before.
func (w *world) look() Observation {
	o := w.observe()
	if w.stale != nil && w.rng.Float64() < w.faults.stale {
		old := *w.stale
		old.Now, old.Inbox = o.Now, o.Inbox
		return old
	}
	w.stale = &o
	return o
}

func (w *world) save(r Release) {
	if r.Consumed > w.r.Consumed {
		w.abortSaid = true
	}
	w.r = r
}

// crash drops the process: the record is read again, some effects may have
// happened, and time passes.
func (w *world) crash(r Release, d Decision) Release {
	if n := len(d.Actions); n > 0 {
		w.act(r, d.Actions[:w.rng.IntN(n+1)])
	}
	w.now = w.now.Add(time.Duration(w.rng.IntN(8)) * time.Second)
	w.tick()
	return Resume(roundTrip(w.r), w.now)
}

// roundTrip is what the journal does to a record.
func roundTrip(r Release) Release {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	var out Release
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

func (w *world) advance(wake time.Time) {
	if wake.IsZero() || !wake.After(w.now) {
		w.now = w.now.Add(100 * time.Millisecond)
		return
	}
	gap := wake.Sub(w.now)
	w.now = w.now.Add(time.Duration(float64(gap) * (0.2 + 0.8*w.rng.Float64())))
}

func (w *world) act(r Release, acts Actions) {
	for _, a := range acts {
		if w.rng.Float64() < w.faults.lose {
			continue
		}
		if w.apiUntil.After(w.now) {
			return
		}
		fresh := w.observe()
		if err := Permit(r, fresh, a); err != nil {
			if !errors.Is(err, ErrConflict) && !errors.Is(err, ErrNotFound) && !w.stalePossible() {
				w.breaks("Permit refused a decision made on a fresh look: %s: %v", a, err)
			}
			return
		}
		w.apply(r, a)
		if w.rng.Float64() < 0.05 && Permit(r, w.observe(), a) == nil {
			w.apply(r, a) // the reply was lost, and it was sent again
		}
	}
}

// stalePossible reports whether decisions may rest on something older than the
// fresh look that Permit had.
func (w *world) stalePossible() bool {
	f := w.faults
	return f.stale > 0 || f.crash > 0 || f.foreign > 0 || f.template > 0 || f.podLoss > 0
}

func (w *world) apply(r Release, a Action) {
	for _, rt := range w.routes {
		w.check(rt.epoch <= w.epoch, "I8: %s after a newer writer came to the routes", a)
	}
	switch a := a.(type) {
	case SetShare:
		w.applyShare(r, a)
	case Scale:
		w.applyScale(r, a)
	case Promote:
		w.applyPromote(r, a)
	case Undo:
		if w.tracks[a.Track].template.Hash != a.From.Hash {
			return
		}
		w.check(w.served(a.Track) == 0 || r.ShownBy == ShownBySettle, "I4: undo of %s while it serves %g", a.Track, w.served(a.Track))
		w.check(w.tracks[a.Track].inflight == 0 || r.Drain.Status != "drained", "I4: undo of %s with %d requests in flight", a.Track, w.tracks[a.Track].inflight)
		w.setTemplate(a.Track, a.To)
		w.undoApplied = true
	case Mark:
		i := w.routeIx(a.Route)
		w.routes[i].marked, w.routes[i].epoch = "", w.epoch
		if a.On {
			w.routes[i].marked = r.Key.Name
		}
	default:
		w.breaks("unexpected action %s", a)
	}
}

func (w *world) routeIx(ref RouteRef) int {
	return slices.IndexFunc(w.r.Binding.Routes, func(b BoundRoute) bool { return b.Ref.String() == ref.String() })
}

func (w *world) applyShare(r Release, a SetShare) {
	i := w.routeIx(a.Route)
	if !equalPairs(w.routes[i].split, a.From) {
		return // the patch's test fails
	}
	if w.faults.refuseWrite && r.Target >= 50 {
		return
	}
	in := r.Incoming()
	from, to := a.From[0].Share(in), a.To[0].Share(in)
	w.check(a.From[0].Sum() == a.To[0].Sum(), "I1: %v -> %v", a.From, a.To)
	for t := Primary; t <= Canary; t++ {
		if gain := a.To[0].Share(t); gain > a.From[0].Share(t) {
			forced := r.Retreat != nil && !r.Retreat.Home && (r.Retreat.Forced || r.Retreat.Mode == ModeForce)
			room := Capacity(r.Binding.Full, w.tracks[t].ready, r.Spec.Size)
			enough := w.tracks[t].ready >= r.need(gain) && r.Retreat == nil
			w.check(forced || enough || gain <= room+1, "I2: %s gets %g with %d ready of %d", t, gain, w.tracks[t].ready, r.Binding.Full)
		}
	}
	if r.Retreat != nil && r.Retreat.Home {
		w.check(w.tracks[Primary].template.Hash == "p-v1", "I6: the way home is to %s", w.tracks[Primary].template.Hash)
	}
	if r.Retreat != nil {
		sus := r.Retreat.Refuge.Other()
		w.check(a.To[0].Share(sus) <= a.From[0].Share(sus), "I6: the suspect rises from %g to %g in a retreat", a.From[0].Share(sus), a.To[0].Share(sus))
	}
	if to > from && r.Retreat == nil {
		w.check(!w.abortSaid, "I9: the suspect rises after an abort")
		w.checkPass(r, from)
		w.check(slices.ContainsFunc(r.Plan, func(s Step) bool { return s.Share == r.Target }), "I7: %g is not in the plan", r.Target)
	}
	w.declare(i, a.To)
}

// checkPass wants a pass for every step below the one that is written (I5).
func (w *world) checkPass(r Release, from float64) {
	if r.Passed == 0 && r.StepIx == 0 {
		return
	}
	at, ok := w.passed[passKey{r.Stage, r.Plan[max(r.StepIx-1, 0)].Share}]
	w.check(ok && !at.IsZero(), "I5: raised from %g to %g without a pass for %g", from, r.Target, r.Plan[max(r.StepIx-1, 0)].Share)
}

func (w *world) applyScale(r Release, a Scale) {
	tr := &w.tracks[a.Track]
	if a.Replicas < tr.desired {
		share := w.served(a.Track)
		for _, rt := range w.routes {
			share = max(share, rt.split[0].Share(a.Track))
		}
		if r.ShownBy != ShownBySettle {
			w.check(a.Replicas >= r.need(share), "I3: %s to %d while it serves or may serve %g", a.Track, a.Replicas, share)
		}
		if r.Stage != StageShift && r.Retreat == nil {
			w.check(a.Track == Canary, "I3: the %s is made smaller in stage %s", a.Track, r.Stage)
		}
		if a.Replicas == 0 {
			w.check(r.Drained != nil && *r.Drained == a.Track, "I4: %s to 0 without a recorded drain", a.Track)
		}
		tr.leaving, tr.leftAt = tr.desired-a.Replicas, w.now.Add(2*time.Second)
		tr.ready = min(tr.ready, a.Replicas)
	} else if a.Replicas > tr.desired {
		tr.readyAt = w.now.Add(time.Duration(1+w.rng.IntN(4)) * time.Second)
	}
	tr.desired = a.Replicas
}

// settleEnd checks what must be true of an ended release.
func (w *world) settleEnd(r Release) {
	d := Decide(r, w.judge(r, w.observe()))
	w.check(len(d.Actions) == 0 && !d.Save && d.Next.Phase == r.Phase, "I11: a terminal release acts")
	if b, err := json.Marshal(r); err != nil || len(b) > 64<<10 {
		w.breaks("I15: the record has %d bytes (%v)", len(b), err)
	}
	for _, rt := range w.routes {
		w.check(rt.marked == "" || r.NeedsHuman || w.stalePossible(), "I18: a mark is left by a release that says nothing of it")
	}
	calm := w.faults.foreign == 0 && w.faults.template == 0 && w.faults.stale == 0
	w.check(!calm || w.tracks[Canary].template.Hash == "c-v2", "the canary ends on %s", w.tracks[Canary].template.Hash)
	switch r.Phase {
	case Succeeded:
		w.checkSuccess(r, calm)
	case RolledBack:
		w.checkBack(r, calm)
		w.check(!calm || !r.Retreat.Undone.IsZero() == w.undoApplied, "undone is %v, applied %v", r.Retreat.Undone, w.undoApplied)
	case Failed:
		w.check(r.NeedsHuman, "failed without needing a person")
		w.check(r.Reason != ReasonFenced || w.fenced, "given up for another writer, and there is none")
	case Rejected:
		w.check(len(w.routes[0].changes) == 1 || !calm, "rejected, but the weights were touched")
	case Aborted:
		w.check(!r.rollsOut() || r.Retreat != nil, "a rollout is left running")
		if r.Retreat != nil {
			w.checkBack(r, calm)
		}
	default:
		w.breaks("ended as %s", r.Phase)
	}
}

func (w *world) allAt(share float64) bool {
	for _, rt := range w.routes {
		if rt.split[0] != rt.split[0].At(Primary, share) {
			return false
		}
	}
	return true
}

func (w *world) note(from, to Phase) {
	if from != to {
		w.seenPhases[[2]Phase{from, to}]++
	}
}

func (w *world) check(ok bool, format string, args ...any) {
	if !ok {
		w.breaks(format, args...)
	}
}

func (w *world) breaks(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

func (w *world) story() string {
	s := ""
	for _, e := range w.r.History {
		s += fmt.Sprintf("%s %-10s %s\n", e.At.Format("15:04:05.0"), e.Phase, e.Text)
	}
	return s
}

func sameDecision(a, b Decision) bool {
	x, err1 := json.Marshal(a.Actions)
	y, err2 := json.Marshal(b.Actions)
	return err1 == nil && err2 == nil && string(x) == string(y) && a.Next.Phase == b.Next.Phase && a.Wake.Equal(b.Wake) && a.Say == b.Say
}

// applyPromote gives the primary its new template, as the port would.
func (w *world) applyPromote(r Release, a Promote) {
	tr := &w.tracks[a.Track]
	w.check(a.Track == Primary && r.Retreat == nil, "a promote of the %s, or in a retreat", a.Track)
	w.check(!w.abortSaid, "I9: a promote after an abort")
	w.check(w.served(a.Track) == 0 || r.ShownBy == ShownBySettle, "I4: promote of %s while it serves %g", a.Track, w.served(a.Track))
	w.check(r.Drained != nil && r.Drain != nil, "I4: promote of %s without a recorded drain", a.Track)
	w.check(tr.inflight == 0 || r.Drain == nil || r.Drain.Status != "drained", "I4: promote of %s with %d requests in flight", a.Track, tr.inflight)
	switch {
	case w.faults.refuse:
		w.failed = []ActionError{{Kind: a.Kind(), Err: ErrKindRefused, Text: "denied by a webhook", At: w.now}}
	case tr.template.Hash == a.From.Hash:
		w.setTemplate(a.Track, Template{Hash: "p-v2", Images: a.Images})
	}
}

// checkSuccess wants the end that the stages were to lead to.
func (w *world) checkSuccess(r Release, calm bool) {
	last, want, hash := r.Spec.Stages[len(r.Spec.Stages)-1], 0.0, "p-v1"
	if last == StageShift {
		want = 100
	}
	if last != StageCanary {
		hash = "p-v2"
	}
	w.check(!r.runs(StagePromote) || w.faults.stuckHash != "p-v2", "succeeded with a promote whose pods never got ready")
	w.check(!calm || w.allAt(want), "succeeded at %v", w.routes)
	w.check(!calm || w.tracks[Primary].template.Hash == hash, "succeeded with the primary on %s", w.tracks[Primary].template.Hash)
	gated := slices.ContainsFunc(r.Spec.Stages, func(s Stage) bool { return s != StagePromote && s.Incoming() == w.faults.badTrack })
	w.check(!gated || w.faults.badFrom == 0 || w.faults.badFrom > 100, "a bad release succeeded")
	w.check(!calm || last == StageShift || w.tracks[Primary].desired == r.Binding.Tracks[Primary].Replicas, "the primary has not its size any more: %d", w.tracks[Primary].desired)
}

// checkBack wants the traffic on the refuge. That is the primary as it was, where
// the release began there.
func (w *world) checkBack(r Release, calm bool) {
	re := r.Retreat
	if !calm {
		return
	}
	w.check(re.Refuge != Canary || w.allAt(0), "rolled back at %v", w.routes)
	if r.runs(StagePromote) {
		w.check(w.tracks[Primary].template.Hash == "p-v1", "rolled back with the primary on %s", w.tracks[Primary].template.Hash)
	}
	if r.beganOnPrimary() && !re.Stay {
		w.check(re.Refuge == Primary && w.allAt(100), "it began on the primary and ended with it on %v", w.routes)
	}
}
