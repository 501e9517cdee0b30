// Package contract holds one suite of tests for each of the engine's ports that
// has more than one adapter. The sandbox runs them, and so can an adapter to a
// real cluster: it brings the port and a few ways to reach around it.
package contract
