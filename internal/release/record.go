package release

import (
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
)

// Schema is the version of the record that this code writes.
const Schema = 1

// BoundRoute is a route as it was admitted.
type BoundRoute struct {
	Ref      RouteRef   `json:"ref"`
	UID      string     `json:"uid"`
	Rules    []string   `json:"rules"` // how people call the managed rules
	Split    []Pair     `json:"split"`
	Accepted Acceptance `json:"accepted"`
	Epoch    uint64     `json:"epoch"`
	// Timeout is the longest that the route lets a request run, zero when it
	// does not say.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// BoundTrack is a track as it was admitted.
type BoundTrack struct {
	Namespace  string   `json:"namespace"`
	Deployment string   `json:"deployment"`
	UID        string   `json:"uid"`
	Replicas   int      `json:"replicas"`
	Template   Template `json:"template"`
	// UndoTo is where an undo would lead, nil when nothing can be undone.
	UndoTo  *Template `json:"undoTo,omitempty"`
	Service string    `json:"service"`
	Port    int32     `json:"port,omitempty"`
	Subset  string    `json:"subset,omitempty"`
}

// Binding ties a release to the objects it was admitted for. Effects go to
// these objects only.
type Binding struct {
	Key     Key           `json:"key"`
	Routes  []BoundRoute  `json:"routes"`
	Tracks  [2]BoundTrack `json:"tracks"`
	Full    int           `json:"full"`
	Metrics MetricsRef    `json:"metrics"`
	Scrape  time.Duration `json:"scrape"`
	// Watch names what every step is judged by beside the errors, and Seeds are
	// what was told of the dispersion: both from a look back at the track that
	// had the traffic. Without them the errors alone are judged.
	Watch analysis.Watch  `json:"watch,omitzero"`
	Seeds []analysis.Seed `json:"seeds,omitempty"`
}

// Locks names what no two active releases may share.
func (b Binding) Locks() []string {
	var out []string
	for _, r := range b.Routes {
		out = append(out, "route/"+r.UID)
	}
	for _, t := range b.Tracks {
		out = append(out, "deployment/"+t.UID)
	}
	return out
}

// Promotion is what became of the promote stage.
type Promotion struct {
	Images map[string]string `json:"images"`          // wanted, by container
	Asked  time.Time         `json:"asked,omitzero"`  // the update was first to be written
	To     *Template         `json:"to,omitempty"`    // the new template, once it was seen
	Steady time.Time         `json:"steady,omitzero"` // rolled out and ready since
	Done   time.Time         `json:"done,omitzero"`
}

// Step is one step of the present stage.
type Step struct {
	Share float64 `json:"share"`
	// Present marks the share that the stage began with: it is judged, and
	// nothing is written for it.
	Present bool `json:"present,omitempty"`
}

// ShownBy says how a share came to be taken as shown.
type ShownBy string

// The two ways.
const (
	ShownByData   ShownBy = "data"    // counted on the data plane
	ShownBySettle ShownBy = "settled" // accepted, and the settle time waited out
)

// StepRecord is the evidence for one step; a step judged twice has two.
type StepRecord struct {
	// Stage is left out where the release has only one.
	Stage    Stage             `json:"stage,omitempty"`
	Share    float64           `json:"share"`
	Started  time.Time         `json:"started"`
	Written  time.Time         `json:"written,omitzero"`
	Declared time.Time         `json:"declared,omitzero"`
	Accepted time.Time         `json:"accepted,omitzero"`
	Shown    time.Time         `json:"shown,omitzero"`
	ShownBy  ShownBy           `json:"shownBy,omitempty"`
	Passed   time.Time         `json:"passed,omitzero"`
	Verdict  *analysis.Verdict `json:"verdict,omitempty"`
	// Replicas of both tracks when the step passed or ended.
	Replicas [2]int `json:"replicas"`
}

// PassProof is a pass and what it is bound to. It is used for one raise only.
type PassProof struct {
	Step   int       `json:"step"`
	Share  float64   `json:"share"`
	Hashes [2]string `json:"hashes"`
	At     time.Time `json:"at"`
}

// Work is what is left of the present phase's budget. It is charged with time
// that was worked, see Resume.
type Work struct {
	Left time.Duration `json:"left"`
	At   time.Time     `json:"at"` // charged up to here
}

// Hold is a stop with a reason and a deadline.
type Hold struct {
	Class Class     `json:"class"`
	From  Phase     `json:"from"` // where it continues
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Then  Response  `json:"then"`
}

// Retreat is the way back, chosen once.
type Retreat struct {
	Why     Reason    `json:"why"`
	Ends    Phase     `json:"ends"` // rolledBack or aborted
	Mode    Mode      `json:"mode"`
	Refuge  Track     `json:"refuge"`
	Suspect string    `json:"suspect"` // template hash
	Began   time.Time `json:"began"`
	// Moving is set when the first target of the way back is chosen; before
	// that nothing is written, as the old target may be above what is declared.
	Moving bool `json:"moving,omitempty"`
	// Moved is when the suspect's share was declared 0, Shown when the data
	// plane showed it, Drained when it was quiet, Undone when its template was
	// back and its pods ready.
	Moved   time.Time `json:"moved,omitzero"`
	Shown   time.Time `json:"shown,omitzero"`
	Drained time.Time `json:"drained,omitzero"`
	Undone  time.Time `json:"undone,omitzero"`
	// Forced is set when share was given beyond ready capacity, because the
	// suspect broke a safety limit.
	Forced bool `json:"forced,omitempty"`
	// Again counts how often another hand gave the suspect share after it had
	// none.
	Again  int     `json:"again,omitempty"`
	From   float64 `json:"from"`             // the suspect's share when it began
	Reason string  `json:"reason,omitempty"` // a person's words
	// Home is set while the traffic goes from the refuge to the restored primary,
	// on which the release began; Stay when it is to be left on the refuge.
	Home bool `json:"home,omitempty"`
	Stay bool `json:"stay,omitempty"`
}

// Ending is a decided end.
type Ending struct {
	Phase   Phase  `json:"phase"`
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// Event is one line of the story. Seq rises by one.
type Event struct {
	Seq    uint64    `json:"seq"`
	At     time.Time `json:"at"`
	Phase  Phase     `json:"phase"`
	Reason Reason    `json:"reason"`
	Text   string    `json:"text"`
	// Subject is the person or pipeline behind a command's event.
	Subject string `json:"subject,omitempty"`
}

// HistoryMax bounds the story in the record; the oldest lines go first.
const HistoryMax = 60

// Release is the record of one attempt to take a new version through its
// stages. It is a value: Decide returns the next one.
type Release struct {
	Schema  int       `json:"schema"`
	Key     Key       `json:"key"`
	UID     string    `json:"uid"`
	Created time.Time `json:"created"`
	Subject string    `json:"subject"` // who asked
	Spec    Spec      `json:"spec"`
	Binding Binding   `json:"binding"`

	Stage   Stage     `json:"stage"`
	Plan    []Step    `json:"plan"`
	StepIx  int       `json:"step"`
	Phase   Phase     `json:"phase"`
	Reason  Reason    `json:"reason"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since"`
	Ended   time.Time `json:"ended,omitzero"`

	NeedsHuman bool     `json:"needsHuman,omitempty"`
	Unverified []string `json:"unverified,omitempty"`

	Work         Work      `json:"work"`
	ExposedUntil time.Time `json:"exposedUntil,omitzero"`
	// Suspect is the template hash under judgement.
	Suspect string `json:"suspect"`
	// Target is the share to be declared, Last the share shown before it: while
	// the data plane changes over, a track may have either.
	Target float64 `json:"target"`
	Last   float64 `json:"last"`
	// Declared is when all routes were first seen to declare Target, Accepted
	// when no controller refused it, Shown when the data plane showed it (or the
	// settle time was waited out). Zero means not yet.
	Declared time.Time `json:"declared,omitzero"`
	Accepted time.Time `json:"accepted,omitzero"`
	Shown    time.Time `json:"shown,omitzero"`
	ShownBy  ShownBy   `json:"shownBy,omitempty"`
	// Passed is the share of the last step that passed, or the one that the
	// stage began with.
	Passed float64       `json:"passed"`
	Step   StepRecord    `json:"stepRecord"`
	Steps  []StepRecord  `json:"steps,omitempty"`
	Proof  *PassProof    `json:"proof,omitempty"`
	Gate   analysis.Gate `json:"gate"`
	// Verdict is the last one that mattered, for the report.
	Verdict *analysis.Verdict `json:"verdict,omitempty"`
	// Rate is the rate of new requests per second of each track, as last
	// counted at a shown split: the drain judge's expectation.
	Rate      [2]float64 `json:"rate"`
	Promotion *Promotion `json:"promotion,omitempty"`
	// Backs counts how often the guard at 100 sent the release back.
	Backs int `json:"backs,omitempty"`

	Hold    *Hold         `json:"hold,omitempty"`
	Tries   map[Class]int `json:"tries,omitempty"`
	Retreat *Retreat      `json:"retreat,omitempty"`
	Drain   *drain.State  `json:"drain,omitempty"`
	// Drained names the track that Drain is about; it may be undone and sized
	// to 0 while its share stays 0.
	Drained *Track `json:"drained,omitempty"`
	// Ending is set when the end is decided and only the marks on the routes are
	// left to take off.
	Ending *Ending `json:"ending,omitempty"`

	Consumed uint64 `json:"consumed"` // the inbox up to here
	// Intent is what was meant to be done last.
	Intent Actions `json:"intent,omitempty"`
	// Epoch is that of the writer which saved the record last; Fenced is what is
	// left of standing back from a newer one on a route.
	Epoch   uint64  `json:"epoch,omitempty"`
	Fenced  *Work   `json:"fenced,omitempty"`
	History []Event `json:"history,omitempty"`
	Seq     uint64  `json:"seq"` // of the last event
	// resumed is set by Resume until the next decision, which is saved for it.
	resumed bool
	// Revision rises with every save; it is the API's ETag.
	Revision uint64 `json:"revision"`
}

// Record is a release as the journal keeps it, with its inbox.
type Record struct {
	Release Release
	Inbox   []Command
	Version Version
}

// Version is the journal's own mark for compare-and-set.
type Version string

// Incoming returns the track that gains share.
func (r Release) Incoming() Track { return r.Stage.Incoming() }

// Outgoing returns the track that loses share.
func (r Release) Outgoing() Track { return r.Incoming().Other() }
