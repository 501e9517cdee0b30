package release

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts anew")

// TestTranscripts plays testdata/*.txt. A line that begins with a word is a fact
// that changes; "turn" asks Decide and prints what it answers below itself.
// Run with -rewrite to write the answers anew, and read the difference.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("transcripts: %v, %v", files, err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(b))
			if *rewrite {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(b) {
				t.Errorf("%s differs; run with -rewrite and read the difference. Got:\n%s", f, got)
			}
		})
	}
}

// play runs a transcript and returns it with the answers as they are.
func play(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	s := newScript()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "    ") {
			continue // an old answer
		}
		out.WriteString(line + "\n")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if words[0] == "turn" {
			out.WriteString(s.turn())
			checkIntent(t, s.last)
			continue
		}
		if err := s.do(words); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return out.String()
}

// checkIntent wants what is done to be in the record that is saved before (I12).
func checkIntent(t *testing.T, d Decision) {
	t.Helper()
	if n := len(d.Actions); n > 0 && (!d.Save || !slices.EqualFunc(d.Actions, d.Next.Intent, func(a, b Action) bool { return a.String() == b.String() })) {
		t.Errorf("I12: does %v, saved %v with the intent %v", d.Actions, d.Save, d.Next.Intent)
	}
	if d.Next.Phase.Terminal() && (len(d.Actions) > 0 || !d.Wake.IsZero()) {
		t.Errorf("I11: ended, but does %v and looks again at %s", d.Actions, d.Wake)
	}
}

// script is a world that is told what is true.
type script struct {
	start time.Time
	seen  Observation // before the API server went away
	r     Release
	o     Observation
	last  Decision
	begun bool
	spec  Spec
}

func newScript() *script {
	s := &script{start: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	s.spec = Spec{
		Routes: []RouteRef{{Kind: "HTTPRoute", Namespace: "shop", Name: "checkout"}},
		Size:   Size{Headroom: 1, MinReplicas: 1},
		Tracks: [2]TrackSpec{{Service: "checkout", Deployment: "checkout"}, {Service: "checkout-canary", Deployment: "checkout-canary"}},
	}.WithDefaults()
	s.o = Observation{Now: s.start, Epoch: 1, Routes: []RouteState{{
		Ref: s.spec.Routes[0], UID: "r-1", Split: Known([]Pair{{0, 100}}, s.start),
		Accepted: Known(AcceptedYes, s.start), Epoch: Known(uint64(1), s.start), Marked: Known("", s.start),
	}}}
	v1 := Template{Hash: "p1", Images: map[string]string{"app": "checkout:v1"}}
	for t := Primary; t <= Canary; t++ {
		tpl := Template{Hash: t.String()[:1] + "2", Images: map[string]string{"app": "checkout:v2"}}
		s.o.Tracks[t] = TrackState{UID: "d-" + t.String(), Template: Known(tpl, s.start), History: []Template{tpl}}
		s.pods(t, 4)
	}
	s.o.Tracks[Primary].History = append(s.o.Tracks[Primary].History, v1)
	return s
}

func (s *script) pods(t Track, n int) {
	tr := &s.o.Tracks[t]
	tr.Desired, tr.Ready, tr.Endpoints = Known(n, s.start), Known(n, s.start), Known(n, s.start)
	tr.Leaving, tr.Stale, tr.Floor = Known(0, s.start), Known(0, s.start), Known(-1, s.start)
}

func (s *script) begin() {
	if s.begun {
		return
	}
	s.begun = true
	b := Binding{Key: Key{"shop", "r1"}, Full: 4, Scrape: 15 * time.Second}
	b.Routes = []BoundRoute{{Ref: s.spec.Routes[0], UID: "r-1", Split: s.o.Routes[0].Split.Val, Accepted: AcceptedYes}}
	for t := Primary; t <= Canary; t++ {
		tr := s.o.Tracks[t]
		b.Tracks[t] = BoundTrack{Deployment: s.spec.Tracks[t].Deployment, UID: tr.UID, Replicas: tr.Desired.Val, Template: tr.Template.Val, Service: s.spec.Tracks[t].Service}
	}
	if h := s.o.Tracks[Primary].History; len(h) > 1 {
		b.Tracks[Primary].UndoTo = &h[1]
	}
	s.r = New(b.Key, "uid", s.spec, b, "pipeline", s.o.Now)
}

func (s *script) turn() string {
	s.begin()
	if s.r.Declared.IsZero() {
		s.o.Shown = Fact[analysis.Shown]{}
	}
	d := Decide(s.r, s.o)
	s.last, s.r = d, d.Next
	out := fmt.Sprintf("    %s (%s), target %g, step %d", s.r.Phase, s.r.Reason, s.r.Target, s.r.StepIx+1)
	if !d.Wake.IsZero() {
		out += fmt.Sprintf(", look again in %s", d.Wake.Sub(s.o.Now))
	}
	if d.Save {
		out += ", save"
	}
	out += "\n"
	for _, a := range d.Actions {
		out += "    - " + a.String() + "\n"
	}
	if d.Say != "" {
		out += "    \"" + d.Say + "\"\n"
	}
	if s.r.Phase.Terminal() && len(s.r.Unverified) > 0 {
		out += fmt.Sprintf("    unverified: %v\n", s.r.Unverified)
	}
	if s.r.NeedsHuman && s.r.Phase.Terminal() {
		out += "    needs a person\n"
	}
	return out
}

// do changes a fact. The verbs:
//
//	stages A,B,C       before the first turn; without shift alone, the primary is on v1
//	preset NAME | shrink NAME | steps A,B,C | end-replicas N | share N | exposure D   before the first turn
//	begin              the request is accepted
//	after D            time passes
//	apply              the last decision's actions happen
//	weights P/C        the route declares another split
//	pods TRACK N       the track has N pods, all ready
//	ready TRACK N      N of the track's pods are ready
//	stale TRACK N      N of the track's pods have an older template
//	template TRACK H   the track's template changes
//	trouble TRACK KIND REASON
//	shown yes|no|unknown, accepted yes|refused|unknown
//	recreated route|primary|canary   the object is another one by UID
//	lost TRACK         the Deployment is gone: nothing is known of its pods
//	verdict REASON [D] what the judge says, see analysis.Reason; on data that are D old
//	drain TRACK STATUS
//	abort TRAFFIC MODE a command arrives
//	failed ACTION KIND the last turn's action failed
//	marked NAME        the route carries the label of a release, or of none
//	epoch N | epoch-unseen   the writer that the route names
//	api away [all]|back [as-was]   the API server; all: the tracks cannot be read either
//	crash              the process is lost; the record is loaded again
func (s *script) do(w []string) error {
	arg := func(i int) string {
		if i < len(w) {
			return w[i]
		}
		return ""
	}
	switch w[0] {
	case "stages":
		s.stages(strings.Split(arg(1), ","))
	case "preset", "shrink", "steps", "end-replicas", "share", "allow", "exposure":
		return s.set(w[0], arg(1))
	case "begin":
		s.begin()
	case "after":
		d, err := time.ParseDuration(arg(1))
		s.o.Now = s.o.Now.Add(d)
		s.o.Failed = nil
		return err
	case "apply":
		s.apply()
	case "verdict":
		old, err := time.ParseDuration(cmp.Or(arg(2), "0s"))
		s.verdict(analysis.Reason(arg(1)), old)
		return err
	case "abort":
		s.o.Inbox = append(s.o.Inbox, Command{Seq: uint64(len(s.o.Inbox) + 1), Verb: VerbAbort, Traffic: Traffic(arg(1)), Mode: Mode(arg(2)), Subject: "alice"})
	case "failed":
		s.o.Failed = []ActionError{{Kind: arg(1), Err: ErrKind(arg(2)), Text: "as told", At: s.o.Now}}
	case "api":
		s.api(arg(1) == "away", arg(2))
	case "crash":
		s.r = Resume(roundTrip(s.r), s.o.Now)
	case "weights", "epoch", "epoch-unseen", "marked", "accepted", "shown":
		return s.route(w[0], arg(1))
	default:
		return s.track(w[0], arg(1), arg(2), arg(3))
	}
	return nil
}

// route changes what is seen of the route.
func (s *script) route(what, v string) error {
	rt := &s.o.Routes[0]
	switch what {
	case "weights":
		var p, c int32
		if _, err := fmt.Sscanf(v, "%d/%d", &p, &c); err != nil {
			return err
		}
		rt.Split = Known([]Pair{{p, c}}, s.o.Now)
	case "epoch":
		n, err := strconv.ParseUint(v, 10, 64)
		rt.Epoch = Known(n, s.o.Now)
		return err
	case "epoch-unseen":
		rt.Epoch = Unseen[uint64]("connection refused")
	case "marked":
		rt.Marked = Known(v, s.o.Now)
	case "accepted":
		rt.Accepted = Known(map[string]Acceptance{"yes": AcceptedYes, "refused": AcceptedRefused, "unknown": AcceptedUnknown}[v], s.o.Now)
	case "shown":
		sh := analysis.Shown{Status: analysis.ShownStatus(v), At: s.o.Now}
		if v == "no" {
			sh.Lagging = []string{"gateway-2"}
		}
		s.o.Shown = Known(sh, s.o.Now)
	}
	return nil
}

// track changes what is seen of a track.
func (s *script) track(verb, name, a, b string) error {
	t := Primary
	if name == "canary" {
		t = Canary
	}
	n, _ := strconv.Atoi(a)
	tr := &s.o.Tracks[t]
	switch verb {
	case "pods":
		s.pods(t, n)
	case "ready":
		tr.Ready, tr.Endpoints = Known(n, s.o.Now), Known(n, s.o.Now)
	case "stale":
		tr.Stale = Known(n, s.o.Now)
	case "template":
		tr.Template = Known(Template{Hash: a}, s.o.Now)
	case "trouble":
		tr.Trouble = []Trouble{{Kind: TroubleKind(a), Reason: b, Pod: "pod-1"}}
	case "recreated":
		if name == "route" {
			s.o.Routes[0].UID = "another"
		} else {
			tr.UID = "another"
		}
	case "lost":
		n := Unseen[int]("Deployment does not exist")
		tr.Desired, tr.Ready, tr.Endpoints = n, n, n
	case "drain":
		st := drain.State{Status: drain.Status(a), Took: 3 * time.Second, Why: "as told", At: s.o.Now}
		if b != "" {
			st.Senders = []string{b}
		}
		s.o.Drain[t] = Known(st, s.o.Now)
	default:
		return fmt.Errorf("verb %q is not known", verb)
	}
	return nil
}

func (s *script) set(what, v string) error {
	switch what {
	case "preset":
		s.spec.Preset = v
	case "shrink":
		s.spec.Shrink = Shrink(v)
	case "allow":
		s.spec.Allow = []Allow{Allow(v)}
	case "end-replicas":
		s.spec.EndReplicas, _ = strconv.Atoi(v)
	case "exposure":
		d, err := time.ParseDuration(v)
		s.spec.Deadlines.Exposure = d
		return err
	case "share":
		n, err := strconv.ParseFloat(v, 64)
		s.o.Routes[0].Split = Known([]Pair{Pair{0, 100}.At(Primary, n)}, s.o.Now)
		return err
	case "steps":
		s.spec.Steps = nil
		for p := range strings.SplitSeq(v, ",") {
			n, err := strconv.ParseFloat(p, 64)
			if err != nil {
				return err
			}
			s.spec.Steps = append(s.spec.Steps, n)
		}
	}
	return nil
}

// stages sets the world up for other stages than shift alone.
func (s *script) stages(names []string) {
	s.spec.Stages = nil
	for _, n := range names {
		s.spec.Stages = append(s.spec.Stages, Stage(n))
	}
	if s.spec.Stages[0] == StageShift {
		return
	}
	tr := &s.o.Tracks[Primary]
	v1 := tr.History[1]
	tr.Template, tr.History = Known(v1, s.start), []Template{v1}
	if s.spec.Stages[0] == StageCanary {
		s.o.Routes[0].Split = Known([]Pair{{100, 0}}, s.start)
		s.pods(Canary, 0)
	}
}

func (s *script) apply() {
	for _, a := range s.last.Actions {
		switch a := a.(type) {
		case SetShare:
			s.o.Routes[0].Split = Known(a.To, s.o.Now)
			s.o.Shown = Fact[analysis.Shown]{}
		case Scale:
			s.pods(a.Track, a.Replicas)
		case Promote:
			tpl := Template{Hash: "p2", Images: a.Images}
			s.o.Tracks[a.Track].Template = Known(tpl, s.o.Now)
			s.o.Tracks[a.Track].History = []Template{tpl, a.From}
		case Undo:
			s.o.Tracks[a.Track].Template = Known(a.To, s.o.Now)
		case Mark:
			name := ""
			if a.On {
				name = s.r.Key.Name
			}
			s.o.Routes[0].Marked = Known(name, s.o.Now)
		}
	}
}

func (s *script) verdict(why analysis.Reason, old time.Duration) {
	v := analysis.Verdict{Outcome: analysis.Inconclusive, Reason: why, At: s.o.Now, Data: s.o.Now.Add(-old), Share: s.r.Target, Left: time.Minute}
	v.Candidate, v.Baseline = analysis.Counts{Requests: 1000}, analysis.Counts{Requests: 1000}
	switch why {
	case analysis.Certified, analysis.SoakClean:
		v.Outcome = analysis.Pass
	case analysis.Regression, analysis.SafetyLimit, analysis.GuardAlarmAgain:
		v.Outcome, v.Candidate.Bad = analysis.Fail, 50
	}
	v.SeenCandidate, v.SeenBaseline = v.Candidate, v.Baseline
	s.o.Verdict = Known(v, s.o.Now)
}

func (s *script) api(away bool, how string) {
	if !away && how == "as-was" {
		s.o.Unreachable, s.o.Routes, s.o.Tracks = "", s.seen.Routes, s.seen.Tracks
		return
	}
	if !away {
		fresh := newScript()
		s.o.Unreachable = ""
		split, marked := s.r.Target, s.r.Key.Name
		s.o.Routes = fresh.o.Routes
		s.o.Routes[0].Split = Known([]Pair{Pair{0, 100}.At(Primary, split)}, s.o.Now)
		s.o.Routes[0].Marked = Known(marked, s.o.Now)
		return
	}
	s.seen = s.o
	s.seen.Routes = slices.Clone(s.o.Routes)
	if how == "all" {
		s.o.Tracks = [2]TrackState{}
	}
	s.o.Unreachable = "connection refused"
	s.o.Routes[0].Split, s.o.Routes[0].Marked = Unseen[[]Pair]("connection refused"), Unseen[string]("connection refused")
}
