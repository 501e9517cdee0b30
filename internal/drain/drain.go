package drain

import "time"

// Status says how far a drain has come.
type Status string

// The five answers. Only Drained, Assumed and Forced end a drain.
const (
	// Unknown: the signals that should be there are not; nothing is concluded.
	Unknown Status = "unknown"
	// Draining: requests are still arriving or in flight, or quiet has not
	// lasted long enough.
	Draining Status = "draining"
	// Drained: measured quiet.
	Drained Status = "drained"
	// Assumed: no in-flight signal exists; new requests stopped and the longest
	// request was waited out.
	Assumed Status = "assumed"
	// Forced: the deadline passed with requests in flight, and none new; they
	// will be cut.
	Forced Status = "forced"
)

// Over reports whether the drain has ended, in whichever way.
func (s Status) Over() bool { return s == Drained || s == Assumed || s == Forced }

// Source names the signal that counts requests in flight, best first.
type Source string

// The sources by preference.
const (
	SourceApp        Source = "app"        // the application's own gauge
	SourceInbound    Source = "inbound"    // the pod's own proxy, rq_active
	SourceClient     Source = "client"     // client-side proxies, rq_active
	SourceDifference Source = "difference" // requests started minus finished
	SourceNone       Source = "none"       // nothing tells; it is waited out
)

// PodSignal is what one live pod reports.
type PodSignal struct {
	Pod      string  `json:"pod"`
	InFlight float64 `json:"inFlight"`
}

// Signals is one look at a track. A zero At means that nothing was seen.
type Signals struct {
	At time.Time `json:"at"` // time of the newest sample used
	// New counts the requests that were started towards the track between From
	// and At, over all proxies.
	New  float64   `json:"new"`
	From time.Time `json:"from"`
	// Senders names the proxies that started any of them.
	Senders []string `json:"senders,omitempty"`
	Source  Source   `json:"source"`
	// InFlight is the sum over pods; it means nothing when Source is none.
	InFlight float64     `json:"inFlight"`
	Pods     []PodSignal `json:"pods,omitempty"`
	// Missing names the live pods without a fresh sample.
	Missing []string `json:"missing,omitempty"`
}

// Policy bounds one drain.
type Policy struct {
	// OldRate is the rate of new requests, per second, that the track had at its
	// old share; zero when unknown.
	OldRate float64
	// Settle replaces the quiet window where OldRate is too small to fill it.
	Settle time.Duration
	// MaxRequest is how long a request may run (the route's timeout, else 60 s).
	MaxRequest time.Duration
	// Left is what remains of the drain's budget at the time of the question.
	Left time.Duration
}

// MinExpected is how many requests the old share would have brought in the
// quiet window.
const MinExpected = 5

// State is the answer, and part of the release's record.
type State struct {
	Status Status        `json:"status"`
	Source Source        `json:"source,omitempty"`
	Since  time.Time     `json:"since"`
	At     time.Time     `json:"at"`
	Took   time.Duration `json:"took"`
	// InFlight is the last known number of requests in flight, Cut how many were
	// in flight when the drain was forced.
	InFlight float64       `json:"inFlight"`
	Cut      float64       `json:"cut,omitempty"`
	New      float64       `json:"new"`    // new requests over the quiet window
	Quiet    time.Duration `json:"quiet"`  // how long none has arrived
	Window   time.Duration `json:"window"` // how long none must arrive
	Pods     []PodSignal   `json:"pods,omitempty"`
	Missing  []string      `json:"missing,omitempty"`
	Senders  []string      `json:"senders,omitempty"` // proxies that still send
	Why      string        `json:"why,omitempty"`     // one sentence
}
