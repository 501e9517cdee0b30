// Package notify will tell others: what happened to a release, to webhooks and
// as Kubernetes Events.
//
// It is empty so far and filled by a later change; until then the story is on
// the page, in the API and on its stream of events. What it will hold: an
// outbox that survives a restart, and the sinks that it is sent to. Invariant:
// no sink can hold up or fail a release.
package notify
