package release

import "errors"

// The kinds of error that ports answer with; wrap them with what was being done
// to which object. Anything else is an error that says nothing about the world.
var (
	// ErrConflict: the world is not as the action expected; look and decide again.
	ErrConflict = errors.New("the object is not as expected")
	// ErrNotFound: the object is not there, or is another one by UID.
	ErrNotFound = errors.New("not found")
	// ErrRefused: the write was refused for what it says (schema, webhook).
	ErrRefused = errors.New("refused")
	// ErrForbidden: no right to do it.
	ErrForbidden = errors.New("forbidden")
	// ErrFenced: a writer with a newer epoch has been there.
	ErrFenced = errors.New("fenced off by a newer epoch")
	// ErrUnavailable: no answer, or none in time; the effect may have happened.
	ErrUnavailable = errors.New("no answer")
	// ErrExists: the name or a lock is taken.
	ErrExists = errors.New("taken")
)

// IsUnreadable reports that a journal has the record and cannot understand it:
// loading it again will not help. Journals say so by the shape of their error.
func IsUnreadable(err error) bool {
	var u interface{ Unreadable() bool }
	return errors.As(err, &u) && u.Unreadable()
}
