package api

// CreateRequest asks for a release. A field left out, or an empty text, takes
// its default; everything else that is written counts, zero included.
type CreateRequest struct {
	Name      string       `json:"name" doc:"Name of the release, unique in its namespace and used once" example:"checkout-4711" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	Routes    []Route      `json:"routes" doc:"The routes that carry the split; they move together" minItems:"1" maxItems:"4" nullable:"false"`
	Primary   Track        `json:"primary" doc:"The track that serves in the end"`
	Canary    CanaryTrack  `json:"canary" doc:"The track that holds the new version first"`
	Stages    []string     `json:"stages,omitempty" doc:"The stages to run, in this order: canary moves the traffic to the canary, promote gives the primary the canary's images while it has no traffic, shift moves the traffic to the primary; the default is shift" enum:"canary,promote,shift" maxItems:"3" nullable:"false" example:"[\"shift\"]"`
	Plan      string       `json:"plan,omitempty" doc:"The way through the stages; leapfrog promotes the primary while the canary has all traffic, and is the only one that is served" enum:"leapfrog,lean" default:"leapfrog" maxLength:"16"`
	Promote   *Promote     `json:"promote,omitempty" doc:"How the primary takes over the new version"`
	Steps     []float64    `json:"steps,omitempty" doc:"Target shares of the incoming track in percent, rising, ending with 100; the default is 10, 25, 50, 100" exclusiveMinimum:"0" maximum:"100" maxItems:"20" nullable:"false" example:"[10,25,50,100]"`
	Shrink    string       `json:"shrink,omitempty" doc:"When the outgoing track gets smaller" enum:"onePassedStepBehind,afterShown,atEnd" default:"onePassedStepBehind" maxLength:"64"`
	Size      *Size        `json:"size,omitempty" doc:"How a share becomes replicas"`
	Gates     *Gates       `json:"gates,omitempty" doc:"The judge's numbers"`
	Deadlines *Deadlines   `json:"deadlines,omitempty" doc:"The longest that each phase may work"`
	Allow     []string     `json:"allow,omitempty" doc:"Risks accepted by name" enum:"unmanagedTraffic,mirrors,sessionPersistence,uncertain,noControl" maxItems:"5" nullable:"false"`
	Preset    string       `json:"preset,omitempty" doc:"Which policy answers to trouble" enum:"dev,test,preprod,prod,prod-manual" default:"prod" maxLength:"64"`
	Holds     string       `json:"holds,omitempty" doc:"Replaces the preset's hold times" example:"10m" maxLength:"32"`
	Metrics   *MetricsFrom `json:"metrics,omitempty" doc:"Where the telemetry comes from"`
	Cause     *Cause       `json:"cause,omitempty" doc:"Who wants this and why; shown everywhere"`
}

// Promote says what the primary takes over from the canary.
type Promote struct {
	Copy string `json:"copy,omitempty" doc:"What is copied; only images is served, and nothing else but labels may differ" enum:"images,podSpec,external" default:"images" maxLength:"16"`
}

// Route names one route.
type Route struct {
	Kind      string   `json:"kind" doc:"Kind of the route" enum:"HTTPRoute,GRPCRoute,VirtualService" example:"HTTPRoute" maxLength:"64"`
	Name      string   `json:"name" doc:"Name of the route" example:"checkout" maxLength:"253"`
	Namespace string   `json:"namespace,omitempty" doc:"Namespace of the route; the default is the release's" maxLength:"63"`
	Rules     []string `json:"rules,omitempty" doc:"The rules to move; the default is every rule that holds both tracks" maxItems:"16" maxLength:"253" nullable:"false" example:"[\"main\"]"`
}

// Track says where a track's traffic goes and what runs behind it.
type Track struct {
	Service    string `json:"service" doc:"The Service that the route names" example:"checkout" maxLength:"63"`
	Port       int32  `json:"port,omitempty" doc:"The Service's port, when the route names one" minimum:"1" maximum:"65535" example:"8080"`
	Subset     string `json:"subset,omitempty" doc:"The subset of the Service (VirtualService)" maxLength:"63"`
	Deployment string `json:"deployment" doc:"The Deployment that runs the track" example:"checkout" maxLength:"253"`
}

// CanaryTrack is the canary's track, with the size that it ends with.
type CanaryTrack struct {
	Service     string `json:"service" doc:"The Service that the route names" example:"checkout-canary" maxLength:"63"`
	Port        int32  `json:"port,omitempty" doc:"The Service's port, when the route names one" minimum:"1" maximum:"65535" example:"8080"`
	Subset      string `json:"subset,omitempty" doc:"The subset of the Service (VirtualService)" maxLength:"63"`
	Deployment  string `json:"deployment" doc:"The Deployment that runs the track" example:"checkout-canary" maxLength:"253"`
	EndReplicas int    `json:"endReplicas,omitempty" doc:"Replicas of the canary at the end" minimum:"0" maximum:"10000" default:"0"`
}

// Size turns a share into replicas: min(full, ceil(full * share/100 * headroom)).
type Size struct {
	Headroom    *float64 `json:"headroom,omitempty" doc:"Factor on the replicas that a share needs" minimum:"1" maximum:"3" default:"1.2"`
	MinReplicas *int     `json:"minReplicas,omitempty" doc:"Fewest replicas of a track with share" minimum:"1" maximum:"1000" default:"2"`
}

// Gates are the judge's numbers. Rates and margins are shares of requests
// between 0 and 1: half a percentage point is 0.005.
type Gates struct {
	Alpha               *float64 `json:"alpha,omitempty" doc:"Chance of a false fail, over the release" default:"0.01"`
	AlphaPass           *float64 `json:"alphaPass,omitempty" doc:"Chance of a false pass of one step" default:"0.05"`
	MaxErrorRateDelta   *float64 `json:"maxErrorRateDelta,omitempty" doc:"Largest tolerable difference in error rate" default:"0.005"`
	MaxErrorRateRatio   *float64 `json:"maxErrorRateRatio,omitempty" doc:"Largest tolerable ratio of error rates" default:"1.5"`
	Mode                string   `json:"mode,omitempty" doc:"Fail when both margins are exceeded, or when either is" enum:"both,either" default:"both" maxLength:"16"`
	MinRequests         *float64 `json:"minRequests,omitempty" doc:"Requests on the candidate before a step can pass" default:"300"`
	MinBaselineRequests *float64 `json:"minBaselineRequests,omitempty" doc:"Requests on the baseline before a step can pass" default:"100"`
	MinScrapes          *int     `json:"minScrapes,omitempty" doc:"Scrapes before a step can pass" default:"4"`
	MaxErrorRate        *float64 `json:"maxErrorRate,omitempty" doc:"Safety limit on the candidate alone" default:"0.25"`
	EqualHarm           *bool    `json:"equalHarm,omitempty" doc:"Widen the margin where the share is small, so that each step risks the same harm" default:"true"`
	ToleranceGuarantee  *float64 `json:"toleranceGuarantee,omitempty" doc:"0 stops soonest; 1 never fails a difference within the margin" default:"0"`
	MaxSlowShareDelta   *float64 `json:"maxSlowShareDelta,omitempty" doc:"Largest tolerable difference in the share of slow answers; with the ratio at 0 too, latency is not judged" default:"0.01"`
	MaxSlowShareRatio   *float64 `json:"maxSlowShareRatio,omitempty" doc:"Largest tolerable ratio of the shares of slow answers" default:"1.5"`
	RequireLatency      *bool    `json:"requireLatency,omitempty" doc:"Refuse a release whose latency could not be judged; otherwise its errors are judged alone" default:"false"`
	Soak                string   `json:"soak,omitempty" doc:"Least time at a step, and the soak at 100" example:"5m" default:"5m" maxLength:"32"`
	MaxWindow           string   `json:"maxWindow,omitempty" doc:"Longest time to gather evidence for a step" example:"30m" default:"30m" maxLength:"32"`
	TelemetryGrace      string   `json:"telemetryGrace,omitempty" doc:"How long telemetry may be missing before its policy acts" example:"2m" default:"2m" maxLength:"32"`
}

// Deadlines are the budgets of the phases, as Go durations between 1s and 24h.
type Deadlines struct {
	Preflight string `json:"preflight,omitempty" doc:"To look at everything once more" default:"1m" maxLength:"32"`
	Grow      string `json:"grow,omitempty" doc:"To get pods ready" default:"5m" maxLength:"32"`
	Settle    string `json:"settle,omitempty" doc:"The wait that stands in for shown where it cannot be seen" default:"30s" maxLength:"32"`
	Shown     string `json:"shown,omitempty" doc:"The longest wait for shown" default:"2m" maxLength:"32"`
	Write     string `json:"write,omitempty" doc:"Until a weight is declared and not refused" default:"1m" maxLength:"32"`
	Drain     string `json:"drain,omitempty" doc:"Until a track without share is quiet" default:"10m" maxLength:"32"`
	Request   string `json:"request,omitempty" doc:"The longest that one request may run" default:"1m" maxLength:"32"`
	Undo      string `json:"undo,omitempty" doc:"To put a template back and get its pods ready" default:"10m" maxLength:"32"`
	Confirm   string `json:"confirm,omitempty" doc:"To confirm the end" default:"2m" maxLength:"32"`
	Promote   string `json:"promote,omitempty" doc:"To bring the new version to the primary" default:"10m" maxLength:"32"`
	Steady    string `json:"steady,omitempty" doc:"How long the promoted pods must have been ready" default:"30s" maxLength:"32"`
	Exposure  string `json:"exposure,omitempty" doc:"The longest that a suspect keeps share without a pass" default:"2h" maxLength:"32"`
}

// MetricsFrom names a configured source of telemetry, never a URL.
type MetricsFrom struct {
	Source   string `json:"source,omitempty" doc:"Name of a configured source" default:"default" maxLength:"63"`
	Provider string `json:"provider,omitempty" doc:"How to read it; the default is the source's own" maxLength:"63"`
}

// Cause says who wants a release and why.
type Cause struct {
	CI     string `json:"ci,omitempty" doc:"The pipeline system" example:"github" maxLength:"100"`
	Run    string `json:"run,omitempty" doc:"The pipeline's run" example:"4711" maxLength:"300"`
	Actor  string `json:"actor,omitempty" doc:"Who started it" maxLength:"100"`
	Commit string `json:"commit,omitempty" doc:"What is being released" maxLength:"100"`
	Reason string `json:"reason,omitempty" doc:"Why, in words" maxLength:"500"`
}

// AbortRequest asks for the end of a release.
type AbortRequest struct {
	Traffic string `json:"traffic,omitempty" doc:"What happens with the traffic: back to the track that it came from, or stay as it is" enum:"back,stay" default:"back" maxLength:"16"`
	Mode    string `json:"mode,omitempty" doc:"How hasty: graceful waits for pods and proof, immediate skips what the refuge can bear, force does not wait" enum:"graceful,immediate,force" default:"immediate" maxLength:"16"`
	Reason  string `json:"reason,omitempty" doc:"Why, in words; it is part of the record" maxLength:"500"`
}
