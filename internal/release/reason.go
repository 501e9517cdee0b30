package release

// Class is a kind of trouble to which a policy answers.
type Class string

// The classes.
const (
	ClassSafetyLimit          Class = "safetyLimit"
	ClassGateFailed           Class = "gateFailed"
	ClassGateInconclusive     Class = "gateInconclusive"
	ClassTelemetryUnavailable Class = "telemetryUnavailable"
	ClassCapacity             Class = "capacity"
	ClassWorkloadTerminal     Class = "workloadTerminal"
	ClassWorkloadRetryable    Class = "workloadRetryable"
	ClassTimeout              Class = "timeout"
	ClassTemplateChanged      Class = "templateChanged"
	ClassRouteRefused         Class = "routeRefused"
	ClassContested            Class = "contested"
	ClassRecreated            Class = "recreated"
	ClassConnectivity         Class = "connectivity"
	ClassUnconfirmed          Class = "unconfirmed"
	ClassInternal             Class = "internal"
)

// Reason says why a release is where it is: one word for machines, with one
// sentence for people.
type Reason string

// The reasons.
const (
	ReasonAccepted         Reason = "accepted"
	ReasonChecking         Reason = "checking"
	ReasonNotSound         Reason = "notSound"
	ReasonGrowing          Reason = "growing"
	ReasonWriting          Reason = "writing"
	ReasonAwaitingShown    Reason = "awaitingShown"
	ReasonGathering        Reason = "gathering"
	ReasonGatePassed       Reason = "gatePassed"
	ReasonGuardAlarm       Reason = "guardAlarm"
	ReasonDraining         Reason = "draining"
	ReasonPromoting        Reason = "promoting"
	ReasonShrinking        Reason = "shrinking"
	ReasonConfirming       Reason = "confirming"
	ReasonCompleted        Reason = "completed"
	ReasonSafetyLimit      Reason = "safetyLimit"
	ReasonGateFailed       Reason = "gateFailed"
	ReasonGateInconclusive Reason = "gateInconclusive"
	ReasonTelemetry        Reason = "telemetryUnavailable"
	ReasonCapacity         Reason = "capacity"
	ReasonWorkloadTerminal Reason = "workloadTerminal"
	ReasonWorkload         Reason = "workloadRetryable"
	ReasonTimeout          Reason = "timeout"
	ReasonTemplateChanged  Reason = "templateChanged"
	ReasonRouteRefused     Reason = "routeRefused"
	ReasonContested        Reason = "contested"
	ReasonRecreated        Reason = "recreated"
	ReasonConnectivity     Reason = "connectivity"
	ReasonUnconfirmed      Reason = "unconfirmed"
	ReasonInternal         Reason = "internal"
	ReasonExposure         Reason = "exposureDeadline"
	ReasonAbortRequested   Reason = "abortRequested"
	ReasonAbortedByWeight  Reason = "weightTakenAway"
	ReasonFrozen           Reason = "frozen"
	ReasonUndoing          Reason = "undoing"
	ReasonUndoSkipped      Reason = "undoSkipped"
	ReasonUndoIncomplete   Reason = "undoIncomplete"
	ReasonDrainIncomplete  Reason = "drainIncomplete"
	ReasonNoRefuge         Reason = "noRefuge"
	ReasonFenced           Reason = "fenced"
)

// sentences holds one sentence a reason. It is a function so that nothing is
// global and mutable.
func sentences() map[Reason]string {
	return map[Reason]string{
		ReasonAccepted:         "The request is sound and waits for its turn.",
		ReasonChecking:         "What was sound when it was asked for is looked at once more.",
		ReasonNotSound:         "The world has changed since the request, and nothing was touched.",
		ReasonGrowing:          "The track that gains traffic gets the pods that its next share needs.",
		ReasonWriting:          "The weights are being written.",
		ReasonAwaitingShown:    "The weights are written; the data plane does not show them yet.",
		ReasonGathering:        "The data plane shows the weights; evidence is being gathered.",
		ReasonGatePassed:       "The step passed on its evidence.",
		ReasonGuardAlarm:       "The guard at full traffic rang, so the weights go back to where there is a control to compare with.",
		ReasonDraining:         "The track without share finishes what it has in flight.",
		ReasonPromoting:        "The primary takes the new version while it has no traffic.",
		ReasonShrinking:        "The quiet track goes to the size it ends with.",
		ReasonConfirming:       "Everything is checked once more before the end is said.",
		ReasonCompleted:        "The traffic is where it was asked to be, and everything was confirmed.",
		ReasonSafetyLimit:      "So many requests fail on the track under judgement that no comparison is needed.",
		ReasonGateFailed:       "The track that gains traffic fails more requests than the other one, or answers more of them slowly, beyond chance and beyond the margins.",
		ReasonGateInconclusive: "The evidence is not enough to pass the step, and its window is over.",
		ReasonTelemetry:        "The telemetry has not answered for longer than its grace.",
		ReasonCapacity:         "There are not enough ready pods for the next share.",
		ReasonWorkloadTerminal: "Pods cannot start, and waiting will not help.",
		ReasonWorkload:         "Pods do not become ready.",
		ReasonTimeout:          "The phase took longer than its budget.",
		ReasonTemplateChanged:  "Somebody changed a pod template during the release, so the evidence is void.",
		ReasonRouteRefused:     "The route's controller or the API server refused the weights.",
		ReasonContested:        "Somebody else writes the weights.",
		ReasonRecreated:        "An object of this release was deleted or made anew.",
		ReasonConnectivity:     "The API server does not answer.",
		ReasonUnconfirmed:      "The end could not be confirmed in time.",
		ReasonInternal:         "Shifter met a fault of its own; traffic is kept where it is.",
		ReasonExposure:         "The track under judgement had share for the longest time allowed without a pass.",
		ReasonAbortRequested:   "Somebody asked to stop.",
		ReasonAbortedByWeight:  "Somebody took the share of the track under judgement away by hand, which is taken as a wish to stop.",
		ReasonFrozen:           "Stopped as asked, with the traffic left where it is.",
		ReasonUndoing:          "The drained track goes back to the template that it had before.",
		ReasonUndoSkipped:      "The traffic is safe, but the template could not be undone.",
		ReasonUndoIncomplete:   "The traffic is safe, but the undone track did not become ready in time.",
		ReasonDrainIncomplete:  "Something still sends requests to a track without share, so it was left running.",
		ReasonNoRefuge:         "No track is fit to take the traffic; it stays where it is.",
		ReasonFenced:           "Another shifter with a newer epoch writes this route.",
	}
}

// Sentence says the reason in words for people.
func (r Reason) Sentence() string { return sentences()[r] }

// Reasons lists every reason.
func Reasons() []Reason {
	out := make([]Reason, 0, len(sentences()))
	for r := range sentences() {
		out = append(out, r)
	}
	return out
}
