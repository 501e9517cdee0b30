// Package workload is a hand: it reads, sizes and undoes the two Deployments of
// a release in a cluster. [Workloads] satisfies the engine's Workloads and
// Watcher and preflight's Workloads by shape.
//
// A look at a track is four reads: the Deployment, its ReplicaSets, its pods and
// the EndpointSlices of its Service, the lists by label selector and in pages; or
// none, while a Watch lasts and the mirrors that it keeps are current.
// What they mean is pure (a snapshot and its facts): a pod is the track's when
// the ReplicaSet that controls it is controlled by the Deployment, whatever
// other pods the selectors may reach; a template is named by the hash of the
// ReplicaSet that has it.
//
// Invariant: nothing but replicas and the pod template is written, with the
// annotations that an undo brings back; and the template only while the live one
// is the one that is to go, in one patch that tests that nothing has changed
// since it was read. Objects are the ones that were admitted, by UID.
//
// Objects are read as they lie in the API, into narrow types, and a template is
// written back as it was read: typed values would lose what a newer API server
// knows and this client does not.
package workload
