// Package kubetest is a small API server in memory, for the tests of the hands
// that speak to a cluster. It speaks HTTP, so that clients are tested with what
// they really send and get, and it answers as a real one does where the hands
// rely on it: JSON Patches with tests (a failed one is a 422 without causes),
// refusals of the schema (with causes), kinds that are not served, generations,
// resource versions and their conflicts, field managers, the scale subresource,
// lists in pages, and watches. It has no controllers but those that a test gives
// it.
package kubetest
