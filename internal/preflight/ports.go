package preflight

import (
	"context"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// Routes binds the routes of a request and looks at them.
type Routes interface {
	// Resolve finds the routes and their managed rules. What the request or the
	// world gets wrong comes back as release.Finding, joined if several.
	Resolve(ctx context.Context, namespace string, spec release.Spec) ([]release.BoundRoute, error)
	Read(ctx context.Context, b release.Binding) ([]release.RouteState, error)
}

// Workloads binds the tracks of a request and looks at them.
type Workloads interface {
	// Resolve finds both Deployments. What the request or the world gets wrong
	// comes back as release.Finding, joined if several.
	Resolve(ctx context.Context, namespace string, spec release.Spec) ([2]release.BoundTrack, error)
	Read(ctx context.Context, b release.Binding) ([2]release.TrackState, error)
}

// Telemetry knows its sources and takes one look.
type Telemetry interface {
	// Scrape tells how often a source is scraped, and by which provider it is
	// read.
	Scrape(ref release.MetricsRef) (interval time.Duration, provider string, err error)
	Look(ctx context.Context, a release.Ask) (release.Reading, error)
}
