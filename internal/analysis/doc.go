// Package analysis is the judge of health: from counts of requests and bad
// events on two sides (failed ones, slow ones), and from gauges of what they
// use, it says pass, fail or inconclusive, and from counts of new requests per
// proxy whether a split is shown by the data plane.
//
// It is pure: it holds no clock and does no I/O. It speaks of a candidate (the
// track that gains share) and a baseline (the track that loses it). Fail and
// pass each need their own e-value (Grünwald, de Heide, Koolen; the window
// factor is derived at logFactor); whatever is neither is inconclusive with a
// reason. No data is never a pass, and a broken telemetry stack is never the
// candidate's fault.
package analysis
