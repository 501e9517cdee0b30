package release

import "time"

// ExpectedStep is what one step is expected to cost.
type ExpectedStep struct {
	Stage    Stage         `json:"stage,omitempty"`
	Share    float64       `json:"share"`
	Replicas [2]int        `json:"replicas"` // of both tracks while the step runs
	Requests float64       `json:"requests"` // on the incoming track, to certify it
	Time     time.Duration `json:"time"`
	// Certifiable is false when the window is too short at the present traffic.
	Certifiable bool `json:"certifiable"`
	// Control is false where there is nothing to compare with (100 percent).
	Control bool `json:"control"`
}

// Forecast is the answer of preflight: whether the release is sound, what it
// would do, and the record to create. Findings refuse it; Warnings do not.
type Forecast struct {
	Release  Release
	Findings []Finding
	Warnings []Finding
	Steps    []ExpectedStep
	Total    time.Duration
	PeakPods int
	// Rate is the managed traffic now, in requests per second.
	Rate Fact[float64]
}
