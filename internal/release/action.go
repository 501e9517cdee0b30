package release

import (
	"encoding/json"
	"fmt"
)

// Action is one effect on the world. The set is sealed; each is absolute, safe
// to repeat, and says what it expects to find.
//
//sumtype:decl
type Action interface {
	isAction()
	// Kind is the action's name in records and logs.
	Kind() string
	String() string
}

// SetShare writes the managed pair's weights in one route: one patch, guarded by
// the weights it expects. Rules align with RouteState.Split.
type SetShare struct {
	Route RouteRef `json:"route"`
	UID   string   `json:"uid"`
	From  []Pair   `json:"from"`
	To    []Pair   `json:"to"`
}

// Scale sets a track's replicas. Spare names pods that should go last.
type Scale struct {
	Track    Track    `json:"track"`
	UID      string   `json:"uid"`
	Replicas int      `json:"replicas"`
	Spare    []string `json:"spare,omitempty"`
}

// SetTemplate gives a track another pod template of its history.
type SetTemplate struct {
	Track Track    `json:"track"`
	UID   string   `json:"uid"`
	From  Template `json:"from"`
	To    Template `json:"to"`
}

// Promote gives a track's containers other images; a rolling update follows, so
// that a revision is recorded. It is done only while the live template is From. A
// live template that has the images means done.
type Promote struct {
	Track  Track             `json:"track"`
	UID    string            `json:"uid"`
	From   Template          `json:"from"`
	Images map[string]string `json:"images"` // by container
}

// Undo sets a track's template to the one recorded at admission, only while the
// live one is From. A live template equal to To means done.
type Undo struct {
	Track Track    `json:"track"`
	UID   string   `json:"uid"`
	From  Template `json:"from"`
	To    Template `json:"to"`
}

// SetFloor sets the floor of a track's autoscaler.
type SetFloor struct {
	Track Track  `json:"track"`
	UID   string `json:"uid"`
	Min   int    `json:"min"`
}

// Mark sets or clears the in-progress label on a route, with the fence.
type Mark struct {
	Route RouteRef `json:"route"`
	UID   string   `json:"uid"`
	On    bool     `json:"on"`
}

// Check asks a catalogued HTTP check.
type Check struct {
	Name    string `json:"name"`
	Attempt int    `json:"attempt"`
}

func (SetShare) isAction()    {}
func (Scale) isAction()       {}
func (SetTemplate) isAction() {}
func (Promote) isAction()     {}
func (Undo) isAction()        {}
func (SetFloor) isAction()    {}
func (Mark) isAction()        {}
func (Check) isAction()       {}

// Kind implements Action.
func (SetShare) Kind() string { return "SetShare" }

// Kind implements Action.
func (Scale) Kind() string { return "Scale" }

// Kind implements Action.
func (SetTemplate) Kind() string { return "SetTemplate" }

// Kind implements Action.
func (Promote) Kind() string { return "Promote" }

// Kind implements Action.
func (Undo) Kind() string { return "Undo" }

// Kind implements Action.
func (SetFloor) Kind() string { return "SetFloor" }

// Kind implements Action.
func (Mark) Kind() string { return "Mark" }

// Kind implements Action.
func (Check) Kind() string { return "Check" }

func (a SetShare) String() string {
	s := fmt.Sprintf("set the weights of %s", a.Route)
	for i := range a.To {
		s += fmt.Sprintf(" %d/%d -> %d/%d", a.From[i].Primary, a.From[i].Canary, a.To[i].Primary, a.To[i].Canary)
	}
	return s
}

func (a Scale) String() string { return fmt.Sprintf("scale %s to %d", a.Track, a.Replicas) }

func (a SetTemplate) String() string {
	return fmt.Sprintf("set the template of %s from %s to %s", a.Track, a.From.Hash, a.To.Hash)
}

func (a Promote) String() string {
	return fmt.Sprintf("promote %s from %s to %s", a.Track, a.From.Hash, imagesText(a.Images))
}

func (a Undo) String() string {
	return fmt.Sprintf("undo %s from %s to %s", a.Track, a.From.Hash, a.To.Hash)
}

func (a SetFloor) String() string { return fmt.Sprintf("set the floor of %s to %d", a.Track, a.Min) }

func (a Mark) String() string {
	if a.On {
		return fmt.Sprintf("mark %s as in progress", a.Route)
	}
	return fmt.Sprintf("clear the mark of %s", a.Route)
}

func (a Check) String() string { return fmt.Sprintf("ask check %s", a.Name) }

// Actions is a list of actions that can be written to a record. The kinds are
// versioned with the record's schema.
type Actions []Action

type taggedAction struct {
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body"`
}

// MarshalJSON writes each action with its kind.
func (as Actions) MarshalJSON() ([]byte, error) {
	out := make([]taggedAction, 0, len(as))
	for _, a := range as {
		b, err := json.Marshal(a)
		if err != nil {
			return nil, err
		}
		out = append(out, taggedAction{a.Kind(), b})
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads actions by their kind; an unknown kind is an error, since
// a record from a newer shifter must not be half understood.
func (as *Actions) UnmarshalJSON(b []byte) error {
	var in []taggedAction
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*as = nil
	for _, t := range in {
		a, err := decodeAction(t)
		if err != nil {
			return err
		}
		*as = append(*as, a)
	}
	return nil
}

func decodeAction(t taggedAction) (Action, error) {
	switch t.Kind {
	case "SetShare":
		return decodeAs[SetShare](t.Body)
	case "Scale":
		return decodeAs[Scale](t.Body)
	case "SetTemplate":
		return decodeAs[SetTemplate](t.Body)
	case "Promote":
		return decodeAs[Promote](t.Body)
	case "Undo":
		return decodeAs[Undo](t.Body)
	case "SetFloor":
		return decodeAs[SetFloor](t.Body)
	case "Mark":
		return decodeAs[Mark](t.Body)
	case "Check":
		return decodeAs[Check](t.Body)
	}
	return nil, fmt.Errorf("action kind %q is not known to this version", t.Kind)
}

func decodeAs[T Action](b json.RawMessage) (Action, error) {
	var a T
	err := json.Unmarshal(b, &a)
	return a, err
}
