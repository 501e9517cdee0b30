package release

import "time"

// Do is what a policy's link does.
type Do string

// The answers to trouble.
const (
	DoRollback Do = "rollback"
	DoAbort    Do = "abort"
	DoHold     Do = "hold"
	DoRetry    Do = "retry"
	DoFail     Do = "fail"
)

// Response is one link of a chain: what to do, and what then.
type Response struct {
	Do    Do            `json:"do"`
	For   time.Duration `json:"for,omitempty"`   // of a hold
	Times int           `json:"times,omitempty"` // of a retry
	Then  *Response     `json:"then,omitempty"`
}

// then is the next link of the chain. One that names none ends in failing, so that
// nothing is held for ever.
func (x Response) then() Response {
	if x.Then == nil {
		return Response{Do: DoFail}
	}
	return *x.Then
}

// Policy maps each class of trouble to its chain.
type Policy map[Class]Response

func hold(d time.Duration, then Do) Response {
	return Response{Do: DoHold, For: d, Then: &Response{Do: then}}
}

// Presets lists the names that a request may pick.
func Presets() []string { return []string{"dev", "test", "preprod", "prod", "prod-manual"} }

// PolicyFor returns the chains of a preset. Hold times are replaced by holds
// when it is above zero. An unknown preset is read as prod, since POST refuses
// it before.
func PolicyFor(preset string, holds time.Duration) Policy {
	d := func(def time.Duration) time.Duration {
		if holds > 0 {
			return holds
		}
		return def
	}
	rollback := Response{Do: DoRollback}
	short, long := d(10*time.Minute), d(15*time.Minute)
	judged, pods := rollback, hold(short, DoRollback)
	switch preset {
	case "dev", "test":
		short, long = d(2*time.Minute), d(2*time.Minute)
		pods = Response{Do: DoRetry, Times: 1, Then: &rollback}
	case "prod-manual":
		short, long = d(30*time.Minute), d(30*time.Minute)
		judged = hold(short, DoRollback)
		pods = hold(short, DoRollback)
	}
	return Policy{
		ClassSafetyLimit:          rollback,
		ClassGateFailed:           judged,
		ClassGateInconclusive:     hold(short, DoRollback),
		ClassTelemetryUnavailable: hold(short, DoRollback),
		ClassCapacity:             pods,
		ClassWorkloadRetryable:    pods,
		ClassTimeout:              pods,
		ClassWorkloadTerminal:     judged,
		ClassTemplateChanged:      judged,
		ClassRouteRefused:         hold(long, DoRollback),
		ClassContested:            hold(long, DoRollback),
		ClassRecreated:            hold(long, DoRollback),
		ClassConnectivity:         rollback,
		ClassUnconfirmed:          hold(long, DoFail),
		ClassInternal:             {Do: DoFail},
	}
}
