package release

import (
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// Key names a release; it is unique and used once.
type Key struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String returns namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// RouteRef names one route that carries the split.
type RouteRef struct {
	Kind      string `json:"kind"` // HTTPRoute, GRPCRoute or VirtualService
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Rules names the rules to move; empty means every rule with both tracks.
	Rules []string `json:"rules,omitempty"`
}

// String returns kind namespace/name.
func (r RouteRef) String() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// TrackSpec says where a track's traffic goes and what runs behind it.
type TrackSpec struct {
	Service    string `json:"service"`
	Port       int32  `json:"port,omitempty"`
	Subset     string `json:"subset,omitempty"`
	Deployment string `json:"deployment"`
}

// Shrink says when the outgoing track gets smaller in the shift stage.
type Shrink string

// The shrink policies.
const (
	ShrinkBehind     Shrink = "onePassedStepBehind" // the default
	ShrinkAfterShown Shrink = "afterShown"
	ShrinkAtEnd      Shrink = "atEnd"
)

// Size turns a share into replicas.
type Size struct {
	Headroom    float64 `json:"headroom"`
	MinReplicas int     `json:"minReplicas"`
}

// Deadlines are the budgets of the phases and the longest exposure.
type Deadlines struct {
	Preflight time.Duration `json:"preflight"`
	Grow      time.Duration `json:"grow"`
	Settle    time.Duration `json:"settle"` // the wait that stands in for shown
	Shown     time.Duration `json:"shown"`  // the longest wait for shown
	Write     time.Duration `json:"write"`  // until a weight is declared and not refused
	Drain     time.Duration `json:"drain"`
	Request   time.Duration `json:"request"` // the longest request
	Undo      time.Duration `json:"undo"`
	Confirm   time.Duration `json:"confirm"`
	Exposure  time.Duration `json:"exposure"` // a suspect's longest share without a pass
	// Promote is the longest that a promote may take, Steady how long its pods
	// must have been ready.
	Promote time.Duration `json:"promote,omitempty"`
	Steady  time.Duration `json:"steady,omitempty"`
}

// The ways through the stages, and what a promote takes over from the canary.
// Only the first of each is served.
const (
	PlanLeapfrog = "leapfrog"
	PlanLean     = "lean"
	CopyImages   = "images"
	CopyPodSpec  = "podSpec"
	CopyExternal = "external"
)

// Allow is a risk that a request accepts by name.
type Allow string

// The risks that can be allowed.
const (
	AllowUnmanagedTraffic   Allow = "unmanagedTraffic"
	AllowMirrors            Allow = "mirrors"
	AllowSessionPersistence Allow = "sessionPersistence"
	AllowUncertain          Allow = "uncertain"
	AllowNoControl          Allow = "noControl"
)

// MetricsRef names a configured source of telemetry and how to read it.
type MetricsRef struct {
	Source   string `json:"source"`
	Provider string `json:"provider"`
}

// Cause says who wants this release and why.
type Cause struct {
	CI     string `json:"ci,omitempty"`
	Run    string `json:"run,omitempty"`
	Actor  string `json:"actor,omitempty"`
	Commit string `json:"commit,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Spec is what was asked for, with the defaults filled in. It never changes.
type Spec struct {
	Routes      []RouteRef        `json:"routes"`
	Tracks      [2]TrackSpec      `json:"tracks"`
	EndReplicas int               `json:"endReplicas"` // the canary's size at the end
	Stages      []Stage           `json:"stages"`
	Plan        string            `json:"plan,omitempty"` // leapfrog
	Copy        string            `json:"copy,omitempty"` // what a promote takes over: images
	Steps       []float64         `json:"steps"`          // percents, rising
	Shrink      Shrink            `json:"shrink"`
	Size        Size              `json:"size"`
	Gate        analysis.Settings `json:"gate"`
	Deadlines   Deadlines         `json:"deadlines"`
	Allow       []Allow           `json:"allow,omitempty"`
	Preset      string            `json:"preset"`
	// Holds replaces the preset's hold times, when above zero.
	Holds   time.Duration `json:"holds,omitempty"`
	Metrics MetricsRef    `json:"metrics"`
	Cause   Cause         `json:"cause"`
}

// Allows reports whether the request accepts the risk.
func (s Spec) Allows(a Allow) bool {
	for _, b := range s.Allow {
		if a == b {
			return true
		}
	}
	return false
}
