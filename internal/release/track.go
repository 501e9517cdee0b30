package release

import (
	"encoding/json"
	"fmt"
)

// Track is one side of a release.
type Track int

// The two tracks. They index arrays of length two.
const (
	Primary Track = iota
	Canary
)

// Other returns the other track.
func (t Track) Other() Track { return 1 - t }

// String returns the track's name as it is written everywhere.
func (t Track) String() string {
	if t == Canary {
		return "canary"
	}
	return "primary"
}

// MarshalJSON writes the track's name.
func (t Track) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// UnmarshalJSON reads a track's name.
func (t *Track) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	switch s {
	case "primary":
		*t = Primary
	case "canary":
		*t = Canary
	default:
		return fmt.Errorf("track %q: want primary or canary", s)
	}
	return nil
}

// Stage is one part of a release; they run in the order canary, promote, shift.
type Stage string

// The stages.
const (
	StageCanary  Stage = "canary"
	StagePromote Stage = "promote"
	StageShift   Stage = "shift"
)

// Incoming returns the track that gains share in the stage. In the promote stage
// none does, and it is the track that has everything: the canary.
func (s Stage) Incoming() Track {
	if s == StageCanary || s == StagePromote {
		return Canary
	}
	return Primary
}
