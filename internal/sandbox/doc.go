// Package sandbox is a small world in one process: everything that a release
// needs to be real, but without a cluster. `shifter demo` and tests run on it.
//
// A [World] has two Deployments whose pods are real processes of
// examples/go-api, one HTTPRoute, a weighted reverse proxy that serves the
// route, a load generator that sends real HTTP through it, a scraper that reads
// the metrics of proxy and pods over HTTP, and a Prometheus HTTP API over what
// was scraped. Its doors are [World.Routes] and [World.Workloads], which fit
// the engine's ports by shape, and the URLs of the proxy and of the API.
//
// What is kept from the real thing, because the main job depends on it:
//
//   - a written weight is accepted first and enforced later (Config.Propagation);
//   - a pod that is removed leaves the endpoints and gets SIGTERM at the same
//     moment, and the proxy hears of it later (Config.EndpointLag);
//   - a sample is visible only some time after it was scraped (Config.ReadLag);
//   - counters are born with their first event, targets come and go, processes
//     end without asking;
//   - nothing is retried, neither by the load generator nor by the proxy, so a
//     request that is lost is seen by the client.
//
// The package knows neither the engine nor the judges. Invariants: every
// goroutine and every process belongs to a World and is waited for by
// [World.Stop]; the load generator writes no metric; the faults are triggered
// by the world itself from what the route declares.
package sandbox
