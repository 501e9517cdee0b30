package server

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/release"
)

// detail is what the page of one release shows, ready to be written down.
type detail struct {
	R        api.Release
	Headline string
	Facts    []fact
	Next     *nextLine
	AsOf     moment
	Age      string
	Bars     []bar
	Stairs   *stairs
	Cards    []card
	Gate     *gateView
	GateWhy  string
	Harm     *harmView
	Drain    *drainView
	Retreat  *retreatView
	Steps    []stepRow
	Story    []storyLine
	Curl     string
}

// state is a phase with what goes with it on a page.
type state struct {
	Phase string
	Tone  string // names the icon and the colours
	Title string
	Say   string // for screen readers, when the state changes
	Ended bool
}

// The tones.
const (
	toneRun  = "run"
	toneHold = "hold"
	toneBack = "back"
	toneGood = "good"
	toneBad  = "bad"
	toneStop = "stop"
)

func stateOf(r api.Release) state {
	p := release.Phase(r.Status.Phase)
	s := state{Phase: r.Status.Phase, Tone: toneOf(p, r.Status.Retreat != nil), Ended: p.Terminal()}
	s.Title = titleOf(r) + " · " + r.Name
	s.Say = fmt.Sprintf("%s: %s. %s", r.Name, titleOf(r), r.Status.Message)
	return s
}

func toneOf(p release.Phase, retreat bool) string {
	switch p {
	case release.Held:
		return toneHold
	case release.Succeeded:
		return toneGood
	case release.Failed:
		return toneBad
	case release.RolledBack, release.Retreating, release.Undoing:
		return toneBack
	case release.Aborted, release.Rejected:
		return toneStop
	case release.Pending, release.Preflight, release.Growing, release.Shifting, release.Settling, release.Gating,
		release.Promoting, release.Draining, release.Shrinking, release.Confirming:
	}
	if retreat {
		return toneBack
	}
	return toneRun
}

// titleOf says the state in a window's title: "25% -> primary".
func titleOf(r api.Release) string {
	st := r.Status
	p := release.Phase(st.Phase)
	share := digits(st.Share.Target) + "%"
	switch {
	case p.Terminal():
		return st.Phase
	case st.Retreat != nil:
		return "back -> " + st.Retreat.Refuge
	case p == release.Promoting:
		return st.Phase
	case p == release.Held:
		return "held at " + share
	}
	return share + " -> " + st.Incoming
}

type fact struct{ Name, Text string }

type nextLine struct {
	Action string
	At     *moment
}

// bar is one split of the managed traffic.
type bar struct {
	Name    string
	Known   bool
	Primary float64
	Canary  float64
	Note    string
}

// card is one track.
type card struct {
	Track      string
	Role       string
	Deployment string
	Service    string
	Version    string
	Hash       string
	Was        string // the version at admission, when it is another one now
	Share      string
	Ready      string
	Desired    string
	Need       string
	Leaving    string
	Known      bool
	ReadyBar   float64 // percent of the scale
	NeedTick   float64
	HasNeed    bool
	BarText    string
	Trouble    []api.Trouble
	Why        string
}

// gateView is a verdict as a table.
type gateView struct {
	Outcome  string
	Tone     string
	Reason   string
	Sentence string
	Slow     []slowRow
	Share    string
	Alone    bool // at 100, where there is nothing to compare with
	Cand     armView
	Base     armView
	CandName string
	BaseName string
	Delta    string
	Range    string
	Margin   string
	Plot     *plot
	Meters   []meter
	Window   string
	Fresh    *moment
	Age      string
	Notes    []string
	Live     bool
}

type armView struct{ Requests, Need, Bad, Seen, SeenBad, Rate string }

// plot is the difference with its interval on a scale of 1000, the margin and
// zero.
type plot struct{ Low, Mid, High, Zero, Margin float64 }

// meter is an e-value against its bound, on a logarithmic scale.
type meter struct {
	Name string
	Text string
	Fill float64 // percent
	Tone string
	Met  bool
}

// harmView is the harm in failed requests. None: the answers were slow, and no
// request failed.
type harmView struct {
	Name, Text, Range string
	None              bool
}

type drainView struct {
	Track    string
	Status   string
	Tone     string
	Sentence string
	Why      string
	Rows     []fact
	Pods     []api.PodsInFlight
	Missing  []string
	Senders  []string
}

type retreatView struct {
	R     api.Retreat
	Lines []retreatLine
}

// retreatLine is one stretch of the way back; At is nil while it is to come.
type retreatLine struct {
	Text string
	At   *moment
}

type stepRow struct {
	Share    string
	State    string
	Tone     string
	Shown    *moment
	ShownBy  string
	Passed   *moment
	Took     string
	Cand     string
	Base     string
	Verdict  string
	Reason   string
	Replicas string
}

type storyLine struct {
	At      moment
	Phase   string
	Tone    string
	Text    string
	Subject string
}

// newDetail prepares a release for its page. Origin is where the reader reached
// this server, for the command to copy.
func newDetail(r api.Release, now time.Time, origin string) detail {
	st := r.Status
	d := detail{
		R: r, Headline: headline(r), Facts: factsOf(r, now), AsOf: at(st.AsOf, now),
		Bars: barsOf(r), Stairs: newStairs(r, now),
		Cards: []card{cardOf(r, release.Primary), cardOf(r, release.Canary)},
		Gate:  newGate(st.Gate, r, now), GateWhy: st.Unknown["gate"],
		Drain: newDrain(st.Drain, st.Ended != nil), Retreat: newRetreat(st.Retreat, now),
	}
	if st.Next != nil {
		d.Next = &nextLine{Action: st.Next.Action, At: atPtr(st.Next.At, now)}
	}
	if st.Harm != nil && st.Gate != nil {
		d.Harm = &harmView{
			Name:  "Harm so far",
			Text:  count(math.Max(0, math.Round(st.Harm.Mid))),
			Range: fmt.Sprintf("%s to %s", count(math.Floor(st.Harm.Low)), count(math.Ceil(st.Harm.High))),
			None:  st.Gate.Outcome == "fail" && strings.HasPrefix(st.Gate.Metric, slowPrefix) && st.Gate.Candidate.SeenBad == 0,
		}
	}
	if d.Harm != nil && st.Ended != nil {
		d.Harm.Name = "Harm"
	}
	for _, s := range r.Steps {
		d.Steps = append(d.Steps, newStepRow(s, st.Stage, now))
	}
	for _, e := range r.History {
		d.Story = append(d.Story, storyLine{
			At: at(e.At, now), Phase: e.Phase, Text: e.Text, Subject: e.Subject,
			Tone: toneOf(release.Phase(e.Phase), st.Retreat != nil && !e.At.Before(st.Retreat.Began)),
		})
	}
	if st.Ended == nil {
		d.Curl = fmt.Sprintf("curl -X POST %s/v1/namespaces/%s/releases/%s/abort \\\n  -H 'Content-Type: application/json' \\\n  -d '{\"traffic\":\"back\",\"mode\":\"immediate\",\"reason\":\"...\"}'",
			origin, r.Namespace, r.Name)
	}
	return d
}

// headline says in a few words what the release is at.
func headline(r api.Release) string {
	st := r.Status
	incoming := trackOf(st, st.Incoming)
	to := st.Incoming
	if v := version(shownTemplate(incoming)); v != "" {
		to += " (" + v + ")"
	}
	switch {
	case st.Phase == string(release.Rejected):
		return "Nothing was touched"
	case st.Retreat != nil && st.Ended == nil:
		return "Going back to " + st.Retreat.Refuge + " from " + percent(st.Retreat.From)
	case st.Retreat != nil:
		return "Went back to " + st.Retreat.Refuge + " from " + percent(st.Retreat.From)
	case st.Ended != nil:
		return percent(st.Share.Target) + " on " + to
	case st.Phase == string(release.Promoting):
		return "Promoting primary while " + to + " has the traffic"
	case st.Step.Of == 0:
		return "No step yet"
	}
	return fmt.Sprintf("Step %d of %d: %s to %s", st.Step.N, st.Step.Of, percent(st.Step.Share), to)
}

func trackOf(st api.Status, name string) api.TrackStatus {
	if name == release.Canary.String() {
		return st.Tracks.Canary
	}
	return st.Tracks.Primary
}

// shownTemplate is the live template, else the one at admission.
func shownTemplate(t api.TrackStatus) api.Template {
	if t.Template != nil {
		return *t.Template
	}
	return t.Admitted
}

func factsOf(r api.Release, now time.Time) []fact {
	var out []fact
	add := func(name, text string) {
		if text != "" {
			out = append(out, fact{name, text})
		}
	}
	for _, route := range r.Spec.Routes {
		add("Route", route.Kind+" "+route.Namespace+"/"+route.Name)
	}
	if r.Created != nil {
		if r.Status.Ended != nil {
			add("Ran for", lasting(r.Status.Ended.Sub(*r.Created).Seconds()))
		}
		add("Began", at(*r.Created, now).Text+" UTC")
	}
	if r.Status.Ended != nil {
		add("Ended", at(*r.Status.Ended, now).Text+" UTC")
	}
	c := r.Spec.Cause
	add("Asked for by", join(" · ", r.Subject, c.Actor))
	add("Cause", join(" · ", c.CI+prefixed(" #", c.Run), c.Commit, c.Reason))
	return out
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func join(sep string, parts ...string) string {
	out := ""
	for _, p := range parts {
		if p == "" {
			continue
		}
		if out != "" {
			out += sep
		}
		out += p
	}
	return out
}

// barsOf are the splits: asked for, declared and shown.
func barsOf(r api.Release) []bar {
	st := r.Status
	split := func(name string, share *float64, note string) bar {
		b := bar{Name: name, Note: note}
		if share == nil {
			return b
		}
		b.Known, b.Primary, b.Canary = true, *share, 100-*share
		if st.Incoming == release.Canary.String() {
			b.Primary, b.Canary = b.Canary, b.Primary
		}
		return b
	}
	declared := split("Declared", st.Share.Declared, st.Share.Unknown["declared"])
	if st.Share.Declared != nil && st.Share.Accepted != nil {
		declared.Note = "the routes' status: " + *st.Share.Accepted
	}
	shown := split("Shown", st.Share.Shown, st.Share.Unknown["shown"])
	if st.Share.Shown != nil {
		shown.Note = fmt.Sprintf("counted over %s new requests", orDash(st.Share.Requests))
		switch st.Share.ShownIs {
		case "no":
			shown.Note += "; the data plane does not serve the target yet"
		case "unknown":
			shown.Note += fmt.Sprintf(" of the %s that are needed to tell", orDash(st.Share.Need))
		}
	} else if st.Share.ShownBy == string(release.ShownBySettle) {
		shown.Note = join("; ", "taken as shown after the settle time", shown.Note)
	}
	return []bar{declared, shown}
}

func cardOf(r api.Release, t release.Track) card {
	st := r.Status
	ts := trackOf(st, t.String())
	c := card{
		Track: t.String(), Role: "outgoing", Deployment: ts.Deployment, Service: ts.Service,
		Ready: orDash(ts.Ready), Desired: orDash(ts.Desired), Need: orDash(ts.Need), Share: dash,
		Known: ts.Ready != nil && ts.Desired != nil, Trouble: ts.Trouble,
	}
	if st.Incoming == t.String() {
		c.Role = "incoming"
	}
	now := shownTemplate(ts)
	c.Version, c.Hash = version(now), now.Hash
	if was := version(ts.Admitted); ts.Template != nil && ts.Template.Hash != ts.Admitted.Hash && was != "" {
		c.Was = was
	}
	if ts.Share != nil {
		c.Share = percent(*ts.Share)
	}
	if ts.Leaving != nil && *ts.Leaving > 0 {
		c.Leaving = count(float64(*ts.Leaving))
	}
	for _, field := range []string{"ready", "desired"} {
		if w := ts.Unknown[field]; w != "" {
			c.Why = w
			break
		}
	}
	if c.Known {
		scale := float64(max(*ts.Ready, *ts.Desired, st.Full, 1))
		c.ReadyBar = 100 * float64(*ts.Ready) / scale
		c.BarText = fmt.Sprintf("%d of %d pods ready", *ts.Ready, *ts.Desired)
		if ts.Need != nil {
			scale = math.Max(scale, float64(*ts.Need))
			c.ReadyBar = 100 * float64(*ts.Ready) / scale
			c.HasNeed, c.NeedTick = *ts.Need > 0, 100*float64(*ts.Need)/scale
			c.BarText += fmt.Sprintf("; its share needs %d", *ts.Need)
		}
	}
	return c
}

func newGate(g *api.Gate, r api.Release, now time.Time) *gateView {
	if g == nil {
		return nil
	}
	v := &gateView{
		Outcome: g.Outcome, Tone: outcomeTone(g.Outcome), Reason: g.Reason, Sentence: g.Sentence,
		Slow: slowRows(*g), Share: percent(g.Share),
		Cand: newArm(g.Candidate), Base: newArm(g.Baseline),
		CandName: r.Status.Incoming, BaseName: r.Status.Outgoing,
		Alone: g.Pass == nil, Fresh: atPtr(g.Data, now), Notes: g.Notes, Live: r.Status.Ended == nil && r.Status.Live,
	}
	if g.Data != nil {
		v.Age = lasting(r.Status.AsOf.Sub(*g.Data).Seconds())
	}
	if g.Delta != nil {
		v.Delta = points(g.Delta.Mid)
		v.Range = points(g.Delta.Low) + " to " + points(g.Delta.High)
		v.Plot = newPlot(*g.Delta, g.Margin)
	}
	if g.Margin > 0 {
		v.Margin = points(g.Margin)
	}
	v.Meters = metersOf(*g)
	if v.Live && g.Outcome != "pass" {
		v.Window = fmt.Sprintf("%s gone, %s left", lasting(g.Elapsed), lasting(g.Left))
	} else {
		v.Window = "judged after " + lasting(g.Elapsed)
	}
	return v
}

func newArm(a api.Arm) armView {
	v := armView{Requests: count(a.Requests), Need: count(a.Need), Bad: count(a.Bad), Seen: count(a.Seen), SeenBad: count(a.SeenBad), Rate: dash}
	if a.Rate != nil {
		v.Rate = rate(*a.Rate)
	}
	return v
}

func outcomeTone(outcome string) string {
	switch outcome {
	case "pass":
		return toneGood
	case "fail":
		return toneBad
	}
	return toneHold
}

func newPlot(d api.Interval, margin float64) *plot {
	reach := 1.15 * math.Max(math.Max(math.Abs(d.Low), math.Abs(d.High)), 1.4*margin)
	if reach == 0 || math.IsInf(reach, 0) {
		return nil
	}
	x := func(v float64) float64 { return round1(500 + 500*v/reach) }
	return &plot{Low: x(d.Low), Mid: x(d.Mid), High: x(d.High), Zero: 500, Margin: x(margin)}
}

func metersOf(g api.Gate) []meter {
	one := func(name, tone string, e api.Evidence) meter {
		m := meter{Name: name, Tone: tone, Met: e.Met}
		m.Text = fmt.Sprintf("%s of the %s that prove it", multiple(e.Value), multiple(&e.Bound))
		if e.LogAt > 0 {
			m.Fill = 100 * min(1, max(0, e.Log/e.LogAt))
		}
		if e.Met {
			m.Text = fmt.Sprintf("%s; %s prove it", multiple(e.Value), multiple(&e.Bound))
		}
		if e.Log <= -1e6 {
			m.Text = fmt.Sprintf("none; a value of %s proves it", multiple(&e.Bound))
		}
		return m
	}
	out := []meter{one("That it is worse", toneBad, g.Fail)}
	if g.Pass != nil {
		out = append(out, one("That it is not worse by the margin", toneGood, *g.Pass))
	}
	if g.Guard != nil {
		out = append(out, meter{
			Name: "The guard at 100 %, where nothing is left to compare with", Tone: toneBad,
			Text: fmt.Sprintf("%s; it tests against a bad rate of %s", multiple(g.Guard.Value), rate(g.Guard.Rate)),
			Fill: 100 * min(1, max(0, g.Guard.Log/5)),
		})
	}
	return out
}

func newDrain(d *api.Drain, ended bool) *drainView {
	if d == nil {
		return nil
	}
	v := &drainView{Track: d.Track, Status: d.Status, Why: d.Why, Pods: d.Pods, Missing: d.Missing, Senders: d.Senders}
	switch d.Status {
	case "drained":
		v.Tone, v.Sentence = toneGood, "Quiet, and measured to be."
	case "assumed":
		v.Tone, v.Sentence = toneHold, "Taken as quiet: nothing tells what is in flight, so the longest request was waited out."
	case "forced":
		v.Tone, v.Sentence = toneBad, fmt.Sprintf("The deadline passed: %s cut.", plural(int(math.Round(d.Cut)), "request was", "requests were"))
	case "unknown":
		v.Tone, v.Sentence = toneHold, "The signals that should be there are not, so nothing is concluded."
	default:
		v.Tone, v.Sentence = toneRun, "Waiting until it is quiet."
	}
	inFlight := orDash(d.InFlight)
	if d.InFlight == nil {
		inFlight = "not known"
	}
	name := "So far"
	if ended || d.Status != "draining" && d.Status != "unknown" {
		name = "Took"
	}
	v.Rows = []fact{{name, lasting(d.Took)}, {"In flight", inFlight}}
	if d.New != nil {
		v.Rows = append(v.Rows, fact{"New requests", fmt.Sprintf("%s; none for %s of %s", count(*d.New), lasting(d.Quiet), lasting(d.Window))})
	}
	v.Rows = append(v.Rows, fact{"Signal", sourceText(d.Source)})
	return v
}

func sourceText(source string) string {
	switch source {
	case "app":
		return "the application's own gauge"
	case "inbound":
		return "the pods' own proxies"
	case "client":
		return "the proxies that send"
	case "difference":
		return "requests started minus finished"
	}
	return "none"
}

func newRetreat(r *api.Retreat, now time.Time) *retreatView {
	if r == nil {
		return nil
	}
	began := at(r.Began, now)
	v := &retreatView{R: *r}
	v.Lines = []retreatLine{
		{"decided, with " + r.Refuge + " as the refuge", &began},
		{"all weight declared on the refuge", atPtr(r.Moved, now)},
		{"the data plane shows it", atPtr(r.Shown, now)},
		{"the other track is quiet", atPtr(r.Drained, now)},
		{"its template is back and its pods are ready", atPtr(r.Undone, now)},
	}
	return v
}

// turned reports a step of a stage in which the roles of the tracks were the other
// way round than in the present one.
func turned(s api.Step, stage string) bool {
	shift := string(release.StageShift)
	return s.Stage != "" && (s.Stage == shift) != (stage == shift)
}

func newStepRow(s api.Step, stage string, now time.Time) stepRow {
	row := stepRow{Share: percent(s.Share), State: s.State, Shown: atPtr(s.Shown, now), ShownBy: s.ShownBy, Passed: atPtr(s.Passed, now)}
	if s.Stage != "" {
		row.Share = s.Stage + " " + row.Share
	}
	switch s.State {
	case "passed":
		row.Tone = toneGood
	case "present":
		row.Tone = toneRun
	default:
		row.Tone = toneStop
	}
	if s.Started != nil && s.Passed != nil {
		row.Took = lasting(s.Passed.Sub(*s.Started).Seconds())
	}
	if g := s.Gate; g != nil {
		row.Verdict, row.Reason = g.Outcome, g.Reason
		row.Cand, row.Base = armText(g.Candidate), armText(g.Baseline)
		if turned(s, stage) {
			row.Cand, row.Base = row.Base, row.Cand
		}
		if s.State == "ended" {
			row.Tone = outcomeTone(g.Outcome)
		}
	}
	if s.Replicas != nil {
		row.Replicas = fmt.Sprintf("%d / %d", s.Replicas.Primary, s.Replicas.Canary)
	}
	return row
}

func armText(a api.Arm) string {
	if a.Rate == nil {
		return "no requests"
	}
	return fmt.Sprintf("%s of %s (%s)", count(a.Bad), count(a.Requests), rate(*a.Rate))
}
