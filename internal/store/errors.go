package store

import (
	"fmt"

	"github.com/shifter-dev/shifter/internal/release"
)

// Taken says why a release was not created: its name is used, or something that
// it needs belongs to another release that has not ended. It is a
// [release.ErrExists].
type Taken struct {
	// Holder is the release that has it.
	Holder release.Key
	// Lock is one of Binding.Locks, empty when it is the name itself.
	Lock string
}

// Error implements error.
func (t *Taken) Error() string {
	if t.Lock == "" {
		return fmt.Sprintf("the name %s is used", t.Holder)
	}
	return fmt.Sprintf("%s belongs to release %s, which has not ended", t.Lock, t.Holder)
}

// Unwrap makes it a release.ErrExists.
func (t *Taken) Unwrap() error { return release.ErrExists }

// HeldBy names the release in the way.
func (t *Taken) HeldBy() release.Key { return t.Holder }

// Ended says that a release is terminal, and so takes neither a command nor
// another state. It is a [release.ErrRefused].
type Ended struct {
	Key   release.Key
	Phase release.Phase
}

// Error implements error.
func (e *Ended) Error() string { return fmt.Sprintf("release %s has ended: %s", e.Key, e.Phase) }

// Unwrap makes it a release.ErrRefused.
func (e *Ended) Unwrap() error { return release.ErrRefused }

// Corrupt says that a record is there and cannot be understood. No other record
// is affected, and reading it again will not help.
type Corrupt struct {
	Key   release.Key
	Cause error
}

// Error implements error.
func (c *Corrupt) Error() string {
	return fmt.Sprintf("the record of release %s cannot be read: %v", c.Key, c.Cause)
}

// Unwrap gives the cause.
func (c *Corrupt) Unwrap() error { return c.Cause }

// Unreadable is how the engine knows the error by its shape.
func (c *Corrupt) Unreadable() bool { return true }
