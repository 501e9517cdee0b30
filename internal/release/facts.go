package release

import (
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
)

// Fact is a value with its age. A zero At means unknown; Why then says why.
type Fact[T any] struct {
	Val T         `json:"val"`
	At  time.Time `json:"at"`
	Why string    `json:"why,omitempty"`
}

// Known makes a fact seen at a time.
func Known[T any](v T, at time.Time) Fact[T] { return Fact[T]{Val: v, At: at} }

// Unseen makes an unknown fact with the reason.
func Unseen[T any](why string) Fact[T] { return Fact[T]{Why: why} }

// Ok reports whether the value is known.
func (f Fact[T]) Ok() bool { return !f.At.IsZero() }

// Pair is the managed pair's weights in one rule.
type Pair struct {
	Primary int32 `json:"primary"`
	Canary  int32 `json:"canary"`
}

// Of returns the weight of a track.
func (p Pair) Of(t Track) int32 {
	if t == Canary {
		return p.Canary
	}
	return p.Primary
}

// Sum returns the pair's own sum, which a write keeps.
func (p Pair) Sum() int32 { return p.Primary + p.Canary }

// Share returns the track's percent of the pair; a pair of zeros has none.
func (p Pair) Share(t Track) float64 {
	if p.Sum() == 0 {
		return 0
	}
	return 100 * float64(p.Of(t)) / float64(p.Sum())
}

// At returns the pair with the same sum in which the track has the share.
func (p Pair) At(t Track, share float64) Pair {
	sum := p.Sum()
	w := int32(float64(sum)*share/100 + 0.5)
	if t == Primary {
		return Pair{Primary: w, Canary: sum - w}
	}
	return Pair{Primary: sum - w, Canary: w}
}

// Acceptance is what the controllers' status says about the last write.
type Acceptance string

// The three answers. Unknown falls back to shown.
const (
	AcceptedYes     Acceptance = "confirmed"
	AcceptedRefused Acceptance = "refused"
	AcceptedUnknown Acceptance = "unknown"
)

// RouteState is one look at a route.
type RouteState struct {
	Ref      RouteRef
	UID      string
	Split    Fact[[]Pair] // one pair per managed rule
	Accepted Fact[Acceptance]
	Refusal  string // what the controller said when it refused
	Epoch    Fact[uint64]
	Marked   Fact[string] // the release that the in-progress label names
	Foreign  string       // the field manager of a foreign write, if seen
}

// Template is a pod template by identity. Revision is for display only.
type Template struct {
	Hash     string            `json:"hash"`
	UID      string            `json:"uid,omitempty"` // of its ReplicaSet
	Revision int64             `json:"revision,omitempty"`
	Images   map[string]string `json:"images,omitempty"`
}

// TroubleKind says whether waiting may help.
type TroubleKind string

// The kinds of trouble.
const (
	TroubleTerminal  TroubleKind = "terminal"
	TroubleRetryable TroubleKind = "retryable"
)

// Trouble is a reason for which pods do not become ready.
type Trouble struct {
	Kind    TroubleKind `json:"kind"`
	Reason  string      `json:"reason"` // Kubernetes' own word: ImagePullBackOff
	Message string      `json:"message,omitempty"`
	Pod     string      `json:"pod,omitempty"`
	// Template is the hash of the template the pod has, empty when unknown.
	Template string `json:"template,omitempty"`
}

// TrackState is one look at a track's Deployment.
type TrackState struct {
	UID       string
	Desired   Fact[int] // spec.replicas
	Ready     Fact[int] // ready pods
	Endpoints Fact[int] // ready endpoints of the track's backend
	Leaving   Fact[int] // pods that are terminating
	Stale     Fact[int] // pods that have not the live template yet
	Floor     Fact[int] // the autoscaler's floor, -1 without an autoscaler
	// Pods names the live pods, terminating ones included.
	Pods     Fact[[]string]
	Template Fact[Template]
	History  []Template // owned ReplicaSets, newest first, the live one included
	Trouble  []Trouble
}

// ProxyLook is what one proxy sent to each track between From and To, counted
// at the start of requests.
type ProxyLook struct {
	Proxy string
	From  time.Time
	To    time.Time
	New   [2]float64
}

// TrackWindow is one interval of counts of one metric, per track.
type TrackWindow struct {
	Metric  string
	Stratum string
	From    time.Time
	To      time.Time
	Counts  [2]analysis.Counts
}

// Ask is what the eyes are asked: the counts of the managed traffic from the
// newest sample at or before Since to the newest visible at Now, and the
// in-flight signals of the live Pods.
type Ask struct {
	Binding Binding
	Since   time.Time
	Now     time.Time
	Pods    [2][]string
	// Bounds are the bounds of latency to tell of, in seconds. Nil asks for all
	// that there are, and an empty list for none.
	Bounds []float64
}

// Past is what a look back at one track tells: its histogram of latency over
// the last minutes, and windows of a longer time in which both sides are that
// track, so that whatever they differ by is no difference of versions.
type Past struct {
	Buckets []analysis.Bucket
	Windows []analysis.Window
}

// Sight is what can be read by way of a metrics source.
type Sight struct {
	Latency bool
	Cannot  []string // what is missing, in sentences
}

// Fence is written with every weight: who writes, for which release, and which
// track is the safe one if the record is lost.
type Fence struct {
	Key   Key
	Epoch uint64
	Step  int
	Safe  Track
}

// Reading is one look of the eyes. At is the time of the newest sample used; it
// is zero when nothing was seen, and Trouble then says what the source
// answered.
type Reading struct {
	Asked   time.Time
	At      time.Time
	Scrape  time.Duration
	Windows []TrackWindow
	Proxies []ProxyLook
	// Silent names the proxies that should report and did not.
	Silent  []string
	Drain   [2]drain.Signals
	Trouble string
	Notes   []string
}

// Observation is everything that is known of a release's world at one moment.
// Now is the only clock the brain has.
type Observation struct {
	Now    time.Time
	Epoch  uint64 // the writer's own
	Routes []RouteState
	Tracks [2]TrackState
	// The judges' answers, filled in by Assess.
	Shown   Fact[analysis.Shown]
	Verdict Fact[analysis.Verdict]
	Drain   [2]Fact[drain.State]
	Inbox   []Command
	// Unreachable says why the API server could not be asked, empty when it
	// answered.
	Unreachable string
	// Failed lists what became of the last turn's actions, where they failed for
	// a reason that the brain must know. Conflicts are not among them: the next
	// look shows what the world is.
	Failed []ActionError
	// Trouble is what the telemetry answered in place of data.
	Trouble string
}

// ErrKind is the kind of a failed action.
type ErrKind string

// The kinds, after the errors of this package.
const (
	ErrKindRefused     ErrKind = "refused"
	ErrKindForbidden   ErrKind = "forbidden"
	ErrKindFenced      ErrKind = "fenced"
	ErrKindNotFound    ErrKind = "notFound"
	ErrKindUnavailable ErrKind = "unavailable"
)

// ActionError is an action that failed.
type ActionError struct {
	Kind string  // of the action
	Err  ErrKind // of the error
	Text string
	At   time.Time
}

// Verb is what a person or a pipeline may ask of a release.
type Verb string

// VerbAbort asks for the traffic back (or frozen) and the end.
const VerbAbort Verb = "abort"

// Mode says how hasty a retreat is.
type Mode string

// The modes of abort.
const (
	ModeGraceful  Mode = "graceful"
	ModeImmediate Mode = "immediate"
	ModeForce     Mode = "force"
)

// Traffic says what an abort does with the traffic.
type Traffic string

// The two wishes.
const (
	TrafficBack Traffic = "back"
	TrafficStay Traffic = "stay"
)

// Command is one entry of a release's inbox.
type Command struct {
	Seq     uint64    `json:"seq"` // given by the store
	Verb    Verb      `json:"verb"`
	Traffic Traffic   `json:"traffic,omitempty"`
	Mode    Mode      `json:"mode,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Subject string    `json:"subject"`
	At      time.Time `json:"at"`
}
