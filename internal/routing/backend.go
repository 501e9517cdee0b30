package routing

import (
	"fmt"
	"strings"

	"github.com/shifter-dev/shifter/internal/release"
)

// Backend is where a track's traffic goes: a Service, or a subset of one.
type Backend struct {
	Namespace string
	Service   string
	// Port is 0 where it is not said: any port of a track, the only port of a
	// Service in a VirtualService.
	Port   int32
	Subset string
}

// String returns namespace/service, with port and subset where there are any.
func (b Backend) String() string {
	s := b.Service
	if b.Namespace != "" {
		s = b.Namespace + "/" + s
	}
	if b.Port != 0 {
		s += fmt.Sprintf(":%d", b.Port)
	}
	if b.Subset != "" {
		s += " subset " + b.Subset
	}
	return s
}

// holds reports whether a backend in a route is the one that is meant.
func (b Backend) holds(in Backend) bool {
	return b.Namespace == in.Namespace && b.Service == in.Service && b.Subset == in.Subset &&
		(b.Port == 0 || in.Port == 0 || b.Port == in.Port)
}

// reached reports whether a mirror to a backend reaches the track's pods: a
// mirror without a subset reaches those of every subset.
func (b Backend) reached(by Backend) bool {
	return b.Namespace == by.Namespace && b.Service == by.Service &&
		(b.Subset == by.Subset || by.Subset == "" || b.Subset == "")
}

// backends are the tracks of a request, whose Services are in its namespace.
func backends(namespace string, spec [2]release.TrackSpec) [2]Backend {
	var out [2]Backend
	for i, t := range spec {
		out[i] = Backend{Namespace: namespace, Service: t.Service, Port: t.Port, Subset: t.Subset}
	}
	return out
}

// bound are the tracks of a release.
func bound(tracks [2]release.BoundTrack) [2]Backend {
	var out [2]Backend
	for i, t := range tracks {
		out[i] = Backend{Namespace: t.Namespace, Service: t.Service, Port: t.Port, Subset: t.Subset}
	}
	return out
}

// fromHost reads a VirtualService's host. A short one is completed in the
// VirtualService's namespace, as Istio does it; a host that is not a Service of
// the cluster's domain stays as it is and is nobody's.
func fromHost(host, namespace, domain string) Backend {
	if host != "" && !strings.ContainsAny(host, ".*:") {
		return Backend{Namespace: namespace, Service: host}
	}
	if left, ok := strings.CutSuffix(host, ".svc."+domain); ok {
		if service, ns, ok := strings.Cut(left, "."); ok && service != "" && ns != "" && !strings.Contains(ns, ".") {
			return Backend{Namespace: ns, Service: service}
		}
	}
	return Backend{Service: host}
}
