// Package cli will be the client on the command line: it speaks to the API and
// shows its answers as a table, JSON, YAML, JUnit or Markdown.
//
// It is empty so far and filled by a later change; until then curl speaks to
// the API. What it will hold: one client, one renderer a format, and the exit
// codes that pipelines go by. Invariant: it knows the wire and nothing behind
// it.
package cli
