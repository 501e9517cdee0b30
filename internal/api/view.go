package api

import (
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
	"github.com/shifter-dev/shifter/internal/release"
)

// notLive is why a record alone has no live numbers.
const notLive = "this is the record alone; the release is not run by this copy of shifter"

// RecordView makes a view of a record without live numbers.
func RecordView(r release.Release) release.View {
	v := release.View{
		Release:  r,
		AsOf:     lastChange(r),
		Declared: release.Unseen[float64](notLive),
		Accepted: release.Unseen[release.Acceptance](notLive),
		Shown:    release.Unseen[analysis.Shown](notLive),
		Verdict:  release.Unseen[analysis.Verdict]("no step has been judged yet"),
		Drain:    release.Unseen[drain.State](notLive),
	}
	for t := release.Primary; t <= release.Canary; t++ {
		v.Tracks[t] = release.TrackView{
			Deployment: r.Spec.Tracks[t].Deployment,
			Service:    r.Spec.Tracks[t].Service,
			Desired:    release.Unseen[int](notLive),
			Ready:      release.Unseen[int](notLive),
			Leaving:    release.Unseen[int](notLive),
			Template:   release.Unseen[release.Template](notLive),
		}
	}
	return v
}

func lastChange(r release.Release) time.Time {
	last := r.Created
	for _, t := range []time.Time{r.Since, r.Ended} {
		if t.After(last) {
			last = t
		}
	}
	if n := len(r.History); n > 0 && r.History[n-1].At.After(last) {
		last = r.History[n-1].At
	}
	return last
}

// FromView makes the answer about a release. Base is put before every link and
// is empty for links on this host.
func FromView(v release.View, base string) Release {
	r := v.Release
	return Release{
		Name: r.Key.Name, Namespace: r.Key.Namespace, UID: r.UID,
		Created: timeOrNil(r.Created), Subject: r.Subject,
		Spec: fromSpec(r.Spec), Status: fromStatus(v), Steps: fromSteps(r), History: fromHistory(r.History),
		Links: LinksOf(r.Key, base), Revision: r.Revision,
	}
}

// LinksOf returns the links of a release.
func LinksOf(k release.Key, base string) Links {
	base = strings.TrimSuffix(base, "/")
	path := "/namespaces/" + url.PathEscape(k.Namespace) + "/releases/" + url.PathEscape(k.Name)
	self := base + "/v1" + path
	return Links{Self: self, Page: base + path, Events: self + "/events", Verdict: self + "/verdict", Abort: self + "/abort"}
}

func fromSpec(s release.Spec) Spec {
	p, c := s.Tracks[release.Primary], s.Tracks[release.Canary]
	out := Spec{
		Routes:  []RouteSpec{},
		Primary: TrackSpec{Service: p.Service, Port: portOrNil(p.Port), Subset: p.Subset, Deployment: p.Deployment},
		Canary: CanarySpec{
			Service: c.Service, Port: portOrNil(c.Port), Subset: c.Subset, Deployment: c.Deployment,
			EndReplicas: s.EndReplicas,
		},
		Stages:    strs(s.Stages),
		Steps:     append([]float64{}, s.Steps...),
		Plan:      s.Plan,
		Copy:      s.Copy,
		Shrink:    string(s.Shrink),
		Size:      SizeSpec{Headroom: s.Size.Headroom, MinReplicas: s.Size.MinReplicas},
		Gates:     fromSettings(s.Gate),
		Deadlines: fromDeadlines(s),
		Allow:     strs(s.Allow),
		Preset:    s.Preset,
		Metrics:   MetricsFromSpec{Source: s.Metrics.Source, Provider: s.Metrics.Provider},
		Cause:     CauseSpec(s.Cause),
	}
	if s.Holds > 0 {
		h := s.Holds.Seconds()
		out.Holds = &h
	}
	for _, r := range s.Routes {
		out.Routes = append(out.Routes, RouteSpec{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Rules: strs(r.Rules)})
	}
	return out
}

func fromSettings(g analysis.Settings) GatesSpec {
	return GatesSpec{
		Alpha: g.Alpha, AlphaPass: g.AlphaPass,
		MaxErrorRateDelta: g.MaxErrorRateDelta, MaxErrorRateRatio: g.MaxErrorRateRatio, Mode: string(g.Mode),
		MinRequests: g.MinRequests, MinBaselineRequests: g.MinBaselineRequests, MinScrapes: g.MinScrapes,
		MaxErrorRate: g.MaxErrorRate, EqualHarm: g.EqualHarm, ToleranceGuarantee: g.ToleranceGuarantee,
		MaxSlowShareDelta: g.MaxSlowShareDelta, MaxSlowShareRatio: g.MaxSlowShareRatio, RequireLatency: g.RequireLatency,
		Soak: g.Soak.Seconds(), MaxWindow: g.MaxWindow.Seconds(), TelemetryGrace: g.TelemetryGrace.Seconds(),
	}
}

func fromDeadlines(s release.Spec) DeadlinesSpec {
	d := s.Deadlines
	out := DeadlinesSpec{
		Preflight: d.Preflight.Seconds(), Grow: d.Grow.Seconds(), Settle: d.Settle.Seconds(),
		Shown: d.Shown.Seconds(), Write: d.Write.Seconds(), Drain: d.Drain.Seconds(),
		Request: d.Request.Seconds(), Undo: d.Undo.Seconds(), Confirm: d.Confirm.Seconds(),
		Exposure: d.Exposure.Seconds(),
	}
	if slices.Contains(s.Stages, release.StagePromote) {
		out.Promote, out.Steady = d.Promote.Seconds(), d.Steady.Seconds()
	}
	return out
}

func fromStatus(v release.View) Status {
	r := v.Release
	why := reasons{}
	s := Status{
		Phase: string(r.Phase), Reason: string(r.Reason), Message: sentence(r),
		Ended: timeOrNil(r.Ended), NeedsHuman: r.NeedsHuman, Unverified: strs(r.Unverified), Since: r.Since,
		Stage: string(r.Stage), Step: stepNumber(r), Plan: []PlannedStep{},
		Incoming: r.Incoming().String(), Outgoing: r.Outgoing().String(),
		Share: fromShare(v), Full: r.Binding.Full,
		Tracks: Tracks{Primary: fromTrack(v, release.Primary), Canary: fromTrack(v, release.Canary)},
		Drain:  fromDrain(v), Retreat: fromRetreat(r.Retreat), Hold: fromHold(r.Hold),
		Promotion:    fromPromotion(r.Promotion),
		ExposedUntil: timeOrNil(r.ExposedUntil), Next: fromNext(v.Next),
		Live: v.Live, AsOf: v.AsOf, Trouble: v.Trouble,
	}
	for _, p := range r.Plan {
		s.Plan = append(s.Plan, PlannedStep{Share: p.Share, Present: p.Present})
	}
	verdict, reason := lastVerdict(v)
	if verdict == nil {
		why["gate"], why["harm"] = reason, reason
	} else {
		s.Gate = fromVerdict(*verdict, r.Spec.Gate)
		h := interval(verdict.Harm)
		s.Harm = &h
	}
	if r.Phase.Terminal() {
		s.Next, s.ExposedUntil = nil, nil
	}
	s.Unknown = why.orNil()
	return s
}

// sentence is the release's own message, else its reason's.
func sentence(r release.Release) string {
	if r.Message != "" {
		return r.Message
	}
	return r.Reason.Sentence()
}

func stepNumber(r release.Release) StepNumber {
	n := StepNumber{N: r.StepIx + 1, Of: len(r.Plan), Share: r.Target}
	if r.StepIx < 0 || len(r.Plan) == 0 {
		n.N = 0
		return n
	}
	n.N = min(n.N, n.Of)
	n.Share = r.Plan[n.N-1].Share
	return n
}

// lastVerdict is the live verdict, else the last one that mattered.
func lastVerdict(v release.View) (*analysis.Verdict, string) {
	switch {
	case v.Verdict.Ok():
		return &v.Verdict.Val, ""
	case v.Release.Verdict != nil:
		return v.Release.Verdict, ""
	case v.Verdict.Why != "":
		return nil, v.Verdict.Why
	}
	return nil, "no step has been judged yet"
}

func fromShare(v release.View) Share {
	r := v.Release
	why := reasons{}
	s := Share{
		Start: startShare(r), Target: r.Target, Passed: r.Passed,
		Declared: known(why, "declared", v.Declared), DeclaredAt: timeOrNil(v.Declared.At),
		ShownIs: string(analysis.ShownUnknown), ShownBy: string(r.ShownBy), ShownSince: timeOrNil(r.Shown),
		Lagging: []string{}, Silent: []string{},
	}
	if v.Accepted.Ok() {
		a := string(v.Accepted.Val)
		s.Accepted = &a
	} else {
		why.add("accepted", v.Accepted.Why)
	}
	if !v.Shown.Ok() {
		why.add("shown", v.Shown.Why)
		s.Unknown = why.orNil()
		return s
	}
	sh := v.Shown.Val
	if sh.Status != "" {
		s.ShownIs = string(sh.Status)
	}
	s.ShownAt, s.Lagging, s.Silent = timeOrNil(sh.At), strs(sh.Lagging), strs(sh.Silent)
	requests, need := finite(sh.Requests), finite(sh.Need)
	s.Requests, s.Need = &requests, &need
	if sh.Requests > 0 {
		share := finite(sh.Share)
		s.Shown = &share
	} else {
		why.add("shown", notCounted(v))
	}
	s.Unknown = why.orNil()
	return s
}

// startShare is the incoming track's share at admission, in the first rule; the
// rules of a release move together.
func startShare(r release.Release) float64 {
	for _, b := range r.Binding.Routes {
		for _, p := range b.Split {
			return p.Share(r.Incoming())
		}
	}
	return 0
}

func fromTrack(v release.View, t release.Track) TrackStatus {
	tv := v.Tracks[t]
	why := reasons{}
	out := TrackStatus{
		Deployment: tv.Deployment, Service: tv.Service,
		Desired: known(why, "desired", tv.Desired), Ready: known(why, "ready", tv.Ready),
		Leaving:  known(why, "leaving", tv.Leaving),
		Admitted: fromTemplate(v.Release.Binding.Tracks[t].Template),
		Trouble:  []Trouble{},
	}
	if v.Live {
		need := tv.Need
		out.Need = &need
	} else {
		why.add("need", notLive)
	}
	if v.Declared.Ok() {
		share := finite(tv.Share)
		out.Share = &share
	} else {
		why.add("share", v.Declared.Why)
	}
	if tv.Template.Ok() {
		tmpl := fromTemplate(tv.Template.Val)
		out.Template = &tmpl
	} else {
		why.add("template", tv.Template.Why)
	}
	for _, x := range tv.Trouble {
		out.Trouble = append(out.Trouble, Trouble{Kind: string(x.Kind), Reason: x.Reason, Message: x.Message, Pod: x.Pod})
	}
	out.Unknown = why.orNil()
	return out
}

func fromTemplate(t release.Template) Template {
	out := Template{Hash: t.Hash, Revision: t.Revision}
	if len(t.Images) > 0 {
		out.Images = make(map[string]string, len(t.Images))
		for c, image := range t.Images {
			out.Images[c] = image
		}
	}
	return out
}

// notCounted says why there is no share to show.
func notCounted(v release.View) string {
	switch {
	case v.Trouble != "":
		return "the telemetry does not answer: " + v.Trouble
	case len(v.Shown.Val.Silent) > 0:
		return "there are no fresh data of these proxies: " + strings.Join(v.Shown.Val.Silent, ", ")
	}
	return "no request has been counted since the weights were written"
}

func fromVerdict(v analysis.Verdict, s analysis.Settings) *Gate {
	g := &Gate{
		Outcome: string(v.Outcome), Reason: string(v.Reason), Sentence: gateSentence(v), Metric: v.Metric,
		Share: v.Share, At: timeOrNil(v.At), Data: timeOrNil(v.Data),
		Candidate: arm(v.Candidate, v.SeenCandidate, s.MinRequests), Baseline: arm(v.Baseline, v.SeenBaseline, s.MinBaselineRequests),
		Margin: finite(v.Margin), Fail: evidence(v.LogFail, v.LogFailAt), FailRaw: evidence(v.LogFailRaw, v.LogFailAt),
		Dispersion: finite(v.Dispersion), Scrapes: v.Scrapes, Material: v.Material,
		Elapsed: v.Elapsed.Seconds(), Left: v.Left.Seconds(), Notes: strs(v.Notes),
		SafetyAt: finite(v.SafetyAt), Parts: fromParts(v),
	}
	if v.Delta != nil {
		d := interval(*v.Delta)
		g.Delta = &d
	}
	if v.LogPassAt > 0 {
		p := evidence(v.LogPass, v.LogPassAt)
		g.Pass = &p
	} else if v.GuardRate > 0 {
		g.Guard = &Guard{Value: expOrNil(v.LogGuard), Log: finite(v.LogGuard), Rate: finite(v.GuardRate)}
	}
	return g
}

func arm(c, seen analysis.Counts, need float64) Arm {
	a := Arm{Requests: finite(c.Requests), Bad: finite(c.Bad), Need: need, Seen: finite(seen.Requests), SeenBad: finite(seen.Bad)}
	if rate, ok := c.Rate(); ok {
		rate = finite(rate)
		a.Rate = &rate
	}
	return a
}

func evidence(log, at float64) Evidence {
	e := Evidence{Value: expOrNil(log), Log: finite(log), LogAt: finite(at), Met: at > 0 && log >= at}
	if b := expOrNil(at); b != nil {
		e.Bound = *b
	}
	return e
}

// gateSentence says a verdict in words. A fail may be about more than errors.
func gateSentence(v analysis.Verdict) string {
	m, _ := analysis.MetricOf(v.Metric)
	if v.Reason == analysis.Regression && m.Kind == analysis.MetricLatency {
		return "The candidate answers more requests slowly, beyond chance and beyond the margins."
	}
	return gateSentences()[v.Reason]
}

func fromParts(v analysis.Verdict) []GatePart {
	out := make([]GatePart, 0, len(v.Parts))
	for _, p := range v.Parts {
		if p.Usage != nil {
			continue // nothing reads gauges yet
		}
		g := GatePart{
			Metric: p.Metric, Candidate: counts(p.Candidate), Baseline: counts(p.Baseline), Margin: finite(p.Margin),
			Fail: finite(p.LogFail), Proves: p.Proves, Dispersion: finite(p.Dispersion),
			Weight: finite(p.Weight), Rest: finite(p.Rest), Copies: []GateCopy{},
		}
		if v.LogPassAt > 0 {
			g.Pass = finite(p.LogPass)
		}
		if m, ok := analysis.MetricOf(p.Metric); ok && m.Kind == analysis.MetricLatency {
			g.Bound = &m.Bound
		}
		for _, c := range p.Copies {
			g.Copies = append(g.Copies, GateCopy{
				Weight: finite(c.Weight), Log: finite(c.Log), Material: c.Material, Candidate: counts(c.Candidate), Baseline: counts(c.Baseline),
			})
		}
		out = append(out, g)
	}
	return out
}

func counts(c analysis.Counts) Counts {
	return Counts{Requests: finite(c.Requests), Bad: finite(c.Bad)}
}

func gateSentences() map[analysis.Reason]string {
	return map[analysis.Reason]string{
		analysis.Certified:            "The candidate is not worse than the baseline by the margin.",
		analysis.SoakClean:            "The soak at full traffic stayed clean.",
		analysis.Regression:           "The candidate fails more requests, beyond chance and beyond the margins.",
		analysis.SafetyLimit:          "The candidate fails so many requests that no comparison is needed.",
		analysis.GuardAlarmAgain:      "The guard at full traffic rang a second time.",
		analysis.GuardAlarm:           "The guard at full traffic rang; a control is needed to judge it.",
		analysis.WarmingUp:            "The weights have just changed; there are too few scrapes with the new split.",
		analysis.InsufficientRequests: "Too few requests on the candidate so far.",
		analysis.InsufficientBaseline: "Too few requests on the baseline so far.",
		analysis.NotCertified:         "No sign of harm, and not yet the proof that there is none.",
		analysis.Soaking:              "No sign of harm so far; the soak is not over.",
		analysis.WindowExhausted:      "The window is over, and the evidence was not enough.",
		analysis.TelemetryGap:         "No fresh data; still within the grace.",
		analysis.TelemetryUnavailable: "No fresh data for longer than the grace.",
		analysis.TrafficMismatch:      "The requests do not split as the weights say, so the counts cannot be trusted.",
	}
}

func fromDrain(v release.View) *Drain {
	d := v.Release.Drain
	if v.Drain.Ok() {
		d = &v.Drain.Val
	}
	if d == nil || d.Status == "" {
		return nil
	}
	out := &Drain{
		Status: string(d.Status), Track: drained(v.Release).String(), Source: string(d.Source),
		Since: timeOrNil(d.Since), At: timeOrNil(d.At), Took: d.Took.Seconds(), Cut: finite(d.Cut),
		Quiet: d.Quiet.Seconds(), Window: d.Window.Seconds(),
		Pods: []PodsInFlight{}, Missing: strs(d.Missing), Senders: strs(d.Senders), Why: d.Why,
	}
	if d.Source == "" {
		out.Source = string(drain.SourceNone)
	}
	if !d.At.IsZero() {
		n := finite(d.New)
		out.New = &n
		if d.Source != drain.SourceNone && d.Source != "" {
			f := finite(d.InFlight)
			out.InFlight = &f
		}
	}
	for _, p := range d.Pods {
		out.Pods = append(out.Pods, PodsInFlight{Pod: p.Pod, InFlight: finite(p.InFlight)})
	}
	return out
}

// drained is the track that a drain is about: the recorded one, else in a
// retreat the one that is not the refuge, else the outgoing one.
func drained(r release.Release) release.Track {
	if r.Drained != nil {
		return *r.Drained
	}
	if r.Retreat != nil {
		return r.Retreat.Refuge.Other()
	}
	return r.Outgoing()
}

func fromRetreat(r *release.Retreat) *Retreat {
	if r == nil {
		return nil
	}
	return &Retreat{
		Why: string(r.Why), Sentence: r.Why.Sentence(), Reason: r.Reason, Ends: string(r.Ends), Mode: string(r.Mode),
		Refuge: r.Refuge.String(), Suspect: r.Suspect, From: r.From, Began: r.Began,
		Moved: timeOrNil(r.Moved), Shown: timeOrNil(r.Shown), Drained: timeOrNil(r.Drained),
		Undone: timeOrNil(r.Undone), Home: r.Home, Stay: r.Stay, Forced: r.Forced,
	}
}

func fromPromotion(p *release.Promotion) *Promotion {
	if p == nil {
		return nil
	}
	out := &Promotion{Images: maps.Clone(p.Images), Asked: timeOrNil(p.Asked), Steady: timeOrNil(p.Steady), Done: timeOrNil(p.Done)}
	if p.To != nil {
		to := fromTemplate(*p.To)
		out.To = &to
	}
	return out
}

func fromHold(h *release.Hold) *Hold {
	if h == nil {
		return nil
	}
	return &Hold{Class: string(h.Class), From: string(h.From), Since: h.Since, Until: h.Until, Then: string(h.Then.Do)}
}

func fromNext(n release.Next) *Next {
	if n.Action == "" && n.At.IsZero() {
		return nil
	}
	return &Next{Action: n.Action, At: timeOrNil(n.At)}
}

// fromSteps lists the finished steps and, while the release runs, the present
// one.
func fromSteps(r release.Release) []Step {
	out := []Step{}
	for _, s := range r.Steps {
		out = append(out, fromStep(s, r.Spec.Gate, false))
	}
	if s := r.Step; !s.Started.IsZero() && !recorded(r, s) {
		out = append(out, fromStep(s, r.Spec.Gate, !r.Phase.Terminal() && r.Retreat == nil))
	}
	return out
}

func recorded(r release.Release, s release.StepRecord) bool {
	for _, old := range r.Steps {
		if old.Started.Equal(s.Started) && old.Share == s.Share {
			return true
		}
	}
	return false
}

func fromStep(s release.StepRecord, g analysis.Settings, present bool) Step {
	out := Step{
		Stage: string(s.Stage), Share: s.Share, State: "ended",
		Started: timeOrNil(s.Started), Written: timeOrNil(s.Written), Declared: timeOrNil(s.Declared),
		Accepted: timeOrNil(s.Accepted), Shown: timeOrNil(s.Shown), ShownBy: string(s.ShownBy), Passed: timeOrNil(s.Passed),
	}
	switch {
	case !s.Passed.IsZero():
		out.State = "passed"
	case present:
		out.State = "present"
	}
	if out.State != "present" {
		n := replicas(s.Replicas)
		out.Replicas = &n
	}
	if s.Verdict != nil {
		out.Gate = fromVerdict(*s.Verdict, g)
	}
	return out
}

func fromHistory(in []release.Event) []Event {
	out := make([]Event, 0, len(in))
	for _, e := range in {
		out = append(out, Event{Seq: e.Seq, At: e.At, Phase: string(e.Phase), Reason: string(e.Reason), Text: e.Text, Subject: e.Subject})
	}
	return out
}

func replicas(n [2]int) Replicas {
	return Replicas{Primary: n[release.Primary], Canary: n[release.Canary]}
}

func interval(i analysis.Interval) Interval {
	return Interval{Low: finite(i.Low), Mid: finite(i.Mid), High: finite(i.High)}
}

// reasons collects why fields of one object are null.
type reasons map[string]string

func (r reasons) add(field, why string) {
	if why == "" {
		why = "it has not been seen yet"
	}
	r[field] = why
}

func (r reasons) orNil() map[string]string {
	if len(r) == 0 {
		return nil
	}
	return r
}

// known returns the fact's value, or nil with its reason noted.
func known[T any](why reasons, field string, f release.Fact[T]) *T {
	if !f.Ok() {
		why.add(field, f.Why)
		return nil
	}
	v := f.Val
	if x, ok := any(v).(float64); ok && (math.IsNaN(x) || math.IsInf(x, 0)) {
		why.add(field, "the source answered with what is not a number")
		return nil
	}
	return &v
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func portOrNil(p int32) *int32 {
	if p == 0 {
		return nil
	}
	return &p
}

// strs copies a list of strings of any kind; the answer has [] and never null.
func strs[T ~string](in []T) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		out = append(out, string(s))
	}
	return out
}

// finite keeps what JSON cannot say out of an answer: infinities become the
// largest number, and what is not a number 0.
func finite(v float64) float64 {
	switch {
	case math.IsNaN(v):
		return 0
	case math.IsInf(v, 1):
		return math.MaxFloat64
	case math.IsInf(v, -1):
		return -math.MaxFloat64
	}
	return v
}

// expOrNil turns a natural logarithm into the number, to six digits; nil when
// there is none.
func expOrNil(log float64) *float64 {
	if math.IsNaN(log) || log > 700 {
		return nil
	}
	v := math.Exp(log)
	if v == 0 {
		return &v
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(v)))
	if math.IsInf(scale, 0) || scale == 0 {
		return &v
	}
	v = math.Round(v*scale) / scale
	return &v
}
