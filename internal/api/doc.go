// Package api is the wire: what a request may say and what an answer looks
// like, in one shape for GET, events, webhooks and the command line.
//
// The types are listed by hand and are never the brain's own, so that nothing
// reaches a client because a struct grew a field. Requests are strict ([Strict]):
// an unknown or misspelt field is refused with its JSON pointer, since a typo
// must not switch a gate off in silence. Answers may grow; clients ignore what
// they do not know.
//
// Durations are Go strings on input ("15s") and seconds on output. Shares are
// percents of the managed traffic that the incoming track gets; error rates and
// margins are shares of requests between 0 and 1. What is not known is null,
// never 0, and the object's "unknown" says why.
package api
