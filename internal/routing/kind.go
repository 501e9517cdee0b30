package routing

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is one kind of route: where it lies in the API and how it is taken apart.
type kind struct {
	name     string
	resource schema.GroupVersionResource
	// install says what brings the kind into a cluster.
	install string
	// rules is the field of the spec that holds the rules.
	rules string
	// read takes the rules apart; domain completes hosts.
	read func(obj *unstructured.Unstructured, domain string) ([]rule, error)
}

// gateway reports whether the kind is of the Gateway API.
func (k kind) gateway() bool { return k.resource.Group == gatewayGroup }

const gatewayGroup = "gateway.networking.k8s.io"

// kindOf finds a kind by its name.
func kindOf(name string) (kind, bool) {
	const gatewayAPI = "install the Gateway API (its standard CRDs, v1.1 or newer), or use a VirtualService"
	switch name {
	case "HTTPRoute":
		return kind{
			name:     name,
			resource: schema.GroupVersionResource{Group: gatewayGroup, Version: "v1", Resource: "httproutes"},
			install:  gatewayAPI, rules: "rules", read: readGateway,
		}, true
	case "GRPCRoute":
		return kind{
			name:     name,
			resource: schema.GroupVersionResource{Group: gatewayGroup, Version: "v1", Resource: "grpcroutes"},
			install:  gatewayAPI, rules: "rules", read: readGateway,
		}, true
	case "VirtualService":
		return kind{
			name:     name,
			resource: schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"},
			install:  "install Istio 1.22 or newer, or use an HTTPRoute", rules: "http", read: readVirtualService,
		}, true
	}
	return kind{}, false
}

// rule is one rule of a route, as far as a split is concerned.
type rule struct {
	name string
	// place is where it stands, which is how people call it without a name.
	place string
	// path is its JSON pointer.
	path     string
	ends     []end
	mirrors  []Backend
	sticky   bool
	delegate string        // namespace/name of the route that has the rules
	timeout  time.Duration // of a whole request, zero when it does not say
}

// title is how people call the rule.
func (r rule) title() string {
	if r.name != "" {
		return r.name
	}
	return r.place
}

// String is the title in a sentence.
func (r rule) String() string {
	if r.name != "" {
		return "rule " + r.name
	}
	return r.place
}

// end is one weighted backend of a rule.
type end struct {
	to     Backend
	path   string
	weight int32
	// raw is the weight as it is written, nil when there is none.
	raw *int32
	// same tests that the backend is still the one that was read.
	same Patch
}

// holding finds a track among the rule's backends, and how often it is there.
func (r rule) holding(track Backend) (at, times int) {
	for i, e := range r.ends {
		if track.holds(e.to) {
			at, times = i, times+1
		}
	}
	return at, times
}
