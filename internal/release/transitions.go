package release

// Transition is one allowed change of phase in one turn, with what brings it
// about. A turn may walk through several phases, so From and To need not be
// neighbours in DESIGN.md's drawing; Steps lists the neighbours.
type Transition struct {
	From, To Phase
	When     string
}

// Transitions is the table from which DESIGN.md is drawn. The walk checks that
// no decision takes a path that is not made of them.
func Transitions() []Transition {
	return []Transition{
		{Pending, Preflight, "its turn has come"},
		{Pending, Aborted, "abort"},
		{Preflight, Growing, "all is as admitted, and the routes are marked"},
		{Preflight, Settling, "the same, where the first stage is promote"},
		{Preflight, Rejected, "something is not as admitted; nothing was touched"},
		{Preflight, Aborted, "abort, the routes not marked yet"},
		{Preflight, Confirming, "abort, or the end is decided: only the marks are left"},
		{Preflight, Failed, "the routes cannot be marked, or their controllers refuse them"},
		{Growing, Shifting, "the incoming track has the pods for the next share"},
		{Shifting, Settling, "all routes declare the share, none refuses"},
		{Settling, Gating, "the data plane shows it, or the settle time is over where it cannot be seen"},
		{Settling, Draining, "promote: it is shown that the primary has no share"},
		{Gating, Settling, "the share was only taken as shown, and data now say otherwise"},
		{Gating, Growing, "pass, and there is a next step"},
		{Gating, Draining, "pass at 100"},
		{Gating, Shifting, "the guard at 100 rang: back to a step with a control"},
		{Draining, Shifting, "the guard at 100 rang"},
		{Draining, Shrinking, "the outgoing track is drained, assumed or forced"},
		{Draining, Promoting, "the primary has no share and is drained, and the next stage is promote"},
		{Promoting, Growing, "the new template is rolled out and steady, and the next stage is shift"},
		{Promoting, Confirming, "the same, and promote is the last stage; or the end is decided"},
		{Draining, Undoing, "retreat: the suspect's track is drained, assumed or forced"},
		{Draining, Retreating, "retreat: another hand gave the suspect share"},
		{Undoing, Shrinking, "the template is back and its pods are ready, or there is nothing to undo"},
		{Undoing, Retreating, "retreat: another hand gave the suspect share, or the restored primary gets the traffic back"},
		{Shrinking, Confirming, "the quiet track has the size that it ends with"},
		{Shrinking, Retreating, "fail, or another hand gave the suspect share"},
		{Confirming, Succeeded, "confirmed, and the marks are off"},
		{Confirming, RolledBack, "retreat: confirmed, and the marks are off"},
		{Confirming, Aborted, "the retreat of an abort is confirmed, or the traffic stays as asked"},
		{Confirming, Failed, "something that a person must fix"},
		{Retreating, Draining, "all share is on the refuge, and that is shown"},
		{Held, Growing, "cause cleared"},
		{Held, Shifting, "cause cleared"},
		{Held, Settling, "cause cleared"},
		{Held, Gating, "cause cleared"},
		{Held, Draining, "cause cleared"},
		{Held, Promoting, "cause cleared"},
		{Held, Shrinking, "cause cleared"},
		{Held, Confirming, "cause cleared, or the end is decided"},
		{Held, Retreating, "the hold is over, or the judge fails, or abort; in a retreat: cause cleared"},
		{Held, Failed, "the hold is over, and nothing else may be done"},
		{Growing, Held, "policy"},
		{Shifting, Held, "policy"},
		{Settling, Held, "policy"},
		{Gating, Held, "policy"},
		{Draining, Held, "policy"},
		{Promoting, Held, "policy"},
		{Shrinking, Held, "policy"},
		{Confirming, Held, "policy"},
		{Retreating, Held, "the refuge has not the pods and no safety limit is broken, or the API server is away"},
		{Growing, Retreating, "fail, safety limit, policy, exposure deadline or abort"},
		{Shifting, Retreating, "the same"},
		{Settling, Retreating, "the same"},
		{Gating, Retreating, "the same"},
		{Draining, Retreating, "the same"},
		{Promoting, Retreating, "the same"},
		{Confirming, Retreating, "the same"},
		{Growing, Confirming, "the end is decided, only the marks are left"},
		{Shifting, Confirming, "the same"},
		{Settling, Confirming, "the same"},
		{Gating, Confirming, "the same"},
		{Draining, Confirming, "the same, or the stage canary is over and was the last"},
		{Undoing, Confirming, "the same"},
		{Retreating, Confirming, "the same"},
	}
}
