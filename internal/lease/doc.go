// Package lease says who may write: it elects one replica by a Lease of
// coordination.k8s.io/v1.
//
// A replica holds the Lease as long as it renews it. Its time counts from before
// a renewal was sent, and that of those who wait from after they saw a change,
// each on its own clock: what a clock elsewhere says is written for people and
// never compared. So a holder that renews no more has stopped before another one
// can begin. A Lease that names somebody else, or that is gone, is lost at once,
// and a lost Lease is not taken again: the process ends, and a new one waits in
// line.
//
// A process that slept through all this, or a write that was under way, may still
// arrive late. Against that stands the epoch, which is the store's: the Lease
// makes it rare, the epoch makes it harmless.
package lease
