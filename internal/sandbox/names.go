package sandbox

import "github.com/shifter-dev/shifter/internal/release"

// The names in every World. The primary's Service and Deployment are called
// checkout, the canary's checkout-canary.
const (
	Namespace = "demo"
	RouteKind = "HTTPRoute"
	RouteName = "checkout"
	RuleName  = "main"
	Port      = 80
	// ProxyName is the label "proxy" on the proxy's metrics.
	ProxyName = "gateway-1"
)

// Service is the name of a track's Service.
func Service(t release.Track) string { return Deployment(t) }

// Deployment is the name of a track's Deployment.
func Deployment(t release.Track) string {
	if t == release.Canary {
		return "checkout-canary"
	}
	return "checkout"
}

// backend is a track's value of the label "backend".
func backend(t release.Track) string { return Namespace + "/" + Service(t) }

// RouteRef names the World's route.
func RouteRef() release.RouteRef {
	return release.RouteRef{Kind: RouteKind, Namespace: Namespace, Name: RouteName}
}

// Tracks names both tracks as a request would.
func Tracks() [2]release.TrackSpec {
	var out [2]release.TrackSpec
	for i := range out {
		t := release.Track(i)
		out[t] = release.TrackSpec{Service: Service(t), Port: Port, Deployment: Deployment(t)}
	}
	return out
}
