// Package auth will say who may ask: from a token to a subject, and from a
// subject, an operation and a namespace to yes or no.
//
// It is empty so far and filled by a later change; until then the door opens on
// loopback only. What it will hold: one table with a row for every operation,
// asked through the cluster's own token and access reviews. Invariant: an
// operation without a row is denied, and so is everything while nobody can be
// asked.
package auth
