package server

import (
	"context"

	"github.com/shifter-dev/shifter/internal/release"
)

// Releases is the store as the front door needs it.
type Releases interface {
	// Create keeps a new release. release.ErrExists means that its name or one
	// of its locks is taken; the error may say by whom, see [holder].
	Create(ctx context.Context, r release.Release) error
	// Append puts a command into a release's inbox and returns it with its
	// number. release.ErrRefused means that the release has ended.
	Append(ctx context.Context, k release.Key, c release.Command) (release.Command, error)
	Load(ctx context.Context, k release.Key) (release.Record, error)
	List(ctx context.Context) ([]release.Key, error)
}

// Views shows the releases that this copy of shifter runs, with their live
// numbers.
type Views interface {
	Get(k release.Key) (release.View, bool)
	List() []release.View
	// Watch sends the views of a release, or of all with the zero key, as they
	// are published. Who is slow gets the latest; the channel is closed when ctx
	// ends.
	Watch(ctx context.Context, k release.Key) <-chan release.View
}

// Planner looks at the world and says what a release would do. It writes
// nothing.
type Planner interface {
	Plan(ctx context.Context, k release.Key, s release.Spec, subject string) (release.Forecast, error)
}

// holder is what an error that is a release.ErrExists may be, so that the answer
// can link to the release in the way. Stores say so by the shape of their error.
type holder interface{ HeldBy() release.Key }
