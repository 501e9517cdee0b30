// Package lease will say who may write: the election of one replica, and its
// epoch.
//
// It is empty so far and filled by a later change; until then a process is
// alone and counts its own epochs. What it will hold: a Lease that elects the
// writer, and a counter of its own that rises with every term. Invariants: an
// epoch is given out once, and a replica that loses the Lease stops all work
// and ends.
package lease
