//go:build !nosandbox

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/sandbox"
)

// teller plays one release over the demo's API and says in words what happens.
type teller struct {
	out   io.Writer // for people
	data  io.Writer // for -o json, at the end
	flags demoFlags
	sc    scenario
	url   string
	world *sandbox.World
	api   client

	began    time.Time
	said     uint64    // the last event told
	lastLine time.Time // of the numbers
}

// releaseName is the name of the demo's one release.
const releaseName = "checkout-v2"

func newTeller(cmd *cobra.Command, f demoFlags, sc scenario, url string, w *sandbox.World) *teller {
	t := &teller{out: cmd.OutOrStdout(), data: cmd.OutOrStdout(), flags: f, sc: sc, url: url, world: w, api: newClient(url)}
	if f.output == "json" {
		t.out = cmd.ErrOrStderr()
	}
	return t
}

func (t *teller) say(format string, args ...any) { fmt.Fprintf(t.out, format+"\n", args...) }

func (t *teller) opening() {
	pods, tracks := "4 + 4", "Both tracks are on v2; the primary's history holds v1."
	if t.sc.begin == sandbox.CanaryNew {
		pods, tracks = "4", "The primary is on v1 and has the traffic; the canary has v2 and no process yet."
	}
	t.say("Starting a small world on this machine: %s processes of the sample API, a proxy with weights,", pods)
	t.say("a load generator and a Prometheus. %s", tracks)
	t.say("Scenario %s: %s. It should end %s.", t.sc.name, t.sc.story, t.sc.ends)
}

func (t *teller) ready() {
	t.say("")
	t.say("Clients:    %s  (%g requests per second, none is ever sent again)", t.world.ProxyURL(), t.flags.rps)
	t.say("Page:       %s", t.url)
	t.say("Prometheus: %s/api/v1/query?query=up", t.world.PromURL())
}

// follow posts the release and tells its story until it ends; then, unless the
// demo is to exit, it serves the page until it is interrupted.
func (t *teller) follow(ctx context.Context) error {
	q := demoRequest(t.flags, t.sc, releaseName)
	if t.flags.wait {
		return t.leave(ctx, q)
	}
	if err := t.forecast(ctx, q); err != nil {
		return err
	}
	t.began = time.Now()
	r, err := t.api.create(ctx, sandbox.Namespace, q)
	if err != nil {
		return err
	}
	t.say("Watch:      %s", strings.TrimRight(t.url, "/")+r.Links.Page)
	t.say("")
	for r.Status.Ended == nil {
		t.tell(r)
		if err := sleep(ctx, 250*time.Millisecond); err != nil {
			return err
		}
		if r, err = t.api.get(ctx, sandbox.Namespace, releaseName); err != nil {
			return err
		}
	}
	t.tell(r)
	return t.end(ctx, r)
}

// leave waits for a release of somebody else's. It prints a request that fits
// the demo.
func (t *teller) leave(ctx context.Context, q api.CreateRequest) error {
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	t.say("")
	t.say("The world runs and nothing is released; press Ctrl-C to end it. A request that fits it:")
	t.say("curl -sS -X POST %s/v1/namespaces/%s/releases -H 'Content-Type: application/json' -d '%s'", t.url, sandbox.Namespace, body)
	<-ctx.Done()
	return ctx.Err()
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// firstSamples is how long the first samples may take to be seen.
const firstSamples = 20 * time.Second

// forecast asks for the plan until the telemetry has something to go by, and
// prints what each step is expected to take.
func (t *teller) forecast(ctx context.Context, q api.CreateRequest) error {
	limit := time.Now().Add(firstSamples)
	for {
		p, err := t.api.plan(ctx, sandbox.Namespace, q)
		late := time.Now().After(limit)
		if err == nil && (late || !unjudged(p)) {
			t.say("")
			t.planned(p)
			return nil
		}
		var refused problemError
		if err != nil && (late || !errors.As(err, &refused)) {
			return err
		}
		if err := sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// unjudged reports a plan whose latency could not be judged: the first durations
// come a little later than the first counts.
func unjudged(p api.Plan) bool {
	return slices.ContainsFunc(p.Warnings, func(f api.Finding) bool { return f.Code == "latencyNotJudged" })
}

func (t *teller) planned(p api.Plan) {
	t.say("Plan: the %s takes the traffic in %d steps, about %s in all; at most %d pods at one time.",
		stepsOf(p), len(p.Steps), rounded(p.Total), p.PeakPods)
	for _, s := range p.Steps {
		of := ""
		if s.Stage != "" {
			of = fmt.Sprintf("%-6s  ", s.Stage)
		}
		t.say("  %s%4s  primary %d, canary %d pods; about %s", of, percentText(s.Share), s.Replicas.Primary, s.Replicas.Canary, rounded(s.Time))
	}
}

// stepsOf names who takes the traffic.
func stepsOf(p api.Plan) string {
	if len(p.Spec.Stages) > 1 {
		return p.Incoming + " and then, promoted, the primary"
	}
	return p.Incoming
}

func rounded(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

func percentText(v float64) string { return fmt.Sprintf("%g %%", v) }

// numbersEvery is how often the numbers are told while nothing else happens.
const numbersEvery = 5 * time.Second

// tell prints the new lines of the story, and now and then the numbers.
func (t *teller) tell(r api.Release) {
	for _, e := range r.History {
		if e.Seq <= t.said {
			continue
		}
		t.said = e.Seq
		t.lastLine = time.Now()
		t.say("%6.1fs  %-10s %s", e.At.Sub(t.began).Seconds(), e.Phase, e.Text)
	}
	if r.Status.Ended == nil && time.Since(t.lastLine) >= numbersEvery {
		t.lastLine = time.Now()
		t.say("%6.1fs  %-10s %s", time.Since(t.began).Seconds(), "", numbers(r))
	}
}

// numbers is one line about where the release is.
func numbers(r api.Release) string {
	s := r.Status
	line := fmt.Sprintf("declared %s, shown %s; pods %s + %s", share(s.Share.Declared), share(s.Share.Shown),
		pods("primary", s.Tracks.Primary), pods("canary", s.Tracks.Canary))
	if g := s.Gate; g != nil && s.Phase == string(release.Gating) {
		line += fmt.Sprintf("; gate: %s (%s %.0f requests, %.0f failed; %s %.0f, %.0f)", strings.TrimSuffix(g.Sentence, "."),
			s.Incoming, g.Candidate.Requests, g.Candidate.Bad, s.Outgoing, g.Baseline.Requests, g.Baseline.Bad)
	}
	if s.Phase == string(release.Growing) && s.Next != nil {
		line += "; waiting for " + s.Next.Action
	}
	if d := s.Drain; d != nil && s.Phase == string(release.Draining) {
		line += "; " + d.Why
	}
	if s.Hold != nil {
		line += fmt.Sprintf("; held for %s until %s", s.Hold.Class, s.Hold.Until.Local().Format(time.TimeOnly))
	}
	return line
}

func share(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.3g %%", *v)
}

func pods(name string, t api.TrackStatus) string {
	if t.Ready == nil || t.Desired == nil {
		return name + " unknown"
	}
	return fmt.Sprintf("%s %d/%d", name, *t.Ready, *t.Desired)
}

// demoReport is what the clients and the apps counted, beside the release.
type demoReport struct {
	Scenario  string         `json:"scenario"`
	Sent      int            `json:"sent"`
	Answered  int            `json:"answered"`
	Failed    int            `json:"failed"`
	Injected  int            `json:"injected"`       // of the failed ones, as the answers say
	ByApps    int            `json:"injectedByApps"` // as the apps counted themselves
	Lost      int            `json:"lost"`           // failed or not sent, and not injected
	ByVersion map[string]int `json:"byVersion"`
	ByTrack   map[string]int `json:"byTrack"`
	Steps     []seenStep     `json:"steps"`
	Failures  []string       `json:"failures,omitempty"`
}

// seenStep is the incoming track's share of the answers that clients got while a
// step was shown, or, where it was not, from when the weights were to be enforced.
type seenStep struct {
	Stage   string   `json:"stage,omitempty"` // where the release has several
	Target  float64  `json:"target"`
	Seen    *float64 `json:"seen"`
	Answers int      `json:"answers"`
	Seconds float64  `json:"seconds"` // from the step's start to its pass or end
}

func (t *teller) report(ctx context.Context, r api.Release) demoReport {
	c := t.world.Report()
	d := demoReport{
		Scenario: t.sc.name, Sent: c.Sent, Answered: c.Answered, Failed: c.Failed, Injected: c.Injected, Lost: c.Lost(),
		ByApps: t.world.Injected(ctx), ByVersion: c.ByVersion,
		ByTrack: map[string]int{"primary": c.ByTrack[release.Primary], "canary": c.ByTrack[release.Canary]},
	}
	for _, f := range c.Failures {
		d.Failures = append(d.Failures, fmt.Sprintf("%s %d %s %s %s", f.At.Format(time.TimeOnly), f.Code, f.Track, f.Pod, f.Why))
	}
	for i, s := range r.Steps {
		if s.Written == nil {
			continue
		}
		end := *r.Status.Ended
		if i+1 < len(r.Steps) && r.Steps[i+1].Written != nil {
			end = *r.Steps[i+1].Written
		} else if re := r.Status.Retreat; re != nil {
			end = re.Began
		}
		from := s.Written.Add(sandbox.Defaults().Propagation)
		if s.Shown != nil {
			from = *s.Shown
		}
		in := release.Primary
		if s.Stage == string(release.StageCanary) {
			in = release.Canary
		}
		seen := seenStep{Stage: s.Stage, Target: s.Share, Seconds: end.Sub(*s.Started).Seconds()}
		if v, n := c.Share(in, from, end); n > 0 {
			v = math.Round(v*10) / 10
			seen.Seen, seen.Answers = &v, n
		}
		d.Steps = append(d.Steps, seen)
	}
	return d
}

// settleLoad lets the last answers come in, so that the counts are whole.
const settleLoad = 500 * time.Millisecond

// end prints the report and ends the demo, or serves the page on.
func (t *teller) end(ctx context.Context, r api.Release) error {
	if err := t.world.SetRate(0); err != nil {
		return err
	}
	if err := sleep(ctx, settleLoad); err != nil {
		return err
	}
	d := t.report(ctx, r)
	t.sum(r, d)
	if t.flags.output == "json" {
		if err := writeJSON(t.data, map[string]any{"release": r, "report": d}); err != nil {
			return err
		}
	}
	code := exitCode(r)
	if !t.flags.exit {
		t.say("")
		if err := t.world.SetRate(t.flags.rps); err != nil {
			return err
		}
		t.say("The load goes on, and the page stays at %s until you press Ctrl-C.", t.url)
		<-ctx.Done()
	}
	if code == 0 {
		return nil
	}
	return exitError{code: code}
}

// exitCode is the release's own.
func exitCode(r api.Release) int {
	code, _ := api.ExitCode(release.Phase(r.Status.Phase))
	return code
}

func (t *teller) sum(r api.Release, d demoReport) {
	t.say("")
	t.say("The release ended %s after %.0f s: %s", r.Status.Phase, r.Status.Ended.Sub(*r.Created).Seconds(), r.Status.Message)
	for _, s := range d.Steps {
		seen := "a share that was shown too shortly to count"
		if s.Seen != nil {
			seen = fmt.Sprintf("%g %% of %d answers", *s.Seen, s.Answers)
		}
		who := release.Primary
		if s.Stage == string(release.StageCanary) {
			who = release.Canary
		}
		t.say("  at %-5s clients saw the %s in %s; the step took %.0f s", percentText(s.Target), who, seen, s.Seconds)
	}
	if dr := r.Status.Drain; dr != nil {
		t.say("  the %s was %s in %.1f s: %s", dr.Track, dr.Status, dr.Took, dr.Why)
	}
	t.say("Requests, counted by the client: %d sent, %d failed (%d of them injected), %d lost; by version %s.",
		d.Sent, d.Failed, d.Injected, d.Lost, counts(d.ByVersion))
	if h := r.Status.Harm; h != nil && d.ByApps > 0 {
		t.say("Harm estimated by the judge: %.0f bad requests (%.0f to %.0f); the apps injected %d.", h.Mid, h.Low, h.High, d.ByApps)
	}
	if n := len(d.Failures); n > 0 {
		t.say("The first %d of %d failures that nobody ordered:", n, d.Lost)
	}
	for _, f := range d.Failures {
		t.say("  %s", f)
	}
	if r.Status.NeedsHuman {
		t.say("A person is needed: %s", strings.Join(r.Status.Unverified, "; "))
	}
}

func counts(m map[string]int) string {
	var parts []string
	for _, k := range []string{"v1", "v2"} {
		if n := m[k]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", k, n))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
