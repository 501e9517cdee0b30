package release

import (
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
)

// Next says what happens next, and when at the latest.
type Next struct {
	Action string
	At     time.Time
}

// TrackView is one track as people see it.
type TrackView struct {
	Deployment string
	Service    string
	Desired    Fact[int]
	Ready      Fact[int]
	Leaving    Fact[int]
	Need       int
	Template   Fact[Template]
	Share      float64 // declared
	Trouble    []Trouble
}

// View is a release as people see it: the record with the numbers that change
// at every look. It is immutable.
type View struct {
	Release Release
	// Live is false when the numbers are the record's own, as of AsOf.
	Live bool
	AsOf time.Time
	// Declared is the incoming track's share in the routes; unknown when they
	// could not be read or differ.
	Declared Fact[float64]
	Accepted Fact[Acceptance]
	Shown    Fact[analysis.Shown]
	Tracks   [2]TrackView
	Verdict  Fact[analysis.Verdict]
	Drain    Fact[drain.State]
	Next     Next
	// Trouble says what the telemetry or the API server last answered in place
	// of data.
	Trouble string
	Seq     uint64 // rises with every published view of the release
}
