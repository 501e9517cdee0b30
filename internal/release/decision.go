package release

import "time"

// Decision is what Decide answers.
type Decision struct {
	Next    Release
	Actions Actions
	// Wake is when to look again at the latest; zero means when something
	// happens (terminal releases only).
	Wake time.Time
	// Say is the sentence for the log, empty when nothing is new.
	Say string
	// Save says that Next must be saved before Actions are taken.
	Save bool
}

// Receipt is what a route write answers.
type Receipt struct {
	At time.Time
	// Generation is the object's generation after the write.
	Generation int64
}

// Finding is one thing that a request or a world gets wrong: what, where and
// what to do.
type Finding struct {
	// Pointer is the JSON pointer into the request, empty when it is the world.
	Pointer string `json:"pointer,omitempty"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

// Error implements error.
func (f Finding) Error() string {
	if f.Fix == "" {
		return f.Message
	}
	return f.Message + " (" + f.Fix + ")"
}
