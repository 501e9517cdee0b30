package engine

import (
	"context"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// Router reads and sets the split of a release's routes. Errors are of the
// kinds in package release.
type Router interface {
	// Read looks at every bound route, in the order of the binding. A route that
	// is gone or another object by UID has unknown facts with the reason.
	Read(ctx context.Context, b release.Binding) ([]release.RouteState, error)
	// SetShare writes the weights of one route in one guarded patch, with the
	// fence. ErrConflict means that the weights or the structure are not as
	// expected, ErrFenced that a newer epoch is on the route.
	SetShare(ctx context.Context, a release.SetShare, f release.Fence) (release.Receipt, error)
	// Mark sets or clears the in-progress label, with the fence.
	Mark(ctx context.Context, a release.Mark, f release.Fence) error
}

// LiveReader is a Router that may answer Read from what it was told, and can be
// made to ask.
type LiveReader interface {
	ReadLive(ctx context.Context, b release.Binding) ([]release.RouteState, error)
}

// Workloads reads and changes the Deployments of a release.
type Workloads interface {
	Read(ctx context.Context, b release.Binding) ([2]release.TrackState, error)
	Scale(ctx context.Context, a release.Scale) error
	// SetTemplate gives a Deployment the template that a ReplicaSet of its own
	// history has; an undo uses it too.
	SetTemplate(ctx context.Context, a release.SetTemplate) error
	// Promote gives a Deployment's containers other images, by name. ErrConflict
	// means that the template is not as expected, ErrRefused that a container is
	// not there or that no rollout would follow.
	Promote(ctx context.Context, a release.Promote) error
	SetFloor(ctx context.Context, a release.SetFloor) error
}

// Telemetry is one look of the eyes: counts per track, new requests per proxy,
// in-flight signals. It never judges. An error of the source is in the
// reading's Trouble, not an error of the call.
type Telemetry interface {
	Look(ctx context.Context, a release.Ask) (release.Reading, error)
}

// Watcher tells that something about a release's objects may have changed. The
// channel is closed when ctx ends; a lost signal only costs the time until the
// next wake.
type Watcher interface {
	Watch(ctx context.Context, b release.Binding) (<-chan struct{}, error)
}

// Journal keeps the records, with compare-and-set.
type Journal interface {
	// Load reads a record. An error with a method Unreadable() bool that answers
	// true says that the record is there and cannot be understood; it is then
	// left alone.
	Load(ctx context.Context, k release.Key) (release.Record, error)
	// Save writes the release over the version, raises its revision by one and
	// drops the inbox up to Consumed. ErrConflict when the record has moved on,
	// ErrRefused when it can never be saved as it is.
	Save(ctx context.Context, r release.Release, v release.Version) (release.Version, error)
	List(ctx context.Context) ([]release.Key, error)
	// Watch sends the key of every record that is created or changed by others,
	// until ctx or the watch ends; the channel is closed then. A save of the
	// engine's own is not sent: it would only cost another look.
	Watch(ctx context.Context) (<-chan release.Key, error)
}

// Epochs raises this writer's epoch, by compare-and-set.
type Epochs interface {
	// RaiseEpoch gives an epoch above another one, if own is still the last that
	// was given; ErrFenced when it is not, since another writer has taken over.
	RaiseEpoch(ctx context.Context, own, above uint64) (uint64, error)
}

// Clock is the engine's time; the brain gets it as an argument.
type Clock func() time.Time
