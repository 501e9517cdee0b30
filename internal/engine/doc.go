// Package engine is the heart: for each active release it looks, asks the brain
// what to do, saves that, and does it.
//
// One goroutine serves one release that has not ended, and none serves one that
// has. A turn (turn.go) is observe -> Assess -> Decide -> save -> act. What a
// port does not answer is an unknown fact with the reason, never a zero. The
// intent is saved before the effect; before each effect the world is read again,
// and the inbox too where the suspect would get more share, and release.Permit
// is asked. Whatever fails ends the turn's actions: the next turn looks at the
// world that is then, and no write is repeated as it was.
//
// The engine is woken by the journal's watch (a command), by the watchers of the
// objects, by [Engine.Kick], and at the time that the last decision named. It
// has no ticker. A command does not wait for the telemetry: a look under way is
// given up, and the turn decides on what is known.
//
// A fault of our own (a panic, a record that cannot be saved for what it says)
// ends its release as failed, with the traffic kept, and no other. A record that
// cannot be read is shown and left alone.
//
// After each decision the release's view is published in memory ([Views]), where
// the front door finds it. The engine is the only writer of weights, replicas
// and templates; it owns the ports that it calls (ports.go), and adapters satisfy
// them by shape.
package engine
