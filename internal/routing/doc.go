// Package routing is a hand: it reads and sets the split of an HTTPRoute, a
// GRPCRoute or a VirtualService, and nothing else of that route.
//
// The edit is pure and comes first: [Find] takes a route as it was read and says
// in which rules the managed pair stands and how it is divided, and
// [Split.SetShare] makes the one JSON Patch that moves it. [Routes] is the thin
// client around them, which reads from a mirror while a Watch keeps one that is
// current, and live before it writes. It satisfies the engine's Router and Watcher
// and preflight's Routes by shape.
//
// Invariant: of a route's spec only the weights of the managed pair change, and
// only while everything that the patch relies on is as it was read. Each patch
// tests the object's UID, the names of the rules, the identity of both backends,
// their old weights and the epoch of the last writer, so that the API server
// applies all of it or nothing. Beside the weights it writes the annotations of
// the fence (who wrote, at which epoch and step, and which track is the safe
// one) and, by [Routes.Mark], one label while a release is under way.
//
// Why a JSON Patch: spec.rules, backendRefs and a VirtualService's http are
// atomic lists, so server-side apply can only own them whole, and a typed update
// sends back what its types happen to know; Istio's drop a weight of 0. For the
// same reason routes are read as they lie in the API, into narrow types that
// tell an absent weight from a 0.
package routing
