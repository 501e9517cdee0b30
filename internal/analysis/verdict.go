package analysis

import "time"

// MetricErrors is the metric of requests that failed.
const MetricErrors = "errors"

// Counts is what one side served in one window. Reals are accepted, since a
// source may extrapolate.
type Counts struct {
	Requests float64 `json:"requests"`
	Bad      float64 `json:"bad"`
}

// Add returns the sum of both.
func (c Counts) Add(o Counts) Counts {
	return Counts{c.Requests + o.Requests, c.Bad + o.Bad}
}

// Rate returns the share of bad events, and whether there was any request.
func (c Counts) Rate() (float64, bool) {
	if c.Requests <= 0 {
		return 0, false
	}
	return c.Bad / c.Requests, true
}

// Window is one interval of counts of one metric in one stratum (a proxy, a
// source workload, a route). WarmUp marks counts that may mix two splits: they
// count for a fail and for the safety limit, never for a pass.
type Window struct {
	Metric    string    `json:"metric"`
	Stratum   string    `json:"stratum,omitempty"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Candidate Counts    `json:"candidate"`
	Baseline  Counts    `json:"baseline"`
	WarmUp    bool      `json:"warmUp,omitempty"`
}

// Mode says how the two margins combine.
type Mode string

// The modes.
const (
	ModeBoth   Mode = "both"   // fail only when both margins are exceeded
	ModeEither Mode = "either" // fail when one of them is
)

// Settings are the numbers of the gate. The zero value of a margin leaves it
// unset; [Defaults] has the usual numbers.
type Settings struct {
	Alpha               float64       `json:"alpha"`     // of the release: chance of a false fail
	AlphaPass           float64       `json:"alphaPass"` // of a step: chance of a false pass
	MaxErrorRateDelta   float64       `json:"maxErrorRateDelta"`
	MaxErrorRateRatio   float64       `json:"maxErrorRateRatio"`
	Mode                Mode          `json:"mode"`
	MinRequests         float64       `json:"minRequests"`
	MinBaselineRequests float64       `json:"minBaselineRequests"`
	MinScrapes          int           `json:"minScrapes"`
	MaxErrorRate        float64       `json:"maxErrorRate"` // safety limit on the candidate alone
	EqualHarm           bool          `json:"equalHarm"`
	ToleranceGuarantee  float64       `json:"toleranceGuarantee"` // 0, 0.5 or 1
	Soak                time.Duration `json:"soak"`
	MaxWindow           time.Duration `json:"maxWindow"`
	TelemetryGrace      time.Duration `json:"telemetryGrace"`

	// MaxSlowShareDelta and MaxSlowShareRatio are the margins of the share of
	// requests that are slower than a bound. MaxCPURatio and MaxMemoryRatio bound
	// the candidate's use per request and per pod against the baseline's. What is
	// zero is not judged.
	MaxSlowShareDelta float64 `json:"maxSlowShareDelta,omitempty"`
	MaxSlowShareRatio float64 `json:"maxSlowShareRatio,omitempty"`
	MaxCPURatio       float64 `json:"maxCpuRatio,omitempty"`
	MaxMemoryRatio    float64 `json:"maxMemoryRatio,omitempty"`
	// RequireLatency and RequireSaturation let no step below 100 pass without
	// them. Otherwise what is not there is not asked for.
	RequireLatency    bool `json:"requireLatency,omitempty"`
	RequireSaturation bool `json:"requireSaturation,omitempty"`
}

// Outcome is what a verdict comes to.
type Outcome string

// The three outcomes. Only a certified Pass lets share rise.
const (
	Pass         Outcome = "pass"
	Fail         Outcome = "fail"
	Inconclusive Outcome = "inconclusive"
)

// Reason says why a verdict is what it is.
type Reason string

// The reasons, each with the outcome it goes with.
const (
	Certified            Reason = "certified"            // pass
	SoakClean            Reason = "soakClean"            // pass, at 100
	Regression           Reason = "regression"           // fail: e-value and margins
	SafetyLimit          Reason = "safetyLimit"          // fail: candidate alone over maxErrorRate
	GuardAlarmAgain      Reason = "guardAlarmAgain"      // fail: the guard at 100 rang twice
	GuardAlarm           Reason = "guardAlarm"           // inconclusive: go back to a control
	WarmingUp            Reason = "warmingUp"            // inconclusive
	InsufficientRequests Reason = "insufficientRequests" // inconclusive
	InsufficientBaseline Reason = "insufficientBaseline" // inconclusive
	NotCertified         Reason = "notCertified"         // inconclusive: the proof is not there yet
	Soaking              Reason = "soaking"              // inconclusive: only the soak is not over
	WindowExhausted      Reason = "windowExhausted"      // inconclusive, and no time is left
	TelemetryGap         Reason = "telemetryGap"         // inconclusive: no fresh data, within the grace
	TelemetryUnavailable Reason = "telemetryUnavailable" // inconclusive: no fresh data, grace over
	TrafficMismatch      Reason = "trafficMismatch"      // inconclusive: the share is not the weight
)

// Interval is a two-sided interval with its middle.
type Interval struct {
	Low  float64 `json:"low"`
	Mid  float64 `json:"mid"`
	High float64 `json:"high"`
}

// Verdict is the judge's answer with every number needed to recompute it.
// E-values are natural logarithms, since they overflow.
type Verdict struct {
	Outcome Outcome   `json:"outcome"`
	Reason  Reason    `json:"reason"`
	Metric  string    `json:"metric,omitempty"` // the dominating metric
	At      time.Time `json:"at"`               // when it was judged
	Data    time.Time `json:"data"`             // end of the newest window
	Step    int       `json:"step"`
	Share   float64   `json:"share"` // the candidate's target share, percent

	// Candidate and Baseline are this step's counts over paired windows past
	// the warm-up, at 100 over all windows past it, and with a fail all of them.
	// Delta is their difference in rate with a 95 % interval (Newcombe 1998, for
	// display only).
	Candidate Counts `json:"candidate"`
	Baseline  Counts `json:"baseline"`
	// SeenCandidate and SeenBaseline are all counts of this step, the warm-up
	// included: a fail and the safety limit may rest on them.
	SeenCandidate Counts    `json:"seenCandidate"`
	SeenBaseline  Counts    `json:"seenBaseline"`
	Delta         *Interval `json:"delta,omitempty"`

	Margin float64 `json:"margin"` // the step's margin, a share; 0 at 100
	// LogFail decides: it fails at LogFailAt = ln(1/alpha). Evidence counts in
	// it only while the measured size is beyond the margins (Material), and so
	// it falls to the lower limit, -1e6, where that is nowhere so. LogFailRaw is
	// the same with the margins ignored. LogPass, the weakest of the proofs that a
	// pass needs, certifies at LogPassAt = ln(1/alphaPass); at 100 there is nothing to certify against and both are
	// 0. All are kept within -1e6 and 1e6, since JSON holds no infinity.
	LogFail    float64 `json:"logFail"`
	LogFailRaw float64 `json:"logFailRaw"`
	LogFailAt  float64 `json:"logFailAt"`
	LogPass    float64 `json:"logPass"`
	LogPassAt  float64 `json:"logPassAt"`
	Dispersion float64 `json:"dispersion"`
	Scrapes    int     `json:"scrapes"`
	Material   bool    `json:"material"` // measured size beyond the margins

	// LogGuard and GuardRate belong to the soak at 100, where there is no
	// control: the guard's e-value and the rate it tests against.
	LogGuard  float64 `json:"logGuard,omitempty"`
	GuardRate float64 `json:"guardRate,omitempty"`

	Elapsed time.Duration `json:"elapsed"` // since the proof of this step began
	Left    time.Duration `json:"left"`    // until the window is exhausted
	Harm    Interval      `json:"harm"`    // excess bad requests so far, over the stage
	Notes   []string      `json:"notes,omitempty"`

	// Parts are what the merged numbers above are made of, one for each metric.
	Parts []Part `json:"parts,omitempty"`
	// SafetyAt is the limit on the candidate alone that was held against
	// SeenCandidate.
	SafetyAt float64 `json:"safetyAt,omitempty"`
}

// Part is one metric's evidence. E-values are natural logarithms, within -1e6
// and 1e6.
type Part struct {
	Metric string `json:"metric"`
	// Weight is its part in the merged e-value of a fail,
	//
	//	E = sum over parts of weight * (sum over material copies of weight * exp(log) + rest)
	//
	// where rest is the weight of copies that have not started. Zero says that it
	// has no say in a fail.
	Weight  float64    `json:"weight"`
	Rest    float64    `json:"rest,omitempty"`
	Copies  []CopyPart `json:"copies,omitempty"`
	LogFail float64    `json:"logFail"`
	// Proves says that a pass needs this metric's proof, LogPass, at the step's
	// Margin.
	Proves     bool    `json:"proves,omitempty"`
	LogPass    float64 `json:"logPass"`
	Margin     float64 `json:"margin"`
	Dispersion float64 `json:"dispersion"`
	Candidate  Counts  `json:"candidate"` // of the proof
	Baseline   Counts  `json:"baseline"`
	// Usage is what a gauge showed; null for counts.
	Usage *UsagePart `json:"usage,omitempty"`
}

// CopyPart is one copy of a metric's fail product with the totals that its
// materiality is read from.
type CopyPart struct {
	Weight    float64 `json:"weight"`
	Log       float64 `json:"log"` // of the mean over the grid
	Material  bool    `json:"material,omitempty"`
	Candidate Counts  `json:"candidate"`
	Baseline  Counts  `json:"baseline"`
}

// UsagePart is a gauge's evidence: the ratio of candidate to baseline over
// batches of a minute.
type UsagePart struct {
	Batches  int     `json:"batches"`            // of the release
	Ratio    float64 `json:"ratio"`              // of the release
	Spread   float64 `json:"spread"`             // standard deviation of its logarithm
	InStep   int     `json:"inStep"`             // batches of the step
	Step     float64 `json:"step"`               // ratio of the step
	High     float64 `json:"high,omitempty"`     // upper limit of the step's ratio; 0 while there is none
	Limit    float64 `json:"limit"`              // what is tolerated
	Advisory bool    `json:"advisory,omitempty"` // it decides nothing
}

// Health says how the judge's eyes are. A zero Fresh means that nothing was
// ever seen.
type Health struct {
	Fresh   time.Time     // end of the newest window seen
	Scrape  time.Duration // interval between scrapes
	Lag     time.Duration // usual age of the newest sample, zero when unknown
	Trouble string        // what the source said, empty when it answered
	Pods    Pods          // how the candidate's pods are, as far as is known
}

// Pods is what is known of the candidate's pods in this step.
type Pods struct {
	OOMKills int     // containers that were killed for their memory
	Restarts int     // restarts of containers, of all pods together
	Memory   float64 // the largest working set as a share of its limit
}
