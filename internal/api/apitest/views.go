package apitest

import (
	"math"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
	"github.com/shifter-dev/shifter/internal/release"
)

// Now is the time of the made-up world in goldens.
func Now() time.Time { return time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC) }

const (
	oldHash = "6f7c5d9b84"
	newHash = "7d9fb6c4d5"
)

// world makes views that are seen at a time.
type world struct{ now time.Time }

// ago is a time before now.
func (w world) ago(d time.Duration) time.Time { return w.now.Add(-d) }

// Names lists the states in the order of [Views].
func Names() []string {
	return []string{
		"pending", "growing", "gating", "soak", "held", "retreating", "draining",
		"succeeded", "rolledback", "aborted", "failed", "rejected",
	}
}

// Views makes one release in each state, each with a name of its own.
func Views(now time.Time) []release.View {
	out := make([]release.View, 0, len(Names()))
	for _, n := range Names() {
		out = append(out, View(n, now))
	}
	return out
}

// View makes a release in a state of [Names].
func View(state string, now time.Time) release.View {
	w := world{now: now}
	switch state {
	case "pending":
		return w.pending()
	case "growing":
		return w.growing()
	case "gating":
		return w.gating()
	case "soak":
		return w.soak()
	case "held":
		return w.held()
	case "retreating":
		return w.retreating()
	case "draining":
		return w.draining()
	case "succeeded":
		return w.succeeded()
	case "rolledback":
		return w.rolledBack()
	case "aborted":
		return w.aborted()
	case "failed":
		return w.failed()
	case "rejected":
		return w.rejected()
	}
	panic("apitest: no state " + state)
}

// Record is the release of a view as a journal keeps it.
func Record(v release.View) release.Record {
	return release.Record{Release: v.Release, Version: "1"}
}

func template(hash string) release.Template {
	if hash == oldHash {
		return release.Template{Hash: oldHash, UID: "rs-old", Revision: 41, Images: map[string]string{"app": "registry.example/shop/checkout:v1.9.4"}}
	}
	return release.Template{Hash: newHash, UID: "rs-new", Revision: 42, Images: map[string]string{"app": "registry.example/shop/checkout:v2.0.0"}}
}

// base is a release that was just accepted.
func (w world) base(name string, age time.Duration) release.Release {
	created := w.ago(age)
	old := template(oldHash)
	spec := release.Spec{
		Routes: []release.RouteRef{{Kind: "HTTPRoute", Namespace: "shop", Name: "checkout", Rules: []string{"main"}}},
		Tracks: [2]release.TrackSpec{
			release.Primary: {Service: "checkout", Port: 8080, Deployment: "checkout"},
			release.Canary:  {Service: "checkout-canary", Port: 8080, Deployment: "checkout-canary"},
		},
		Cause: release.Cause{CI: "github", Run: "4711", Actor: "mira", Commit: "9f2c1ab", Reason: "weekly release"},
	}.WithDefaults()
	r := release.Release{
		Schema: release.Schema, Key: release.Key{Namespace: "shop", Name: name}, UID: "0b6f9a52-" + name,
		Created: created, Subject: "ci/checkout", Spec: spec,
		Binding: release.Binding{
			Key: release.Key{Namespace: "shop", Name: name},
			Routes: []release.BoundRoute{{
				Ref: spec.Routes[0], UID: "route-" + name, Rules: []string{"main"},
				Split: []release.Pair{{Primary: 0, Canary: 100}}, Accepted: release.AcceptedYes, Epoch: 3,
			}},
			Tracks: [2]release.BoundTrack{
				release.Primary: {Namespace: "shop", Deployment: "checkout", UID: "dep-p-" + name, Replicas: 4, Template: template(newHash), UndoTo: &old, Service: "checkout", Port: 8080},
				release.Canary:  {Namespace: "shop", Deployment: "checkout-canary", UID: "dep-c-" + name, Replicas: 4, Template: template(newHash), Service: "checkout-canary", Port: 8080},
			},
			Full: 4, Metrics: spec.Metrics, Scrape: 15 * time.Second,
		},
		Stage: release.StageShift,
		Plan:  []release.Step{{Share: 10}, {Share: 25}, {Share: 50}, {Share: 100}},
		Phase: release.Pending, Reason: release.ReasonAccepted, Since: created, Suspect: newHash, Revision: 1,
	}
	w.tell(&r, age, release.Pending, release.ReasonAccepted, "Accepted: move HTTPRoute shop/checkout to checkout in 4 steps.", "ci/checkout")
	return r
}

func (w world) tell(r *release.Release, ago time.Duration, p release.Phase, why release.Reason, text, subject string) {
	r.Seq++
	r.Revision++
	r.History = append(r.History, release.Event{Seq: r.Seq, At: w.ago(ago), Phase: p, Reason: why, Text: text, Subject: subject})
}

// step is a finished step that began ago.
func (w world) step(share float64, ago time.Duration, replicas [2]int, v *analysis.Verdict) release.StepRecord {
	s := release.StepRecord{
		Share: share, Started: w.ago(ago), Written: w.ago(ago - 4*time.Second), Declared: w.ago(ago - 5*time.Second),
		Accepted: w.ago(ago - 6*time.Second), Shown: w.ago(ago - 21*time.Second), ShownBy: release.ShownByData,
		Verdict: v, Replicas: replicas,
	}
	if v != nil && v.Outcome == analysis.Pass {
		s.Passed = v.At
	}
	return s
}

func verdict(o analysis.Outcome, why analysis.Reason, share float64, at time.Time, c, b analysis.Counts) *analysis.Verdict {
	v := &analysis.Verdict{
		Outcome: o, Reason: why, Metric: analysis.MetricErrors, At: at, Data: at.Add(-10 * time.Second), Share: share,
		Candidate: c, Baseline: b, SeenCandidate: c.Add(analysis.Counts{Requests: 40}), SeenBaseline: b.Add(analysis.Counts{Requests: 40}), Margin: .005 * math.Max(1, 50/share),
		LogFail: -1.2, LogFailRaw: -1.1, LogFailAt: math.Log(100), LogPass: 3.4, LogPassAt: math.Log(20),
		Dispersion: 1, Scrapes: 20, Elapsed: 5 * time.Minute, Left: 25 * time.Minute,
		Harm: analysis.Interval{Low: -3.1, Mid: .4, High: 4.2},
	}
	pc, okc := c.Rate()
	pb, okb := b.Rate()
	if okc && okb {
		half := 1.96 * math.Sqrt((pc*(1-pc)+1e-5)/c.Requests+(pb*(1-pb)+1e-5)/b.Requests)
		v.Delta = &analysis.Interval{Low: micro(pc - pb - half), Mid: micro(pc - pb), High: micro(pc - pb + half)}
	}
	return v
}

// parts are the errors, and answers slower than 250 ms whose proof is not there
// yet.
func parts(v analysis.Verdict) []analysis.Part {
	slow := func(c analysis.Counts, share float64) analysis.Counts {
		return analysis.Counts{Requests: c.Requests, Bad: math.Round(c.Requests * share)}
	}
	c, b := slow(v.Candidate, .043), slow(v.Baseline, .041)
	return []analysis.Part{{
		Metric: analysis.MetricErrors, Weight: .588235, Rest: .3, LogFail: -1e6, LogPass: 3.3, Proves: true,
		Margin: v.Margin, Dispersion: 1, Candidate: v.Candidate, Baseline: v.Baseline,
		Copies: []analysis.CopyPart{{Weight: .4, Log: -1.4, Candidate: v.SeenCandidate, Baseline: v.SeenBaseline}},
	}, {
		Metric: analysis.Latency(.25).String(), Weight: .411765, Rest: .3, LogFail: -1e6, LogPass: v.LogPass, Proves: true,
		Margin: .01, Dispersion: 1.2, Candidate: c, Baseline: b,
		Copies: []analysis.CopyPart{{Weight: .4, Log: -.9, Candidate: c, Baseline: b}},
	}}
}

// micro rounds to a millionth, so that goldens are the same on every machine.
func micro(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// live makes a view of a release with both tracks as given.
func (w world) live(r release.Release, share float64, desired, ready, need [2]int) release.View {
	at := w.ago(2 * time.Second)
	in := r.Incoming()
	shares := [2]float64{}
	shares[in], shares[in.Other()] = share, 100-share
	v := release.View{
		Release: r, Live: true, AsOf: at,
		Declared: release.Known(share, at), Accepted: release.Known(release.AcceptedYes, at),
		Shown:   release.Unseen[analysis.Shown]("the weights have not been written yet"),
		Verdict: release.Unseen[analysis.Verdict](""),
		Drain:   release.Unseen[drain.State]("nothing drains"),
		Seq:     100 + r.Revision,
	}
	for t := release.Primary; t <= release.Canary; t++ {
		v.Tracks[t] = release.TrackView{
			Deployment: r.Spec.Tracks[t].Deployment, Service: r.Spec.Tracks[t].Service,
			Desired: release.Known(desired[t], at), Ready: release.Known(ready[t], at), Leaving: release.Known(0, at),
			Need: need[t], Template: release.Known(template(newHash), at), Share: shares[t],
		}
	}
	return v
}

func (w world) pending() release.View {
	r := w.base("checkout-4718", 4*time.Second)
	at := r.Created
	v := release.View{
		Release: r, AsOf: at,
		Declared: release.Unseen[float64]("not looked at yet"), Accepted: release.Unseen[release.Acceptance]("not looked at yet"),
		Shown: release.Unseen[analysis.Shown]("not looked at yet"), Verdict: release.Unseen[analysis.Verdict](""),
		Drain: release.Unseen[drain.State](""),
	}
	for t := release.Primary; t <= release.Canary; t++ {
		v.Tracks[t].Deployment, v.Tracks[t].Service = r.Spec.Tracks[t].Deployment, r.Spec.Tracks[t].Service
		v.Tracks[t].Desired = release.Unseen[int]("not looked at yet")
		v.Tracks[t].Ready = release.Unseen[int]("not looked at yet")
		v.Tracks[t].Leaving = release.Unseen[int]("not looked at yet")
		v.Tracks[t].Template = release.Unseen[release.Template]("not looked at yet")
	}
	return v
}

func (w world) growing() release.View {
	r := w.base("search-301", 40*time.Second)
	r.Phase, r.Reason, r.Since, r.Target = release.Growing, release.ReasonGrowing, w.ago(30*time.Second), 10
	r.Step = release.StepRecord{Share: 10, Started: w.ago(30 * time.Second)}
	w.tell(&r, 36*time.Second, release.Preflight, release.ReasonChecking, "Everything is as it was at admission.", "")
	w.tell(&r, 30*time.Second, release.Growing, release.ReasonGrowing, "Growing checkout to 4 for 10 %.", "")
	v := w.live(r, 0, [2]int{4, 4}, [2]int{1, 4}, [2]int{2, 4})
	v.Tracks[release.Primary].Trouble = []release.Trouble{{
		Kind: release.TroubleRetryable, Reason: "Unschedulable", Message: "0/6 nodes are available: insufficient cpu", Pod: "checkout-7d9fb6c4d5-x2x9k",
	}}
	v.Next = release.Next{Action: "10 % when the pods are ready", At: w.now.Add(4*time.Minute + 30*time.Second)}
	return v
}

// walk has passed 10 and 25 and is at 50.
func (w world) walk(name string) release.Release {
	r := w.base(name, 13*time.Minute)
	p10 := verdict(analysis.Pass, analysis.Certified, 10, w.ago(7*time.Minute+20*time.Second), analysis.Counts{Requests: 6120, Bad: 3}, analysis.Counts{Requests: 55210, Bad: 31})
	p25 := verdict(analysis.Pass, analysis.Certified, 25, w.ago(2*time.Minute+10*time.Second), analysis.Counts{Requests: 15040, Bad: 8}, analysis.Counts{Requests: 45320, Bad: 25})
	r.Steps = []release.StepRecord{
		w.step(10, 12*time.Minute+40*time.Second, [2]int{4, 4}, p10),
		w.step(25, 7*time.Minute+19*time.Second, [2]int{4, 4}, p25),
	}
	r.StepIx, r.Target, r.Last, r.Passed, r.Verdict = 2, 50, 25, 25, p25
	w.tell(&r, 12*time.Minute+50*time.Second, release.Preflight, release.ReasonChecking, "Everything is as it was at admission.", "")
	w.tell(&r, 12*time.Minute+36*time.Second, release.Shifting, release.ReasonWriting, "Weights 0/100 -> 10/90 on HTTPRoute shop/checkout.", "")
	w.tell(&r, 12*time.Minute+19*time.Second, release.Gating, release.ReasonGathering, "The data plane shows 10 %.", "")
	w.tell(&r, 7*time.Minute+20*time.Second, release.Gating, release.ReasonGatePassed, "10 % passed: 3 of 6,120 bad against 31 of 55,210.", "")
	w.tell(&r, 7*time.Minute+15*time.Second, release.Shifting, release.ReasonWriting, "Weights 10/90 -> 25/75 on HTTPRoute shop/checkout.", "")
	w.tell(&r, 2*time.Minute+10*time.Second, release.Gating, release.ReasonGatePassed, "25 % passed: 8 of 15,040 bad against 25 of 45,320.", "")
	w.tell(&r, 2*time.Minute+5*time.Second, release.Shifting, release.ReasonWriting, "Weights 25/75 -> 50/50 on HTTPRoute shop/checkout; checkout-canary 4 -> 4.", "")
	return r
}

func (w world) gating() release.View {
	r := w.walk("checkout-4711")
	r.Phase, r.Reason, r.Since = release.Gating, release.ReasonGathering, w.ago(100*time.Second)
	r.Step = w.step(50, 2*time.Minute+9*time.Second, [2]int{}, nil)
	r.ExposedUntil = w.now.Add(107 * time.Minute)
	w.tell(&r, 100*time.Second, release.Gating, release.ReasonGathering, "The data plane shows 50 %.", "")
	v := w.live(r, 50, [2]int{4, 4}, [2]int{4, 4}, [2]int{3, 4})
	v.Shown = release.Known(analysis.Shown{Status: analysis.ShownYes, Share: 49.7, Requests: 19840, Need: 159, At: w.ago(12 * time.Second)}, w.ago(2*time.Second))
	g := verdict(analysis.Inconclusive, analysis.NotCertified, 50, w.ago(2*time.Second), analysis.Counts{Requests: 10120, Bad: 7}, analysis.Counts{Requests: 10084, Bad: 6})
	g.Notes = []string{"it is not proven yet that the candidate is within the margins"}
	g.LogPass, g.LogFail, g.Elapsed, g.Left, g.Scrapes = 1.9, -.8, 100*time.Second, 28*time.Minute+20*time.Second, 6
	g.Parts, g.SafetyAt = parts(*g), .25
	v.Verdict = release.Known(*g, g.At)
	v.Next = release.Next{Action: "100 % on a pass; the policy for no verdict when the window is over", At: w.now.Add(28*time.Minute + 20*time.Second)}
	return v
}

func (w world) soak() release.View {
	r := w.walk("cart-88")
	p50 := verdict(analysis.Pass, analysis.Certified, 50, w.ago(90*time.Second), analysis.Counts{Requests: 30120, Bad: 17}, analysis.Counts{Requests: 30084, Bad: 16})
	r.Steps = append(r.Steps, w.step(50, 2*time.Minute+9*time.Second, [2]int{4, 3}, p50))
	r.StepIx, r.Target, r.Last, r.Passed, r.Verdict = 3, 100, 50, 50, p50
	r.Phase, r.Reason, r.Since = release.Gating, release.ReasonGathering, w.ago(60*time.Second)
	r.Step = w.step(100, 85*time.Second, [2]int{}, nil)
	w.tell(&r, 60*time.Second, release.Gating, release.ReasonGathering, "The data plane shows 100 %; the soak guard watches.", "")
	v := w.live(r, 100, [2]int{4, 3}, [2]int{4, 3}, [2]int{4, 0})
	v.Shown = release.Known(analysis.Shown{Status: analysis.ShownYes, Share: 100, Requests: 12010, Need: 159, At: w.ago(12 * time.Second)}, w.ago(2*time.Second))
	g := verdict(analysis.Inconclusive, analysis.Soaking, 100, w.ago(2*time.Second), analysis.Counts{Requests: 12010, Bad: 6}, analysis.Counts{})
	g.LogPass, g.LogPassAt, g.Margin, g.LogFail, g.LogGuard, g.GuardRate = 0, 0, 0, -1e6, -2.2, .0062
	g.Notes = []string{"1m0s of 5m0s soaked"}
	g.Elapsed, g.Left = time.Minute, 29*time.Minute
	v.Verdict = release.Known(*g, g.At)
	v.Next = release.Next{Action: "the drain when the soak is over", At: w.now.Add(4 * time.Minute)}
	return v
}

func (w world) held() release.View {
	r := w.walk("payments-12")
	r.Steps = r.Steps[:1]
	r.StepIx, r.Target, r.Last, r.Passed, r.Verdict = 1, 25, 10, 10, r.Steps[0].Verdict
	r.History = r.History[:6]
	r.Step = w.step(25, 7*time.Minute+19*time.Second, [2]int{}, nil)
	r.Phase, r.Reason, r.Since = release.Held, release.ReasonTelemetry, w.ago(70*time.Second)
	r.Hold = &release.Hold{
		Class: release.ClassTelemetryUnavailable, From: release.Gating, Since: w.ago(70 * time.Second),
		Until: w.now.Add(8*time.Minute + 50*time.Second), Then: release.Response{Do: release.DoRollback},
	}
	w.tell(&r, 70*time.Second, release.Held, release.ReasonTelemetry, "No fresh sample for 2m15s: the metrics API answers 503. Held; the traffic stays at 25 %.", "")
	v := w.live(r, 25, [2]int{4, 4}, [2]int{4, 4}, [2]int{2, 4})
	v.Shown = release.Known(analysis.Shown{Status: analysis.ShownUnknown, Need: 268, At: w.ago(3 * time.Minute), Silent: []string{"istio-ingressgateway-5c9d"}}, w.ago(2*time.Second))
	g := verdict(analysis.Inconclusive, analysis.TelemetryUnavailable, 25, w.ago(2*time.Second), analysis.Counts{Requests: 4020, Bad: 2}, analysis.Counts{Requests: 12010, Bad: 7})
	g.Data, g.LogPass, g.Scrapes, g.Notes = w.ago(3*time.Minute), 1.1, 5, []string{"the newest sample is 3m0s old"}
	v.Verdict = release.Known(*g, g.At)
	v.Trouble = "the metrics source answered 503 Service Unavailable"
	v.Next = release.Next{Action: "roll back, unless the cause clears", At: r.Hold.Until}
	return v
}

// bad has failed at 50 and goes back.
func (w world) bad(name string) release.Release {
	r := w.walk(name)
	f := verdict(analysis.Fail, analysis.Regression, 50, w.ago(80*time.Second), analysis.Counts{Requests: 2010, Bad: 98}, analysis.Counts{Requests: 1998, Bad: 1})
	f.LogFail, f.LogFailRaw, f.LogPass, f.Material, f.Scrapes = 5.31, 5.31, -14.2, true, 4
	f.Harm = analysis.Interval{Low: 71.2, Mid: 96.9, High: 121.5}
	f.Elapsed, f.Left = 45*time.Second, 29*time.Minute
	r.Steps = append(r.Steps, w.step(50, 2*time.Minute+9*time.Second, [2]int{4, 4}, f))
	r.Step = release.StepRecord{}
	r.Verdict = f
	r.Retreat = &release.Retreat{
		Why: release.ReasonGateFailed, Ends: release.RolledBack, Mode: release.ModeGraceful, Refuge: release.Canary,
		Suspect: newHash, Began: w.ago(80 * time.Second), From: 50,
	}
	r.Phase, r.Reason, r.Since, r.Target, r.Last = release.Retreating, release.ReasonGateFailed, w.ago(80*time.Second), 0, 50
	w.tell(&r, 100*time.Second, release.Gating, release.ReasonGathering, "The data plane shows 50 %.", "")
	w.tell(&r, 80*time.Second, release.Retreating, release.ReasonGateFailed, "50 % failed: 98 of 2,010 bad against 1 of 1,998. The traffic goes back to checkout-canary.", "")
	return r
}

func (w world) retreating() release.View {
	r := w.bad("profile-7")
	v := w.live(r, 50, [2]int{4, 4}, [2]int{4, 3}, [2]int{3, 4})
	v.Verdict = release.Known(*r.Verdict, r.Verdict.At)
	v.Next = release.Next{Action: "the drain, when all traffic is shown on the refuge", At: w.now.Add(3*time.Minute + 40*time.Second)}
	return v
}

func (w world) draining() release.View {
	r := w.bad("checkout-4709")
	r.Retreat.Moved, r.Retreat.Shown = w.ago(72*time.Second), w.ago(50*time.Second)
	r.Phase, r.Reason, r.Since = release.Draining, release.ReasonDraining, w.ago(50*time.Second)
	w.tell(&r, 72*time.Second, release.Retreating, release.ReasonWriting, "Weights 50/50 -> 0/100 on HTTPRoute shop/checkout.", "")
	w.tell(&r, 50*time.Second, release.Draining, release.ReasonDraining, "The data plane shows 0 %; checkout drains.", "")
	v := w.live(r, 0, [2]int{4, 4}, [2]int{4, 4}, [2]int{0, 4})
	v.Shown = release.Known(analysis.Shown{Status: analysis.ShownYes, Share: 0, Requests: 9800, Need: 159, At: w.ago(12 * time.Second)}, w.ago(2*time.Second))
	v.Verdict = release.Known(*r.Verdict, r.Verdict.At)
	v.Drain = release.Known(drain.State{
		Status: drain.Draining, Source: drain.SourceApp, Since: w.ago(50 * time.Second), At: w.ago(3 * time.Second), Took: 47 * time.Second,
		InFlight: 3, New: 0, Quiet: 32 * time.Second, Window: 30 * time.Second,
		Pods: []drain.PodSignal{{Pod: "checkout-7d9fb6c4d5-2kq7x", InFlight: 1}, {Pod: "checkout-7d9fb6c4d5-8hhsn", InFlight: 2}, {Pod: "checkout-7d9fb6c4d5-qq2lm", InFlight: 0}, {Pod: "checkout-7d9fb6c4d5-zx81d", InFlight: 0}},
		Why:  "no new request for 32s; 3 requests are still in flight",
	}, w.ago(2*time.Second))
	v.Next = release.Next{Action: "going on when nothing is in flight", At: w.now.Add(9*time.Minute + 10*time.Second)}
	return v
}

func (w world) rolledBack() release.View {
	r := w.bad("checkout-4702")
	w.shiftBack(&r, 20*time.Minute)
	r.Retreat.Moved, r.Retreat.Shown = w.ago(21*time.Minute), w.ago(20*time.Minute+40*time.Second)
	r.Retreat.Drained, r.Retreat.Undone = w.ago(19*time.Minute+50*time.Second), w.ago(19*time.Minute)
	r.Drain = &drain.State{
		Status: drain.Drained, Source: drain.SourceApp, Since: w.ago(20*time.Minute + 40*time.Second), At: w.ago(19*time.Minute + 50*time.Second),
		Took: 50 * time.Second, Quiet: 45 * time.Second, Window: 30 * time.Second, Why: "no new request for 45s and none in flight, seen twice on all 4 pods",
	}
	r.Phase, r.Reason, r.Since, r.Ended = release.RolledBack, release.ReasonGateFailed, w.ago(18*time.Minute), w.ago(18*time.Minute)
	r.Message = "50 % failed on its evidence: 98 of 2,010 requests bad against 1 of 1,998. Everything is back and verified."
	r.Unverified = []string{"the error rate after the undo: fewer than 300 requests were seen"}
	w.tell(&r, 21*time.Minute, release.Retreating, release.ReasonWriting, "Weights 50/50 -> 0/100 on HTTPRoute shop/checkout.", "")
	w.tell(&r, 19*time.Minute+50*time.Second, release.Draining, release.ReasonDraining, "Drained after 50s.", "")
	w.tell(&r, 19*time.Minute, release.Undoing, release.ReasonUndoing, "checkout is back on v1.9.4 (revision 41).", "")
	w.tell(&r, 18*time.Minute, release.RolledBack, release.ReasonGateFailed, "Rolled back and verified.", "")
	v := w.live(r, 0, [2]int{4, 4}, [2]int{4, 4}, [2]int{0, 4})
	v.Shown = release.Known(analysis.Shown{Status: analysis.ShownYes, Share: 0, Requests: 9800, Need: 159, At: w.ago(18 * time.Minute)}, v.AsOf)
	v.Tracks[release.Primary].Template = release.Known(template(oldHash), v.AsOf)
	return v
}

// shiftBack makes everything that was told happen earlier.
func (w world) shiftBack(r *release.Release, by time.Duration) {
	early := func(ts ...*time.Time) {
		for _, t := range ts {
			if !t.IsZero() {
				*t = t.Add(-by)
			}
		}
	}
	early(&r.Created, &r.Since)
	for i := range r.History {
		early(&r.History[i].At)
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		early(&s.Started, &s.Written, &s.Declared, &s.Accepted, &s.Shown, &s.Passed)
		if s.Verdict != nil {
			c := *s.Verdict
			early(&c.At, &c.Data)
			s.Verdict = &c
		}
	}
	if r.Retreat != nil {
		early(&r.Retreat.Began)
	}
}

func (w world) succeeded() release.View {
	r := w.walk("checkout-4698")
	p50 := verdict(analysis.Pass, analysis.Certified, 50, w.ago(-3*time.Minute), analysis.Counts{Requests: 30120, Bad: 17}, analysis.Counts{Requests: 30084, Bad: 16})
	p100 := verdict(analysis.Pass, analysis.SoakClean, 100, w.ago(-8*time.Minute-30*time.Second), analysis.Counts{Requests: 60010, Bad: 31}, analysis.Counts{})
	p100.LogGuard, p100.GuardRate, p100.LogPass, p100.LogPassAt, p100.Margin, p100.LogFail = -4.2, .0062, 0, 0, 0, -1e6
	r.Steps = append(r.Steps,
		w.step(50, 2*time.Minute+9*time.Second, [2]int{4, 4}, p50),
		w.step(100, -3*time.Minute-1*time.Second, [2]int{4, 3}, p100))
	r.Step = release.StepRecord{}
	w.shiftBack(&r, time.Hour)
	r.Steps[2].Passed, r.Steps[3].Passed = r.Steps[2].Verdict.At, r.Steps[3].Verdict.At
	r.StepIx, r.Target, r.Last, r.Passed, r.Verdict = 3, 100, 50, 100, r.Steps[3].Verdict
	r.Drain = &drain.State{
		Status: drain.Drained, Source: drain.SourceInbound, Since: w.ago(51*time.Minute + 28*time.Second), At: w.ago(50*time.Minute + 50*time.Second),
		Took: 38 * time.Second, Quiet: 38 * time.Second, Window: 30 * time.Second, Why: "no new request for 38s and none in flight, seen twice on all 3 pods",
	}
	r.Phase, r.Reason, r.Since, r.Ended = release.Succeeded, release.ReasonCompleted, w.ago(50*time.Minute), w.ago(50*time.Minute)
	w.tell(&r, 57*time.Minute, release.Gating, release.ReasonGatePassed, "50 % passed: 17 of 30,120 bad against 16 of 30,084.", "")
	w.tell(&r, 51*time.Minute+30*time.Second, release.Gating, release.ReasonGatePassed, "100 % passed: the soak stayed clean over 60,010 requests.", "")
	w.tell(&r, 50*time.Minute+50*time.Second, release.Draining, release.ReasonDraining, "checkout-canary drained after 38s.", "")
	w.tell(&r, 50*time.Minute+20*time.Second, release.Shrinking, release.ReasonShrinking, "checkout-canary 3 -> 0.", "")
	w.tell(&r, 50*time.Minute, release.Succeeded, release.ReasonCompleted, "The traffic is on checkout at 100 %; everything was confirmed.", "")
	v := w.live(r, 100, [2]int{4, 0}, [2]int{4, 0}, [2]int{4, 0})
	v.Shown = release.Known(analysis.Shown{Status: analysis.ShownYes, Share: 100, Requests: 60010, Need: 159, At: w.ago(51 * time.Minute)}, w.ago(50*time.Minute))
	return v
}

func (w world) aborted() release.View {
	r := w.walk("search-299")
	w.shiftBack(&r, 3*time.Hour)
	r.Retreat = &release.Retreat{
		Why: release.ReasonAbortRequested, Ends: release.Aborted, Mode: release.ModeImmediate, Refuge: release.Canary, Suspect: newHash,
		Began: w.ago(181 * time.Minute), Moved: w.ago(181*time.Minute - time.Second), Shown: w.ago(180*time.Minute + 30*time.Second),
		Drained: w.ago(179*time.Minute + 30*time.Second), Undone: w.ago(179 * time.Minute), From: 50, Reason: "wrong build",
	}
	r.Drain = &drain.State{Status: drain.Assumed, Source: drain.SourceNone, Since: w.ago(180*time.Minute + 30*time.Second), At: w.ago(179*time.Minute + 30*time.Second), Took: time.Minute, Why: "nothing tells what is in flight; the longest request (60s) was waited out"}
	r.Phase, r.Reason, r.Since, r.Ended, r.Target = release.Aborted, release.ReasonAbortRequested, w.ago(178*time.Minute), w.ago(178*time.Minute), 0
	w.tell(&r, 181*time.Minute, release.Retreating, release.ReasonAbortRequested, "Abort asked for: wrong build.", "mira")
	w.tell(&r, 178*time.Minute, release.Aborted, release.ReasonAbortRequested, "Aborted; the traffic is back on checkout-canary.", "")
	v := w.live(r, 0, [2]int{4, 4}, [2]int{4, 4}, [2]int{0, 4})
	v.Tracks[release.Primary].Template = release.Known(template(oldHash), v.AsOf)
	return v
}

func (w world) failed() release.View {
	r := w.bad("billing-3")
	w.shiftBack(&r, 25*time.Minute)
	r.Retreat.Moved, r.Retreat.Shown = w.ago(26*time.Minute), w.ago(25*time.Minute+30*time.Second)
	r.Retreat.Drained = w.ago(15*time.Minute + 30*time.Second)
	r.Drain = &drain.State{
		Status: drain.Forced, Source: drain.SourceApp, Since: w.ago(25*time.Minute + 30*time.Second), At: w.ago(15*time.Minute + 30*time.Second),
		Took: 10 * time.Minute, InFlight: 2, Cut: 2, Quiet: 9 * time.Minute, Window: 30 * time.Second, Why: "the deadline passed with 2 requests in flight and none new",
	}
	r.Phase, r.Reason, r.Since, r.Ended, r.NeedsHuman = release.Failed, release.ReasonUndoSkipped, w.ago(15*time.Minute), w.ago(15*time.Minute), true
	r.Message = "The traffic is safe on checkout-canary, but shifter may not patch Deployment checkout, so it still has v2.0.0."
	w.tell(&r, 15*time.Minute, release.Failed, release.ReasonUndoSkipped, "The template of checkout could not be undone: forbidden.", "")
	return w.live(r, 0, [2]int{4, 4}, [2]int{4, 4}, [2]int{0, 4})
}

func (w world) rejected() release.View {
	r := w.base("mail-1", 26*time.Hour)
	r.Phase, r.Reason, r.Since, r.Ended = release.Rejected, release.ReasonNotSound, w.ago(26*time.Hour-5*time.Second), w.ago(26*time.Hour-5*time.Second)
	r.Message = "HTTPRoute shop/checkout has lost its rule main since the request; nothing was touched."
	w.tell(&r, 26*time.Hour-5*time.Second, release.Rejected, release.ReasonNotSound, "Rule main is gone.", "")
	return RecordOnly(r)
}

// RecordOnly is a view as a standby has it.
func RecordOnly(r release.Release) release.View {
	const why = "not run by this copy"
	v := release.View{
		Release: r, AsOf: r.Since,
		Declared: release.Unseen[float64](why), Accepted: release.Unseen[release.Acceptance](why),
		Shown: release.Unseen[analysis.Shown](why), Verdict: release.Unseen[analysis.Verdict](why), Drain: release.Unseen[drain.State](why),
	}
	for t := release.Primary; t <= release.Canary; t++ {
		v.Tracks[t] = release.TrackView{
			Deployment: r.Spec.Tracks[t].Deployment, Service: r.Spec.Tracks[t].Service,
			Desired: release.Unseen[int](why), Ready: release.Unseen[int](why), Leaving: release.Unseen[int](why),
			Template: release.Unseen[release.Template](why),
		}
	}
	return v
}
