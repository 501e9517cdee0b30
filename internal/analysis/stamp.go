package analysis

import (
	"encoding/json"
	"fmt"
	"time"
)

// stamp is a time without monotonic reading and zone, so that what is written
// and what is read again are equal.
type stamp struct{ time.Time }

func stampOf(t time.Time) stamp { return stamp{t.Round(0).UTC()} }

// UnmarshalJSON reads a time and refuses one that could not be written again.
func (s *stamp) UnmarshalJSON(b []byte) error {
	var t time.Time
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	if !writable(t) {
		return fmt.Errorf("the time %s is out of range", t)
	}
	*s = stampOf(t)
	return nil
}

// writable says whether a time can stand in JSON.
func writable(t time.Time) bool {
	y := t.UTC().Year()
	return y >= 0 && y <= 9999
}
