package release

// Phase is where a release is. The words are the same in the API, on the page,
// in logs and in metrics.
type Phase string

// The phases. Every one has a deadline and a way out (see transitions), and the
// last five are terminal: final and inert.
const (
	// Pending: accepted, waiting for its turn.
	Pending Phase = "pending"
	// Preflight: what was sound when it was posted is looked at again, and the
	// routes are marked. Nothing has moved.
	Preflight Phase = "preflight"
	// Growing: the incoming track gets the pods that the next share needs.
	Growing Phase = "growing"
	// Shifting: the weights are being written, until all routes declare them and
	// no controller refuses.
	Shifting Phase = "shifting"
	// Settling: the weights are declared; waiting until the data plane shows them.
	Settling Phase = "settling"
	// Gating: shown; evidence is gathered until it passes, fails or time is up.
	Gating Phase = "gating"
	// Promoting: the primary takes the new version.
	Promoting Phase = "promoting"
	// Draining: a track has share 0; waiting until it is quiet.
	Draining Phase = "draining"
	// Shrinking: the quiet track goes to the size it ends with.
	Shrinking Phase = "shrinking"
	// Confirming: everything is checked once more before the end is said.
	Confirming Phase = "confirming"
	// Retreating: going back; the refuge grows, the weights move, the data plane
	// shows it.
	Retreating Phase = "retreating"
	// Undoing: the drained track goes back to its admitted template.
	Undoing Phase = "undoing"
	// Held: stopped with a reason and a deadline; traffic stays.
	Held Phase = "held"

	// Succeeded: the traffic is where it was asked to be.
	Succeeded Phase = "succeeded"
	// RolledBack: verified back.
	RolledBack Phase = "rolledBack"
	// Aborted: ended by a person or a superseding release.
	Aborted Phase = "aborted"
	// Rejected: nothing was ever touched.
	Rejected Phase = "rejected"
	// Failed: ended with something that a person must fix.
	Failed Phase = "failed"
)

// Phases lists all phases in the order of DESIGN.md.
func Phases() []Phase {
	return []Phase{
		Pending, Preflight, Growing, Shifting, Settling, Gating, Promoting, Draining,
		Shrinking, Confirming, Retreating, Undoing, Held,
		Succeeded, RolledBack, Aborted, Rejected, Failed,
	}
}

// Terminal reports whether the phase is final.
func (p Phase) Terminal() bool {
	switch p {
	case Succeeded, RolledBack, Aborted, Rejected, Failed:
		return true
	case Pending, Preflight, Growing, Shifting, Settling, Gating, Promoting, Draining,
		Shrinking, Confirming, Retreating, Undoing, Held:
		return false
	}
	return false
}

// Touches reports whether a release in the phase may have changed the world.
func (p Phase) Touches() bool { return p != Pending && p != Rejected }
