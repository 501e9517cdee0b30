// Package release is the brain: what a release is, what can be seen of its
// world, what may be done, and what is done next.
//
// It is pure. [Decide] takes a [Release] and an [Observation] and answers with
// a [Decision]: the next release, the actions to take, when to look again, and
// a sentence for people. [Permit] is asked again on a fresh look before each
// action. [Assess] folds what the telemetry said into verdicts beforehand.
// Nothing here reads a clock, a file or a network: time is a field of the
// observation, and the same release with the same observation always gives the
// same decision.
//
// The core speaks of an incoming and an outgoing track. Which Deployment plays
// which part follows from the stage. Shares are percents of the managed
// traffic that the incoming track gets.
//
// DESIGN.md beside this file draws the phases; it is generated from the
// transition table and a test compares the two.
package release
