// Package kubetest is a small API server in memory, for tests of what speaks to a
// cluster. It speaks HTTP, so that clients are tested with what they really send
// and get, and it answers as a real one does where they rely on it: creation and
// its conflict, updates and deletions that name a resource version, JSON Patches
// with tests (a failed one is a 422 without causes), refusals of the schema (with
// causes), kinds and namespaces that are not there, generations, field managers,
// the scale subresource, lists in pages of one moment, and watches from a resource
// version on, with their bookmarks, their silence and their end. It has no controllers but those
// that a test gives it.
package kubetest
