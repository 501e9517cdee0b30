package api

import (
	"fmt"
	"regexp"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
)

// Spec returns what is asked for, with the defaults filled in, and everything
// that is wrong with it, each with the JSON pointer of the field. It looks at no
// world.
func (q CreateRequest) Spec(namespace string) (release.Spec, []release.Finding) {
	b := &builder{}
	b.label("/name", "the release", q.Name)
	s := release.Spec{
		Routes: b.routes(q.Routes, namespace),
		Tracks: [2]release.TrackSpec{
			release.Primary: b.track("/primary", q.Primary),
			release.Canary: b.track("/canary", Track{
				Service: q.Canary.Service, Port: q.Canary.Port,
				Subset: q.Canary.Subset, Deployment: q.Canary.Deployment,
			}),
		},
		EndReplicas: q.Canary.EndReplicas,
		Shrink:      release.Shrink(q.Shrink),
		Plan:        q.Plan,
		Size:        b.size(q.Size),
		Gate:        b.gate(q.Gates),
		Deadlines:   b.deadlines(q.Deadlines),
		Preset:      q.Preset,
		Metrics:     b.metrics(q.Metrics),
	}
	if q.Canary.EndReplicas > 10_000 {
		b.add("/canary/endReplicas", "outOfRange", "use 0 to 10000", "endReplicas is %d", q.Canary.EndReplicas)
	}
	if q.Promote != nil {
		s.Copy = q.Promote.Copy
	}
	b.lists(q, &s)
	b.duration("/holds", q.Holds, &s.Holds)
	if s.Holds > 24*time.Hour {
		b.add("/holds", "outOfRange", "use 1s to 24h", "holds is %s", s.Holds)
	}
	if q.Cause != nil {
		s.Cause = release.Cause(*q.Cause)
	}
	s = s.WithDefaults()
	return s, append(b.found, s.Problems()...)
}

// Command returns what an abort asks for, with the defaults filled in.
func (q AbortRequest) Command() (release.Command, []release.Finding) {
	c := release.Command{
		Verb: release.VerbAbort, Traffic: release.TrafficBack, Mode: release.ModeImmediate, Reason: q.Reason,
	}
	b := &builder{}
	switch t := release.Traffic(q.Traffic); t {
	case release.TrafficBack, release.TrafficStay:
		c.Traffic = t
	case "":
	default:
		b.add("/traffic", "trafficUnknown", "use back or stay", "traffic %q is not known", short(q.Traffic))
	}
	switch m := release.Mode(q.Mode); m {
	case release.ModeGraceful, release.ModeImmediate, release.ModeForce:
		c.Mode = m
	case "":
	default:
		b.add("/mode", "modeUnknown", "use graceful, immediate or force", "mode %q is not known", short(q.Mode))
	}
	return c, b.found
}

var (
	labelForm     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	subdomainForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// IsLabel reports whether s is a DNS-1123 label, as names and namespaces are.
func IsLabel(s string) bool { return len(s) <= 63 && labelForm.MatchString(s) }

func isSubdomain(s string) bool { return len(s) <= 253 && subdomainForm.MatchString(s) }

const (
	labelFix     = "use up to 63 lower-case letters, digits and -, beginning and ending with a letter or digit"
	subdomainFix = "use up to 253 lower-case letters, digits, - and ., as Kubernetes names are"
)

// builder collects findings while it turns a request into a spec.
type builder struct{ found []release.Finding }

func (b *builder) add(pointer, code, fix, format string, args ...any) {
	b.found = append(b.found, release.Finding{Pointer: pointer, Code: code, Message: fmt.Sprintf(format, args...), Fix: fix})
}

// label checks a name that must be there.
func (b *builder) label(at, what, name string) {
	switch {
	case name == "":
		b.add(at, "missing", "name "+what, "%s has no name", what)
	case !IsLabel(name):
		b.add(at, "nameForm", labelFix, "%q is not a DNS-1123 label", short(name))
	}
}

// optionalLabel and optionalName check the form of names that may be empty here
// because they are optional, or because Problems misses them.
func (b *builder) optionalLabel(at, name string) {
	if name != "" && !IsLabel(name) {
		b.add(at, "nameForm", labelFix, "%q is not a DNS-1123 label", short(name))
	}
}

func (b *builder) optionalName(at, name string) {
	if name != "" && !isSubdomain(name) {
		b.add(at, "nameForm", subdomainFix, "%q is not a Kubernetes name", short(name))
	}
}

func (b *builder) routes(in []Route, namespace string) []release.RouteRef {
	out := make([]release.RouteRef, 0, len(in))
	for i, r := range in {
		at := fmt.Sprintf("/routes/%d", i)
		b.optionalName(at+"/name", r.Name)
		b.optionalLabel(at+"/namespace", r.Namespace)
		seen := map[string]bool{}
		for j, rule := range r.Rules {
			switch {
			case rule == "":
				b.add(fmt.Sprintf("%s/rules/%d", at, j), "missing", "name the rule, or leave rules out to move every rule with both tracks", "the rule has no name")
			case seen[rule]:
				b.add(fmt.Sprintf("%s/rules/%d", at, j), "duplicate", "name each rule once", "rule %q is named twice", short(rule))
			}
			seen[rule] = true
		}
		ref := release.RouteRef{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Rules: r.Rules}
		if ref.Namespace == "" {
			ref.Namespace = namespace
		}
		out = append(out, ref)
	}
	return out
}

func (b *builder) track(at string, t Track) release.TrackSpec {
	b.optionalLabel(at+"/service", t.Service)
	b.optionalLabel(at+"/subset", t.Subset)
	b.optionalName(at+"/deployment", t.Deployment)
	if t.Port < 0 || t.Port > 65535 {
		b.add(at+"/port", "outOfRange", "use 1 to 65535, or leave it out", "port is %d", t.Port)
	}
	return release.TrackSpec{Service: t.Service, Port: t.Port, Subset: t.Subset, Deployment: t.Deployment}
}

// lists takes over the lists; one that is written must say something.
func (b *builder) lists(q CreateRequest, s *release.Spec) {
	if q.Stages != nil && len(q.Stages) == 0 {
		b.add("/stages", "empty", "name a stage, or leave stages out to run shift", "no stage is named")
	}
	for _, st := range q.Stages {
		s.Stages = append(s.Stages, release.Stage(st))
	}
	if q.Steps != nil && len(q.Steps) == 0 {
		b.add("/steps", "empty", "name the steps, or leave steps out to use 10, 25, 50, 100", "no step is named")
	}
	s.Steps = append(s.Steps, q.Steps...)
	for _, a := range q.Allow {
		s.Allow = append(s.Allow, release.Allow(a))
	}
}

// size leaves a zero where nothing was written; a zero that was written would
// be taken for it, so it is refused here.
func (b *builder) size(in *Size) release.Size {
	var out release.Size
	if in == nil {
		return out
	}
	if in.Headroom != nil {
		out.Headroom = *in.Headroom
		if out.Headroom == 0 {
			b.add("/size/headroom", "outOfRange", "use 1 to 3", "headroom is 0")
		}
	}
	if in.MinReplicas != nil {
		out.MinReplicas = *in.MinReplicas
		if out.MinReplicas == 0 {
			b.add("/size/minReplicas", "outOfRange", "use 1 to 1000", "minReplicas is 0")
		}
	}
	return out
}

func (b *builder) gate(in *Gates) analysis.Settings {
	s := analysis.Defaults()
	if in == nil {
		return s
	}
	take(&s.Alpha, in.Alpha)
	take(&s.AlphaPass, in.AlphaPass)
	take(&s.MaxErrorRateDelta, in.MaxErrorRateDelta)
	take(&s.MaxErrorRateRatio, in.MaxErrorRateRatio)
	take(&s.MinRequests, in.MinRequests)
	take(&s.MinBaselineRequests, in.MinBaselineRequests)
	take(&s.MinScrapes, in.MinScrapes)
	take(&s.MaxErrorRate, in.MaxErrorRate)
	take(&s.EqualHarm, in.EqualHarm)
	take(&s.ToleranceGuarantee, in.ToleranceGuarantee)
	take(&s.MaxSlowShareDelta, in.MaxSlowShareDelta)
	take(&s.MaxSlowShareRatio, in.MaxSlowShareRatio)
	take(&s.RequireLatency, in.RequireLatency)
	if in.Mode != "" {
		s.Mode = analysis.Mode(in.Mode)
	}
	b.parse("/gates/soak", in.Soak, &s.Soak)
	b.parse("/gates/maxWindow", in.MaxWindow, &s.MaxWindow)
	b.parse("/gates/telemetryGrace", in.TelemetryGrace, &s.TelemetryGrace)
	return s
}

func (b *builder) deadlines(in *Deadlines) release.Deadlines {
	var d release.Deadlines
	if in == nil {
		return d
	}
	b.duration("/deadlines/preflight", in.Preflight, &d.Preflight)
	b.duration("/deadlines/grow", in.Grow, &d.Grow)
	b.duration("/deadlines/settle", in.Settle, &d.Settle)
	b.duration("/deadlines/shown", in.Shown, &d.Shown)
	b.duration("/deadlines/write", in.Write, &d.Write)
	b.duration("/deadlines/drain", in.Drain, &d.Drain)
	b.duration("/deadlines/request", in.Request, &d.Request)
	b.duration("/deadlines/undo", in.Undo, &d.Undo)
	b.duration("/deadlines/confirm", in.Confirm, &d.Confirm)
	b.duration("/deadlines/promote", in.Promote, &d.Promote)
	b.duration("/deadlines/steady", in.Steady, &d.Steady)
	b.duration("/deadlines/exposure", in.Exposure, &d.Exposure)
	return d
}

func (b *builder) metrics(in *MetricsFrom) release.MetricsRef {
	if in == nil {
		return release.MetricsRef{}
	}
	b.optionalLabel("/metrics/source", in.Source)
	b.optionalLabel("/metrics/provider", in.Provider)
	return release.MetricsRef{Source: in.Source, Provider: in.Provider}
}

// parse reads a Go duration over d and leaves the judgement to Problems; an
// empty string leaves d.
func (b *builder) parse(at, in string, d *time.Duration) bool {
	if in == "" {
		return false
	}
	v, err := time.ParseDuration(in)
	if err != nil {
		b.add(at, "durationForm", `write a Go duration such as "15s" or "1h30m"`, "%q is not a duration", short(in))
		return false
	}
	*d = v
	return true
}

// duration is parse for fields in which a zero is read as the default, so that
// one that was written is refused.
func (b *builder) duration(at, in string, d *time.Duration) {
	if b.parse(at, in, d) && *d <= 0 {
		*d = 0
		b.add(at, "outOfRange", "use a duration above zero", "the duration is %s", short(in))
	}
}

func take[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
