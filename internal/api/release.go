package api

import "time"

// Release is the one answer about a release: in GET, in every event, in
// webhooks and on the command line.
type Release struct {
	Name      string     `json:"name" doc:"Name of the release" example:"checkout-4711"`
	Namespace string     `json:"namespace" doc:"Namespace of the release" example:"shop"`
	UID       string     `json:"uid" doc:"Identity of this attempt"`
	Created   *time.Time `json:"created" doc:"When it was accepted; null when its record cannot be read"`
	Subject   string     `json:"subject" doc:"Who asked for it"`
	Spec      Spec       `json:"spec" doc:"What was asked for, with the defaults filled in; it never changes"`
	Status    Status     `json:"status" doc:"Where it is"`
	Steps     []Step     `json:"steps" doc:"The evidence of each step, oldest first; a step judged twice has two" nullable:"false"`
	History   []Event    `json:"history" doc:"The story, oldest first; the oldest lines are dropped in the end" nullable:"false"`
	Links     Links      `json:"links" doc:"Where to go from here"`
	Revision  uint64     `json:"revision" doc:"Rises with every saved change; it is the ETag"`
	Warnings  []Finding  `json:"warnings,omitempty" doc:"In the answer to POST: what the plan found that does not refuse it" nullable:"false"`
}

// Spec is what was asked for. Durations are in seconds.
type Spec struct {
	Routes    []RouteSpec     `json:"routes" doc:"The routes that carry the split" nullable:"false"`
	Primary   TrackSpec       `json:"primary" doc:"The primary track"`
	Canary    CanarySpec      `json:"canary" doc:"The canary track"`
	Stages    []string        `json:"stages" doc:"The stages it runs" nullable:"false"`
	Plan      string          `json:"plan,omitempty" doc:"The way through the stages, where it was named"`
	Copy      string          `json:"copy,omitempty" doc:"What a promote takes over, where it was named"`
	Steps     []float64       `json:"steps" doc:"Target shares in percent" nullable:"false"`
	Shrink    string          `json:"shrink" doc:"When the outgoing track gets smaller"`
	Size      SizeSpec        `json:"size" doc:"How a share becomes replicas"`
	Gates     GatesSpec       `json:"gates" doc:"The judge's numbers"`
	Deadlines DeadlinesSpec   `json:"deadlines" doc:"Budgets of the phases, in seconds"`
	Allow     []string        `json:"allow" doc:"Risks accepted by name" nullable:"false"`
	Preset    string          `json:"preset" doc:"Which policy answers to trouble"`
	Holds     *float64        `json:"holds" doc:"Replaces the preset's hold times, in seconds; null keeps them"`
	Metrics   MetricsFromSpec `json:"metrics" doc:"Where the telemetry comes from"`
	Cause     CauseSpec       `json:"cause" doc:"Who wanted it and why"`
}

// RouteSpec names one route.
type RouteSpec struct {
	Kind      string   `json:"kind" doc:"Kind of the route" example:"HTTPRoute"`
	Namespace string   `json:"namespace" doc:"Namespace of the route"`
	Name      string   `json:"name" doc:"Name of the route"`
	Rules     []string `json:"rules" doc:"Rules to move; empty means every rule with both tracks" nullable:"false"`
}

// TrackSpec says where a track's traffic goes and what runs behind it.
type TrackSpec struct {
	Service    string `json:"service" doc:"The Service that the route names"`
	Port       *int32 `json:"port" doc:"The Service's port; null when the route names none"`
	Subset     string `json:"subset" doc:"The subset, empty without one"`
	Deployment string `json:"deployment" doc:"The Deployment"`
}

// CanarySpec is a TrackSpec with the size that the canary ends with.
type CanarySpec struct {
	Service     string `json:"service" doc:"The Service that the route names"`
	Port        *int32 `json:"port" doc:"The Service's port; null when the route names none"`
	Subset      string `json:"subset" doc:"The subset, empty without one"`
	Deployment  string `json:"deployment" doc:"The Deployment"`
	EndReplicas int    `json:"endReplicas" doc:"Replicas at the end"`
}

// SizeSpec turns a share into replicas.
type SizeSpec struct {
	Headroom    float64 `json:"headroom" doc:"Factor on the replicas that a share needs"`
	MinReplicas int     `json:"minReplicas" doc:"Fewest replicas of a track with share"`
}

// GatesSpec are the judge's numbers; rates and margins are shares of requests.
type GatesSpec struct {
	Alpha               float64 `json:"alpha" doc:"Chance of a false fail, over the release"`
	AlphaPass           float64 `json:"alphaPass" doc:"Chance of a false pass"`
	MaxErrorRateDelta   float64 `json:"maxErrorRateDelta" doc:"Largest tolerable difference"`
	MaxErrorRateRatio   float64 `json:"maxErrorRateRatio" doc:"Largest tolerable ratio"`
	Mode                string  `json:"mode" doc:"both or either"`
	MinRequests         float64 `json:"minRequests" doc:"Fewest requests on the candidate"`
	MinBaselineRequests float64 `json:"minBaselineRequests" doc:"Fewest requests on the baseline"`
	MinScrapes          int     `json:"minScrapes" doc:"Fewest scrapes"`
	MaxErrorRate        float64 `json:"maxErrorRate" doc:"Safety limit on the candidate alone"`
	EqualHarm           bool    `json:"equalHarm" doc:"Wider margin at a small share"`
	ToleranceGuarantee  float64 `json:"toleranceGuarantee" doc:"0, 0.5 or 1"`
	MaxSlowShareDelta   float64 `json:"maxSlowShareDelta" doc:"Largest tolerable difference in the share of slow answers"`
	MaxSlowShareRatio   float64 `json:"maxSlowShareRatio" doc:"Largest tolerable ratio of the shares of slow answers"`
	RequireLatency      bool    `json:"requireLatency" doc:"No step below 100 passes without latency"`
	Soak                float64 `json:"soak" doc:"Seconds"`
	MaxWindow           float64 `json:"maxWindow" doc:"Seconds"`
	TelemetryGrace      float64 `json:"telemetryGrace" doc:"Seconds"`
}

// DeadlinesSpec are the budgets of the phases, in seconds.
type DeadlinesSpec struct {
	Preflight float64 `json:"preflight" doc:"Seconds"`
	Grow      float64 `json:"grow" doc:"Seconds"`
	Settle    float64 `json:"settle" doc:"Seconds"`
	Shown     float64 `json:"shown" doc:"Seconds"`
	Write     float64 `json:"write" doc:"Seconds"`
	Drain     float64 `json:"drain" doc:"Seconds"`
	Request   float64 `json:"request" doc:"Seconds"`
	Undo      float64 `json:"undo" doc:"Seconds"`
	Confirm   float64 `json:"confirm" doc:"Seconds"`
	Exposure  float64 `json:"exposure" doc:"Seconds"`
	Promote   float64 `json:"promote,omitempty" doc:"Seconds; left out where the release does not promote"`
	Steady    float64 `json:"steady,omitempty" doc:"Seconds; left out where the release does not promote"`
}

// MetricsFromSpec names the configured source of telemetry.
type MetricsFromSpec struct {
	Source   string `json:"source" doc:"Name of the source"`
	Provider string `json:"provider" doc:"How it is read; empty means the source's own way"`
}

// CauseSpec says who wanted a release and why.
type CauseSpec struct {
	CI     string `json:"ci,omitempty" doc:"The pipeline system"`
	Run    string `json:"run,omitempty" doc:"The pipeline's run"`
	Actor  string `json:"actor,omitempty" doc:"Who started it"`
	Commit string `json:"commit,omitempty" doc:"What is being released"`
	Reason string `json:"reason,omitempty" doc:"Why, in words"`
}

// Status is where a release is. A null field does not apply or is not known; in
// the second case unknown says why.
type Status struct {
	Phase      string     `json:"phase" doc:"Where it is; the last five are final" enum:"pending,preflight,growing,shifting,settling,gating,promoting,draining,shrinking,confirming,retreating,undoing,held,succeeded,rolledBack,aborted,rejected,failed"`
	Reason     string     `json:"reason" doc:"Why, in one word for machines" example:"gathering"`
	Message    string     `json:"message" doc:"Why, in one sentence for people"`
	Ended      *time.Time `json:"ended" doc:"When it ended; null while it runs"`
	NeedsHuman bool       `json:"needsHuman" doc:"Something is left that a person must fix"`
	Unverified []string   `json:"unverified" doc:"What could not be verified at the end" nullable:"false"`
	Since      time.Time  `json:"since" doc:"When the phase began"`

	Stage    string        `json:"stage" doc:"The present stage" enum:"canary,promote,shift"`
	Step     StepNumber    `json:"step" doc:"The present step"`
	Plan     []PlannedStep `json:"plan" doc:"The steps of the stage" nullable:"false"`
	Incoming string        `json:"incoming" doc:"The track that gains share" enum:"primary,canary"`
	Outgoing string        `json:"outgoing" doc:"The track that loses share" enum:"primary,canary"`
	Share    Share         `json:"share" doc:"The incoming track's percent of the managed traffic"`
	Full     int           `json:"full" doc:"Replicas that carry all of the managed traffic"`
	Tracks   Tracks        `json:"tracks" doc:"Both tracks"`

	Gate         *Gate      `json:"gate" doc:"The last verdict with its numbers"`
	Harm         *Interval  `json:"harm" doc:"Bad requests beyond what the outgoing track would have had, over the stage, with a 95 % interval"`
	Drain        *Drain     `json:"drain" doc:"How far the track without share is quiet; null when none drains"`
	Retreat      *Retreat   `json:"retreat" doc:"The way back; null when there is none"`
	Promotion    *Promotion `json:"promotion,omitempty" doc:"How far the primary has the new version; left out where it is not promoted"`
	Hold         *Hold      `json:"hold" doc:"Why it is stopped and until when; null when it is not held"`
	ExposedUntil *time.Time `json:"exposedUntil" doc:"The latest time that a suspect keeps share without a pass"`
	Next         *Next      `json:"next" doc:"What happens next, and when at the latest; null at the end"`

	Live    bool              `json:"live" doc:"False when the numbers are the record's own, as of asOf"`
	AsOf    time.Time         `json:"asOf" doc:"When it was seen"`
	Trouble string            `json:"trouble,omitempty" doc:"What a source answered in place of data"`
	Unknown map[string]string `json:"unknown,omitempty" doc:"Why a field here is not known"`
}

// StepNumber is the present step, counted from 1.
type StepNumber struct {
	N     int     `json:"n" doc:"Counted from 1; 0 before the first"`
	Of    int     `json:"of" doc:"How many there are"`
	Share float64 `json:"share" doc:"Its target share in percent"`
}

// PlannedStep is one step of the stage's plan.
type PlannedStep struct {
	Share   float64 `json:"share" doc:"Target share in percent"`
	Present bool    `json:"present" doc:"The share that the stage began with: judged, and nothing written"`
}

// Share is the incoming track's percent of the managed traffic.
type Share struct {
	Start      float64           `json:"start" doc:"When the release was admitted"`
	Target     float64           `json:"target" doc:"To be declared"`
	Passed     float64           `json:"passed" doc:"Of the last step that passed, or the start"`
	Declared   *float64          `json:"declared" doc:"Written in the routes"`
	DeclaredAt *time.Time        `json:"declaredAt" doc:"When that was read"`
	Accepted   *string           `json:"accepted" doc:"What the routes' status says about it" enum:"confirmed,refused,unknown"`
	Shown      *float64          `json:"shown" doc:"Of the new requests counted on the data plane"`
	ShownAt    *time.Time        `json:"shownAt" doc:"End of the newest count"`
	ShownIs    string            `json:"shownIs" doc:"Whether the data plane serves the target" enum:"yes,no,unknown"`
	Requests   *float64          `json:"requests" doc:"New requests counted for shown"`
	Need       *float64          `json:"need" doc:"Requests needed to tell the target from the share before"`
	ShownBy    string            `json:"shownBy,omitempty" doc:"How the target came to be taken as shown" enum:"data,settled"`
	ShownSince *time.Time        `json:"shownSince" doc:"When it was; null while it is not"`
	Lagging    []string          `json:"lagging" doc:"Proxies that serve another split" nullable:"false"`
	Silent     []string          `json:"silent" doc:"Proxies that did not report" nullable:"false"`
	Unknown    map[string]string `json:"unknown,omitempty" doc:"Why a field here is not known"`
}

// Tracks are the two sides.
type Tracks struct {
	Primary TrackStatus `json:"primary" doc:"The primary"`
	Canary  TrackStatus `json:"canary" doc:"The canary"`
}

// TrackStatus is one side as it was seen.
type TrackStatus struct {
	Deployment string            `json:"deployment" doc:"The Deployment"`
	Service    string            `json:"service" doc:"The Service"`
	Desired    *int              `json:"desired" doc:"Replicas asked for"`
	Ready      *int              `json:"ready" doc:"Ready pods"`
	Leaving    *int              `json:"leaving" doc:"Pods that are terminating"`
	Need       *int              `json:"need" doc:"Replicas that its share needs"`
	Share      *float64          `json:"share" doc:"Its declared percent of the managed traffic"`
	Template   *Template         `json:"template" doc:"The live pod template"`
	Admitted   Template          `json:"admitted" doc:"The pod template at admission"`
	Trouble    []Trouble         `json:"trouble" doc:"Why pods are not ready" nullable:"false"`
	Unknown    map[string]string `json:"unknown,omitempty" doc:"Why a field here is not known"`
}

// Template is a pod template by identity.
type Template struct {
	Hash     string            `json:"hash" doc:"pod-template-hash"`
	Revision int64             `json:"revision,omitempty" doc:"For display only"`
	Images   map[string]string `json:"images,omitempty" doc:"Image of each container"`
}

// Trouble is a reason for which pods do not become ready.
type Trouble struct {
	Kind    string `json:"kind" doc:"Whether waiting may help" enum:"terminal,retryable"`
	Reason  string `json:"reason" doc:"Kubernetes' own word" example:"ImagePullBackOff"`
	Message string `json:"message,omitempty" doc:"In words"`
	Pod     string `json:"pod,omitempty" doc:"One pod that has it"`
}

// Gate is a verdict with every number that it rests on. Rates, differences and
// margins are shares of requests between 0 and 1.
type Gate struct {
	Outcome   string     `json:"outcome" doc:"Only pass lets share rise" enum:"pass,fail,inconclusive"`
	Reason    string     `json:"reason" doc:"Why" example:"notCertified"`
	Sentence  string     `json:"sentence" doc:"Why, in words"`
	Metric    string     `json:"metric,omitempty" doc:"The metric that decides: errors, or latency with its bound in seconds" example:"latency:0.25"`
	Share     float64    `json:"share" doc:"The candidate's target share in percent"`
	At        *time.Time `json:"at" doc:"When it was judged"`
	Data      *time.Time `json:"data" doc:"End of the newest data"`
	Candidate Arm        `json:"candidate" doc:"The incoming track"`
	Baseline  Arm        `json:"baseline" doc:"The outgoing track"`
	Delta     *Interval  `json:"delta" doc:"Difference in rate, candidate minus baseline, with a 95 % interval; null without requests on both"`
	Margin    float64    `json:"margin" doc:"The step's tolerable difference; 0 at 100, where there is no control"`
	Fail      Evidence   `json:"fail" doc:"Evidence that it is worse; it counts only while the measured size is beyond the margins"`
	FailRaw   Evidence   `json:"failRaw" doc:"The same with the margins ignored"`
	Pass      *Evidence  `json:"pass" doc:"Evidence that it is not worse by the margin; null at 100, where there is nothing to compare with"`
	Guard     *Guard     `json:"guard" doc:"The guard at 100, where there is no control; null elsewhere"`
	// Dispersion is 1 for independent requests.
	Dispersion float64 `json:"dispersion" doc:"How much the counts scatter beyond chance"`
	Scrapes    int     `json:"scrapes" doc:"Scrapes behind it"`
	Material   bool    `json:"material" doc:"The measured size is beyond the margins"`
	Elapsed    float64 `json:"elapsed" doc:"Seconds since the proof of this step began"`
	Left       float64 `json:"left" doc:"Seconds until the window is over"`
	// SafetyAt is held against what was seen of the candidate.
	SafetyAt float64    `json:"safetyAt" doc:"Safety limit on the candidate's bad rate alone; 0 where the record does not say"`
	Parts    []GatePart `json:"parts" doc:"What the numbers above are made of, one for each metric" nullable:"false"`
	Notes    []string   `json:"notes" doc:"What else the judge saw" nullable:"false"`
}

// GatePart is what one metric says. Evidence is in natural logarithms of
// e-values; those of the gate are the weighted mean over the metrics.
type GatePart struct {
	Metric     string     `json:"metric" doc:"errors, or latency with its bound in seconds" example:"latency:0.25"`
	Bound      *float64   `json:"bound" doc:"Seconds that an answer must take to count as slow; null for errors"`
	Candidate  Counts     `json:"candidate" doc:"The incoming track, since the split is shown"`
	Baseline   Counts     `json:"baseline" doc:"The outgoing track, since the split is shown"`
	Margin     float64    `json:"margin" doc:"The step's tolerable difference of this metric; 0 at 100"`
	Fail       float64    `json:"fail" doc:"Evidence that it is worse"`
	Pass       float64    `json:"pass" doc:"Evidence that it is not worse by the margin; 0 at 100, where there is nothing to compare with"`
	Proves     bool       `json:"proves" doc:"A pass needs the proof of this metric too"`
	Dispersion float64    `json:"dispersion" doc:"How much its counts scatter beyond chance"`
	Weight     float64    `json:"weight" doc:"Of the metric's kind in the evidence of a fail; 0: it has no say"`
	Rest       float64    `json:"rest" doc:"Weight of what has not begun yet; it counts as 1"`
	Copies     []GateCopy `json:"copies" doc:"The evidence of a fail, begun anew with each step; they count in a fail while they are material" nullable:"false"`
}

// GateCopy is the evidence of a fail since one step began.
type GateCopy struct {
	Weight    float64 `json:"weight" doc:"Among all that the release can begin"`
	Log       float64 `json:"log" doc:"Natural logarithm of the e-value"`
	Material  bool    `json:"material" doc:"The measured size is beyond the margins"`
	Candidate Counts  `json:"candidate" doc:"The incoming track since then"`
	Baseline  Counts  `json:"baseline" doc:"The outgoing track since then"`
}

// Counts are requests and bad ones among them: failed, or slow.
type Counts struct {
	Requests float64 `json:"requests" doc:"Requests counted"`
	Bad      float64 `json:"bad" doc:"Bad ones among them"`
}

// Arm is what one side served in a step. A pass rests on requests and bad, which
// begin when the split is shown; a fail and the safety limit also on what was
// seen before, from the moment that the weights were written.
type Arm struct {
	Requests float64  `json:"requests" doc:"Requests counted"`
	Bad      float64  `json:"bad" doc:"Bad ones among them"`
	Rate     *float64 `json:"rate" doc:"Share of bad ones; null without requests"`
	Need     float64  `json:"need" doc:"Fewest requests before the step can pass"`
	Seen     float64  `json:"seen" doc:"Requests since the weights were written, the warm-up included"`
	SeenBad  float64  `json:"seenBad" doc:"Bad ones among them"`
}

// Interval is a middle with its 95 % interval.
type Interval struct {
	Low  float64 `json:"low" doc:"Lower end"`
	Mid  float64 `json:"mid" doc:"Best guess"`
	High float64 `json:"high" doc:"Upper end"`
}

// Evidence is an e-value and its bound: how many times likelier the data are
// under the claim than against it.
type Evidence struct {
	Value *float64 `json:"value" doc:"The e-value; null when it is too large for a number, see log"`
	Bound float64  `json:"bound" doc:"The value that proves it"`
	Log   float64  `json:"log" doc:"Natural logarithm of the e-value"`
	LogAt float64  `json:"logAt" doc:"Natural logarithm of the bound"`
	Met   bool     `json:"met" doc:"The bound is reached"`
}

// Guard is the e-value of the guard at 100 and the rate it tests against.
type Guard struct {
	Value *float64 `json:"value" doc:"The e-value; null when it is too large for a number, see log"`
	Log   float64  `json:"log" doc:"Natural logarithm of the e-value"`
	Rate  float64  `json:"rate" doc:"The bad rate that it tests against"`
}

// Drain says how far a track without share is quiet.
type Drain struct {
	Status   string         `json:"status" doc:"drained was measured, assumed was waited out, forced cut something" enum:"unknown,draining,drained,assumed,forced"`
	Track    string         `json:"track" doc:"The track that drains" enum:"primary,canary"`
	Source   string         `json:"source" doc:"The signal that counts requests in flight" enum:"app,inbound,client,difference,none"`
	Since    *time.Time     `json:"since" doc:"When it began"`
	At       *time.Time     `json:"at" doc:"When it was last seen"`
	Took     float64        `json:"took" doc:"Seconds so far, or in all"`
	InFlight *float64       `json:"inFlight" doc:"Requests in flight; null when nothing tells"`
	Cut      float64        `json:"cut" doc:"Requests in flight when it was forced"`
	New      *float64       `json:"new" doc:"New requests over the quiet window; null when not known"`
	Quiet    float64        `json:"quiet" doc:"Seconds without a new request"`
	Window   float64        `json:"window" doc:"Seconds that must be without one"`
	Pods     []PodsInFlight `json:"pods" doc:"Per pod" nullable:"false"`
	Missing  []string       `json:"missing" doc:"Live pods that did not report" nullable:"false"`
	Senders  []string       `json:"senders" doc:"Proxies that still send" nullable:"false"`
	Why      string         `json:"why" doc:"In one sentence"`
}

// PodsInFlight is what one pod reports.
type PodsInFlight struct {
	Pod      string  `json:"pod" doc:"The pod"`
	InFlight float64 `json:"inFlight" doc:"Requests in flight"`
}

// Retreat is the way back.
type Retreat struct {
	Why      string     `json:"why" doc:"The reason in one word"`
	Sentence string     `json:"sentence" doc:"The reason in words"`
	Reason   string     `json:"reason,omitempty" doc:"A person's words"`
	Ends     string     `json:"ends" doc:"The phase that it leads to" enum:"rolledBack,aborted"`
	Mode     string     `json:"mode" doc:"How hasty it is" enum:"graceful,immediate,force"`
	Refuge   string     `json:"refuge" doc:"The track that gets the traffic" enum:"primary,canary"`
	Suspect  string     `json:"suspect" doc:"The template under judgement"`
	From     float64    `json:"from" doc:"The suspect's share when it began"`
	Began    time.Time  `json:"began" doc:"When it began"`
	Moved    *time.Time `json:"moved" doc:"When the suspect's share was declared 0"`
	Shown    *time.Time `json:"shown" doc:"When the data plane showed it"`
	Drained  *time.Time `json:"drained" doc:"When the suspect was quiet"`
	Undone   *time.Time `json:"undone" doc:"When its template was back and its pods ready"`
	Home     bool       `json:"home,omitempty" doc:"The refuge was left again: the primary, on which the release began, is restored and gets the traffic back"`
	Stay     bool       `json:"stay,omitempty" doc:"The traffic stays on the refuge, as asked"`
	Forced   bool       `json:"forced" doc:"Share was given beyond ready capacity, since the suspect broke a safety limit"`
}

// Promotion is how far the primary has taken over the new version.
type Promotion struct {
	Images map[string]string `json:"images" doc:"The images that it takes over, by container"`
	Asked  *time.Time        `json:"asked" doc:"When the update was first written"`
	To     *Template         `json:"to" doc:"The new template, once it was seen"`
	Steady *time.Time        `json:"steady" doc:"Rolled out and ready since"`
	Done   *time.Time        `json:"done" doc:"When it was over"`
}

// Hold is a stop with a reason and a deadline.
type Hold struct {
	Class string    `json:"class" doc:"The kind of trouble"`
	From  string    `json:"from" doc:"The phase in which it continues"`
	Since time.Time `json:"since" doc:"When it began"`
	Until time.Time `json:"until" doc:"When its policy acts"`
	Then  string    `json:"then" doc:"What its policy does then" enum:"rollback,abort,hold,retry,fail"`
}

// Next is what happens next.
type Next struct {
	Action string     `json:"action" doc:"In words"`
	At     *time.Time `json:"at" doc:"When at the latest; null when something else must happen first"`
}

// Step is the evidence for one step.
type Step struct {
	Stage    string     `json:"stage,omitempty" doc:"The stage, where the release has several; the share is that of the stage's incoming track" enum:"canary,promote,shift"`
	Share    float64    `json:"share" doc:"Target share in percent"`
	State    string     `json:"state" doc:"present: running now; ended: left without a pass" enum:"present,passed,ended"`
	Started  *time.Time `json:"started" doc:"When it began"`
	Written  *time.Time `json:"written" doc:"When the weights were written"`
	Declared *time.Time `json:"declared" doc:"When all routes declared them"`
	Accepted *time.Time `json:"accepted" doc:"When the routes' status confirmed them"`
	Shown    *time.Time `json:"shown" doc:"When the data plane showed them"`
	ShownBy  string     `json:"shownBy,omitempty" doc:"How that is known" enum:"data,settled"`
	Passed   *time.Time `json:"passed" doc:"When the gate passed it"`
	Replicas *Replicas  `json:"replicas" doc:"Of both tracks when it passed or ended"`
	Gate     *Gate      `json:"gate" doc:"The verdict that mattered"`
}

// Replicas of both tracks.
type Replicas struct {
	Primary int `json:"primary" doc:"Of the primary"`
	Canary  int `json:"canary" doc:"Of the canary"`
}

// Event is one line of the story.
type Event struct {
	Seq     uint64    `json:"seq" doc:"Rises by one"`
	At      time.Time `json:"at" doc:"When"`
	Phase   string    `json:"phase" doc:"The phase then"`
	Reason  string    `json:"reason" doc:"The reason then"`
	Text    string    `json:"text" doc:"In words"`
	Subject string    `json:"subject,omitempty" doc:"Who commanded it"`
}

// Links lead on from a release.
type Links struct {
	Self    string `json:"self" doc:"This answer"`
	Page    string `json:"page" doc:"The page for people"`
	Events  string `json:"events" doc:"The stream of events"`
	Verdict string `json:"verdict" doc:"The one URL for pipelines"`
	Abort   string `json:"abort" doc:"POST here to stop it"`
}

// List answers for several releases.
type List struct {
	Items []Release `json:"items" doc:"The releases, those waiting for a person first" nullable:"false"`
}
