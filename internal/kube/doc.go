// Package kube is what all who speak to a cluster's API server have in common:
// what an answer means in the kinds of error of package release, the deadline of a
// call, and [Mirrors], which keep what is looked at often in memory by list and
// watch. It knows no resource by name and writes nothing.
package kube
