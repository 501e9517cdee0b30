// Package preflight makes the plan of a release before anything moves.
//
// It gathers what is there once, through its own ports (gather.go), judges it by
// a chain of named checks, each a pure function of what was gathered
// (checks.go), and answers with what refuses the release, what should be known,
// the expected course (course.go), and the record to create. A risk that the
// request accepts by name turns its finding into a warning. It writes nothing.
package preflight
