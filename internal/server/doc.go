// Package server is the front door: the HTTP API that pipelines call and the
// page that people watch. It takes wishes and shows states; it never acts. A
// command is appended to the release's inbox in the store, and the engine
// consumes it there.
//
// One answer type serves everything: [api.Release] is in GET, in every event and
// behind the page. Requests are read strictly, every error is a problem of
// RFC 9457, and nothing of an internal error reaches a client.
//
// It owns the ports that it calls (see [Releases], [Views] and [Planner]) and is
// the only package that knows echo and huma.
package server
