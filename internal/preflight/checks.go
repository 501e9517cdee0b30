package preflight

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
)

// note is what a check found: a finding refuses the release, a warning does not.
type note struct {
	release.Finding
	warning bool
}

// check is one question to what was gathered. It is pure, and is named for what
// must be so.
type check struct {
	name string
	look func(*gathered) []note
}

// chain is the policy, in the order in which people read the findings.
func chain() []check {
	return []check{
		{"the objects can be told from others", objectsHaveUIDs},
		{"no other release has marked the routes", routesAreNotMarked},
		{"every route splits between both tracks", routesHoldBothTracks},
		{"all routes declare the same share", routesAgree},
		{"the controllers accept the routes as they are", routesAreAccepted},
		{"every step can be written in the routes' weights", stepsAreRepresentable},
		{"there is something left to do", somethingIsLeft},
		{"a step has a control", stepsHaveAControl},
		{"the serving tracks have ready pods", servingTracksAreReady},
		{"the pods can start", podsCanStart},
		{"an undo has a target", undoHasATarget},
		{"a shift is between tracks of one version", tracksAgree},
		{"the canary has a version that the primary has not", tracksDiffer},
		{"what changes has a name for good", imagesHaveNames},
		{"a promote meets no traffic, and has pods to prove itself", primaryIsIdle},
		{"the telemetry answers", telemetryAnswers},
		{"what the metrics cannot tell is known", metricsAreWhole},
		{"latency is judged where it is asked for", latencyIsJudged},
		{"the traffic is split as the routes say", trafficIsSplitAsDeclared},
		{"every step can be certified in its window", stepsAreCertifiable},
	}
}

func refuse(pointer, code, fix, format string, args ...any) []note {
	return []note{{Finding: release.Finding{Pointer: pointer, Code: code, Message: fmt.Sprintf(format, args...), Fix: fix}}}
}

func warn(pointer, code, fix, format string, args ...any) []note {
	n := refuse(pointer, code, fix, format, args...)
	n[0].warning = true
	return n
}

// unless makes notes warnings where the request accepts the risk.
func (g *gathered) unless(a release.Allow, ns []note) []note {
	if !g.spec.Allows(a) {
		return ns
	}
	for i := range ns {
		ns[i].warning, ns[i].Fix = true, ""
		ns[i].Message += fmt.Sprintf(" (allowed by %q)", a)
	}
	return ns
}

func (g *gathered) incoming() release.Track { return g.spec.Stages[0].Incoming() }

// present is the incoming track's share by the routes, and whether they say.
func (g *gathered) present() (float64, bool) {
	for _, r := range g.binding.Routes {
		for _, p := range r.Split {
			return p.Share(g.incoming()), p.Sum() > 0
		}
	}
	return 0, false
}

// share is a track's present share.
func (g *gathered) share(t release.Track) float64 {
	in, _ := g.present()
	if t == g.incoming() {
		return in
	}
	return 100 - in
}

func objectsHaveUIDs(g *gathered) (out []note) {
	const fix = "look for a broken adapter or a cache that is behind"
	for i, r := range g.binding.Routes {
		if r.UID == "" {
			out = append(out, refuse(fmt.Sprintf("/routes/%d", i), "notIdentified", fix, "%s has no UID", r.Ref)...)
		}
		for j := range i {
			if r.UID != "" && g.binding.Routes[j].UID == r.UID {
				out = append(out, refuse(fmt.Sprintf("/routes/%d", i), "duplicate", "name each route once",
					"%s and %s are one object", g.binding.Routes[j].Ref, r.Ref)...)
			}
		}
	}
	for t, b := range g.binding.Tracks {
		at := "/" + release.Track(t).String() + "/deployment"
		if b.UID == "" || b.Template.Hash == "" {
			out = append(out, refuse(at, "notIdentified", fix, "Deployment %s has no UID or no template hash", b.Deployment)...)
		}
	}
	if p, c := g.binding.Tracks[release.Primary], g.binding.Tracks[release.Canary]; p.UID != "" && p.UID == c.UID {
		out = append(out, refuse("/canary/deployment", "sameTrack", "name two Deployments", "both tracks are Deployment %s", p.Deployment)...)
	}
	return out
}

func routesAreNotMarked(g *gathered) (out []note) {
	for i, s := range g.routes {
		if s.Marked.Ok() && s.Marked.Val != "" && s.Marked.Val != g.key.Name {
			out = append(out, refuse(fmt.Sprintf("/routes/%d", i), "marked",
				"wait for that release, or remove its in-progress label if it is gone",
				"%s is marked by release %s", s.Ref, s.Marked.Val)...)
		}
	}
	return out
}

func routesHoldBothTracks(g *gathered) (out []note) {
	for i, r := range g.binding.Routes {
		at := fmt.Sprintf("/routes/%d", i)
		if len(r.Split) == 0 {
			out = append(out, refuse(at, "noSplit", "give one rule both tracks as backends, or name the rule that has them",
				"no rule of %s holds both tracks", r.Ref)...)
		}
		for j, p := range r.Split {
			if p.Sum() <= 0 || p.Primary < 0 || p.Canary < 0 {
				out = append(out, refuse(at, "splitUnreadable", "give the pair weights that sum to 100",
					"rule %s of %s has the weights %d and %d, which are no split", ruleName(r, j), r.Ref, p.Primary, p.Canary)...)
			}
		}
		if !g.routes[i].Split.Ok() {
			out = append(out, refuse(at, "splitUnreadable", "", "the weights of %s cannot be read: %s", r.Ref, g.routes[i].Split.Why)...)
		}
	}
	return out
}

func ruleName(r release.BoundRoute, i int) string {
	if i < len(r.Rules) {
		return fmt.Sprintf("%q", r.Rules[i])
	}
	return fmt.Sprint(i)
}

func routesAgree(g *gathered) (out []note) {
	in := g.incoming()
	share, ok := g.present()
	if !ok {
		return nil
	}
	for i, r := range g.binding.Routes {
		for j, p := range r.Split {
			if p.Sum() > 0 && p != p.At(in, share) {
				out = append(out, refuse(fmt.Sprintf("/routes/%d", i), "splitsDiffer",
					"set all managed rules to the same share first, since they are moved together",
					"rule %s of %s gives the %s %.4g %%, and the first rule %.4g %%", ruleName(r, j), r.Ref, in, p.Share(in), share)...)
			}
		}
	}
	return out
}

func routesAreAccepted(g *gathered) (out []note) {
	for i, r := range g.binding.Routes {
		if r.Accepted == release.AcceptedRefused {
			out = append(out, warn(fmt.Sprintf("/routes/%d", i), "notAccepted",
				"look at the route's status; a refusal that is there already does not stop the release",
				"a controller refuses %s as it is", r.Ref)...)
		}
	}
	return out
}

func stepsAreRepresentable(g *gathered) (out []note) {
	for _, st := range g.plan {
		in := st.stage.Incoming()
		if st.Present {
			continue
		}
		for i, r := range g.binding.Routes {
			if !slices.ContainsFunc(r.Split, func(p release.Pair) bool { return p.Sum() > 0 }) || r.Representable(in, st.Share) {
				continue
			}
			out = append(out, refuse(g.stepPointer(st.Share), "notRepresentable",
				fmt.Sprintf("let the pair's weights in route %d sum to 100, or choose a step that they can express", i),
				"%g %% is more than one percent point from what the weights of %s can express (%s)", st.Share, r.Ref, pairs(r.Split))...)
		}
	}
	return out
}

func pairs(ps []release.Pair) string {
	out := make([]string, 0, len(ps))
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%d:%d", p.Primary, p.Canary))
	}
	return strings.Join(out, ", ")
}

// stepPointer points at a step of the request; the present share has none.
func (g *gathered) stepPointer(share float64) string {
	if i := slices.Index(g.spec.Steps, share); i >= 0 {
		return fmt.Sprintf("/steps/%d", i)
	}
	return "/steps"
}

func somethingIsLeft(g *gathered) []note {
	share, ok := g.present()
	if !ok || g.spec.Stages[0] == release.StagePromote {
		return nil
	}
	met := 0
	for _, s := range g.spec.Steps {
		if s <= share {
			met++
		}
	}
	in := g.incoming()
	switch {
	case met == 0:
		return nil
	case met == len(g.spec.Steps):
		return g.unless(release.AllowNoControl, refuse("/steps", "alreadyThere",
			`nothing is to be done; to have it watched, drained and sized down all the same, set "allow": ["noControl"]`,
			"the %s already has %g %%", in, share))
	}
	return warn("/steps", "stepsMet", "", "the %s has %.4g %% already: %s skipped, and the present share is judged first",
		in, share, stepList(g.spec.Steps[:met]))
}

func stepList(steps []float64) string {
	out := make([]string, 0, len(steps))
	for _, s := range steps {
		out = append(out, fmt.Sprintf("%g", s))
	}
	if len(out) == 1 {
		return "step " + out[0] + " is"
	}
	return "steps " + strings.Join(out, ", ") + " are"
}

func stepsHaveAControl(g *gathered) []note {
	share, ok := g.present()
	if !ok || len(g.plan) == 0 || share >= g.spec.Steps[len(g.spec.Steps)-1] {
		return nil
	}
	if slices.ContainsFunc(g.plan, func(s step) bool { return s.Share < 100 }) {
		return nil
	}
	return g.unless(release.AllowNoControl, refuse("/steps", "noControl", `add a step below 100, or set "allow": ["noControl"]`,
		"no step that is left has a control to compare with"))
}

func servingTracksAreReady(g *gathered) (out []note) {
	for t, s := range g.tracks {
		tr, b := release.Track(t), g.binding.Tracks[t]
		share := g.share(tr)
		if share <= 0 {
			continue
		}
		at := "/" + tr.String() + "/deployment"
		need := release.Need(g.binding.Full, share, g.spec.Size)
		ready := min(s.Ready.Val, s.Endpoints.Val)
		switch {
		case !s.Ready.Ok() || !s.Endpoints.Ok():
			out = append(out, refuse(at, "notReadable", "", "the pods of Deployment %s cannot be seen: %s%s", b.Deployment, s.Ready.Why, s.Endpoints.Why)...)
		case b.Replicas == 0 || ready == 0:
			out = append(out, refuse(at, "servesNothing", "give the track that has the traffic ready pods first",
				"the %s has %.4g %% of the traffic, and no ready pod", tr, share)...)
		case ready < need:
			out = append(out, warn(at, "servesShort", "", "the %s has %.4g %% of the traffic and %d of the %d ready pods that it needs", tr, share, ready, need)...)
		}
	}
	return out
}

func podsCanStart(g *gathered) (out []note) {
	for t, s := range g.tracks {
		for _, tr := range s.Trouble {
			if tr.Kind != release.TroubleTerminal || tr.Template != "" && tr.Template != g.binding.Tracks[t].Template.Hash {
				continue
			}
			out = append(out, refuse("/"+release.Track(t).String()+"/deployment", "podsCannotStart", "repair that first; waiting will not help",
				"pod %s of the %s: %s %s", tr.Pod, release.Track(t), tr.Reason, tr.Message)...)
			break
		}
	}
	return out
}

func undoHasATarget(g *gathered) []note {
	if g.spec.Stages[0] != release.StageShift {
		return nil // what a promote changes goes back to what is there now
	}
	in := g.incoming()
	b := g.binding.Tracks[in]
	at := "/" + in.String() + "/deployment"
	switch {
	case b.UndoTo == nil:
		return refuse(at, "noUndoTarget", "deploy the new version over the old one, with revisionHistoryLimit above 0, so that there is a way back",
			"Deployment %s has no older ReplicaSet with another template, so it could not be undone", b.Deployment)
	case b.UndoTo.Hash == b.Template.Hash:
		return refuse(at, "noUndoTarget", "look at the Deployment's history",
			"an undo of Deployment %s would lead to the template that it has (%s)", b.Deployment, b.Template.Hash)
	}
	return nil
}

func tracksAgree(g *gathered) []note {
	differ := g.imagesThatDiffer()
	if len(differ) == 0 || g.spec.Stages[0] != release.StageShift {
		return nil
	}
	return refuse("/stages", "versionsDiffer", "bring both tracks to the version that is released first: a shift moves traffic between two tracks that hold it",
		"the tracks run different images (primary and canary): %s", strings.Join(differ, "; "))
}

// imagesThatDiffer names the containers of both tracks with different images.
func (g *gathered) imagesThatDiffer() []string {
	p, c := g.binding.Tracks[release.Primary].Template.Images, g.binding.Tracks[release.Canary].Template.Images
	var differ []string
	for name, image := range p {
		if other, ok := c[name]; ok && other != image {
			differ = append(differ, fmt.Sprintf("%s: %s and %s", name, image, other))
		}
	}
	slices.Sort(differ)
	return differ
}

func tracksDiffer(g *gathered) []note {
	if g.spec.Stages[0] == release.StageShift || len(g.imagesThatDiffer()) > 0 {
		return nil
	}
	return refuse("/canary/deployment", "sameVersion", "deploy the new version to the canary first; if the primary has it already, run only the stage shift",
		"both tracks run the same images, so there is nothing to release")
}

// imagesHaveNames refuses what may be something else tomorrow by its very name,
// among the images that a release tells apart.
func imagesHaveNames(g *gathered) (out []note) {
	if g.spec.Stages[0] == release.StageShift {
		return nil // what an undo leads to is looked at where the history is read
	}
	for t := release.Primary; t <= release.Canary; t++ {
		images, other := g.binding.Tracks[t].Template.Images, g.binding.Tracks[t.Other()].Template.Images
		for _, name := range slices.Sorted(maps.Keys(images)) {
			if images[name] == other[name] || !floating(images[name]) {
				continue
			}
			n := refuse("/"+t.String()+"/deployment", "latestImage", "deploy it by a tag of its own or by digest",
				"container %s of the %s changes, and what %q is, nobody can say afterwards", name, t, images[name])
			n[0].warning = g.spec.Preset == "dev"
			out = append(out, n...)
		}
	}
	return out
}

// floating reports an image without a tag or digest, or with the tag latest.
func floating(image string) bool {
	if strings.Contains(image, "@") {
		return false
	}
	base := image[strings.LastIndex(image, "/")+1:]
	_, tag, tagged := strings.Cut(base, ":")
	return !tagged || tag == "latest"
}

func primaryIsIdle(g *gathered) (out []note) {
	if !g.runs(release.StagePromote) {
		return nil
	}
	const at = "/primary/deployment"
	if share := g.share(release.Primary); g.spec.Stages[0] == release.StagePromote && share > 0 {
		out = append(out, refuse("/stages", "primaryServes", `take its traffic away first, with the stage canary: "stages": ["canary", "promote"]`,
			"the primary has %.4g %% of the traffic, and a promote is done at none", share)...)
	}
	if b := g.binding.Tracks[release.Primary]; b.Replicas == 0 {
		out = append(out, refuse(at, "noPods", "give the primary a pod first",
			"Deployment %s has no pods, so a promote would prove nothing", b.Deployment)...)
	}
	return out
}

func telemetryAnswers(g *gathered) []note {
	const fix = "repair the metrics source first: without it nothing can pass, and the release would only be held"
	rd := g.reading
	grace := max(g.spec.Gate.TelemetryGrace, 8*g.binding.Scrape)
	switch age := g.now.Sub(rd.At); {
	case rd.Trouble != "":
		return refuse("/metrics", "telemetryUnavailable", fix, "the telemetry does not answer now: %s", rd.Trouble)
	case rd.At.IsZero():
		return refuse("/metrics", "telemetryUnavailable", fix, "the telemetry answers with no data about these tracks")
	case age > grace:
		return refuse("/metrics", "telemetryUnavailable", fix, "the newest data of the telemetry are %s old, above the grace of %s",
			age.Round(time.Second), grace)
	}
	return nil
}

// trafficIsSplitAsDeclared warns where the counts do not look like the routes:
// then the metrics are of other traffic, or the data plane has another split.
func trafficIsSplitAsDeclared(g *gathered) []note {
	const enough, tolerance = 100, 10
	declared, ok := g.present()
	if !ok || g.traffic.seen < enough || g.traffic.rps() <= 0 {
		return nil
	}
	counted := 100 * g.traffic.rate[g.incoming()] / g.traffic.rps()
	if math.Abs(counted-declared) <= tolerance {
		return nil
	}
	return warn("/metrics", "trafficMismatch", "see whether the metrics are of these routes and tracks",
		"the routes give the %s %.4g %%, and %.3g %% of the requests are counted there", g.incoming(), declared, counted)
}

// stepsAreCertifiable refuses steps that could only end inconclusive, and says
// the way out.
func stepsAreCertifiable(g *gathered) (out []note) {
	if len(telemetryAnswers(g)) > 0 {
		return nil // that is said already, and the traffic is not known
	}
	if len(g.plan) == 0 {
		return nil // a promote alone is judged by its pods
	}
	if g.traffic.at.IsZero() || g.traffic.rps() <= 0 {
		return g.unless(release.AllowUncertain, refuse("", "uncertain", `send traffic first, or set "allow": ["uncertain"]`,
			"no managed request was counted in the last %s, so no step can be certified", lookBack(g.binding.Scrape)))
	}
	for i, e := range g.expected {
		st := g.plan[i]
		var n []note
		switch s := g.slowest[i]; {
		case !e.Certifiable:
			n = refuse(g.stepPointer(st.Share), "uncertain", g.wayOut(e, st.Share < 100), "%s", g.uncertainty(e, st, g.failing()))
		case s.asked && !s.Certifiable:
			n = refuse(g.stepPointer(st.Share), "uncertain", g.wayOutOfSlow(s), "%s", g.uncertainty(s.Expectation, st, s.text()))
		default:
			continue
		}
		if !slices.ContainsFunc(out, func(m note) bool { return m.Pointer == n[0].Pointer }) { // two stages may have the step
			out = append(out, n...)
		}
	}
	return g.unless(release.AllowUncertain, out)
}

// failing says how many requests fail now.
func (g *gathered) failing() string {
	if g.traffic.bad <= 0 {
		return ""
	}
	return fmt.Sprintf(" of which %.2g %% fail", 100*g.traffic.bad)
}

// uncertainty says why a step could not be certified; which says what the
// requests are like.
func (g *gathered) uncertainty(e analysis.Expectation, st step, which string) string {
	share := st.Share
	now := fmt.Sprintf("at %.3g requests/s", g.traffic.rps()) + which
	if e.Requests == 0 {
		return fmt.Sprintf("%s, no number of requests certifies the step of %g %%", now, share)
	}
	return fmt.Sprintf("%s, the step of %g %% needs about %.0f requests on the %s, which takes %s, and its window is %s",
		now, share, math.Ceil(e.Requests), st.stage.Incoming(), readable(e.Time), readable(g.spec.Gate.MaxWindow))
}
