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
	// Promotable looks whether the primary can take over the canary's images. What
	// is against it comes back as release.Finding, joined if several.
	Promotable(ctx context.Context, b release.Binding) error
}

// Telemetry knows its sources, takes one look, and one look back.
type Telemetry interface {
	// Scrape tells how often a source is scraped, and by which provider it is
	// read.
	Scrape(ref release.MetricsRef) (interval time.Duration, provider string, err error)
	Look(ctx context.Context, a release.Ask) (release.Reading, error)
	// Sight tells what can be read by way of a source.
	Sight(ref release.MetricsRef) (release.Sight, error)
	// LookBack tells what one track did before: its durations, and how its counts
	// scatter when a part w of it (between 0 and 1) is held against the rest.
	LookBack(ctx context.Context, a release.Ask, of release.Track, w float64) (release.Past, error)
}
