package analysis

import "time"

// ShareCount counts the new requests (starts, not ends) that one proxy sent to
// each side between From and To.
type ShareCount struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Incoming float64   `json:"incoming"`
	Outgoing float64   `json:"outgoing"`
}

// ProxyCounts is what one proxy reported since the weight was written, oldest
// first. A proxy that should report and has no Counts is unknown.
type ProxyCounts struct {
	Proxy  string
	Counts []ShareCount
}

// ShownStatus says whether the data plane serves a split.
type ShownStatus string

// The three answers.
const (
	ShownYes     ShownStatus = "yes"
	ShownNo      ShownStatus = "no"      // enough requests, and they say otherwise
	ShownUnknown ShownStatus = "unknown" // too few requests, or a proxy is silent
)

// Shown is the answer about one written split. Share is the incoming side's
// percent of the requests counted; it means nothing when Requests is zero.
type Shown struct {
	Status   ShownStatus `json:"status"`
	Share    float64     `json:"share"`
	Requests float64     `json:"requests"`
	Need     float64     `json:"need"`              // requests needed to tell target and previous share apart
	At       time.Time   `json:"at"`                // end of the newest count used
	Lagging  []string    `json:"lagging,omitempty"` // proxies that serve another split
	Silent   []string    `json:"silent,omitempty"`  // proxies that did not report
}
