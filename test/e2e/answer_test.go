//go:build e2e

package e2e

import "time"

// release is what the API answers about one: the fields that these tests look at.
type release struct {
	Name     string `json:"name"`
	Status   status `json:"status"`
	Steps    []step `json:"steps"`
	Revision uint64 `json:"revision"`
}

type status struct {
	Phase      string     `json:"phase"`
	Reason     string     `json:"reason"`
	Message    string     `json:"message"`
	Ended      *time.Time `json:"ended"`
	NeedsHuman bool       `json:"needsHuman"`
	Unverified []string   `json:"unverified"`
	Share      struct {
		Declared *float64 `json:"declared"`
	} `json:"share"`
	Tracks struct {
		Primary trackStatus `json:"primary"`
		Canary  trackStatus `json:"canary"`
	} `json:"tracks"`
	Gate    *gate     `json:"gate"`
	Harm    *interval `json:"harm"`
	Drain   *drain    `json:"drain"`
	Retreat *retreat  `json:"retreat"`
	Hold    *hold     `json:"hold"`
}

func (s status) ended() bool {
	switch s.Phase {
	case "succeeded", "rolledBack", "aborted", "rejected", "failed":
		return true
	}
	return false
}

type trackStatus struct {
	Desired  *int      `json:"desired"`
	Ready    *int      `json:"ready"`
	Template *template `json:"template"`
	Admitted template  `json:"admitted"`
}

type template struct {
	Hash   string            `json:"hash"`
	Images map[string]string `json:"images"`
}

type interval struct {
	Low  float64 `json:"low"`
	Mid  float64 `json:"mid"`
	High float64 `json:"high"`
}

type drain struct {
	Status string  `json:"status"`
	Track  string  `json:"track"`
	Source string  `json:"source"`
	Took   float64 `json:"took"`
	Cut    float64 `json:"cut"`
	Why    string  `json:"why"`
}

type retreat struct {
	Why     string     `json:"why"`
	Refuge  string     `json:"refuge"`
	Began   time.Time  `json:"began"`
	Moved   *time.Time `json:"moved"`
	Shown   *time.Time `json:"shown"`
	Drained *time.Time `json:"drained"`
	Undone  *time.Time `json:"undone"`
	Forced  bool       `json:"forced"`
}

type hold struct {
	Class string    `json:"class"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Then  string    `json:"then"`
}

type step struct {
	Share    float64    `json:"share"`
	State    string     `json:"state"`
	Started  *time.Time `json:"started"`
	Written  *time.Time `json:"written"`
	Accepted *time.Time `json:"accepted"`
	Shown    *time.Time `json:"shown"`
	ShownBy  string     `json:"shownBy"`
	Passed   *time.Time `json:"passed"`
	Replicas *struct {
		Primary int `json:"primary"`
		Canary  int `json:"canary"`
	} `json:"replicas"`
	Gate *gate `json:"gate"`
}

type gate struct {
	Outcome string     `json:"outcome"`
	Reason  string     `json:"reason"`
	Data    *time.Time `json:"data"`
}

// problem is an answer that says what is wrong.
type problem struct {
	Title  string    `json:"title"`
	Status int       `json:"status"`
	Detail string    `json:"detail"`
	Code   string    `json:"code"`
	Errors []finding `json:"errors"`
}

type finding struct {
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Fix     string `json:"fix"`
}

// request asks for a release.
type request struct {
	Name      string            `json:"name"`
	Routes    []routeRef        `json:"routes"`
	Primary   trackRef          `json:"primary"`
	Canary    trackRef          `json:"canary"`
	Stages    []string          `json:"stages"`
	Size      map[string]any    `json:"size"`
	Gates     map[string]any    `json:"gates"`
	Deadlines map[string]string `json:"deadlines"`
	Preset    string            `json:"preset"`
	Holds     string            `json:"holds"`
}

type routeRef struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

type trackRef struct {
	Service    string `json:"service"`
	Port       int    `json:"port"`
	Subset     string `json:"subset,omitempty"`
	Deployment string `json:"deployment"`
}

// traffic is the client's report: what it sent, and what became of it.
type traffic struct {
	Now   time.Time `json:"now"`
	Paced counts    `json:"paced"`
	Long  counts    `json:"long"`
}

type counts struct {
	Sent       int64                `json:"sent"`
	Answered   int64                `json:"answered"`
	Failed     int64                `json:"failed"` // no whole answer
	InFlight   int64                `json:"inFlight"`
	Missed     int64                `json:"missed"`   // not sent, as the client could not keep up
	Injected   int64                `json:"injected"` // 5xx that was ordered
	Bad        int64                `json:"bad"`      // 5xx that was not
	ByCode     map[string]int64     `json:"byCode"`
	ByVersion  map[string]int64     `json:"byVersion"`
	ByWorkload map[string]int64     `json:"byWorkload"`
	Failures   map[string]int64     `json:"failures"`
	Last       map[string]time.Time `json:"last"`
	Timeline   []second             `json:"timeline"`
	Samples    []struct {
		At      time.Time `json:"at"`
		Code    int       `json:"code"`
		Failure string    `json:"failure"`
		Detail  string    `json:"detail"`
	} `json:"samples"`
}

type second struct {
	At         int64            `json:"at"`
	Answered   int64            `json:"answered"`
	Failed     int64            `json:"failed"`
	Injected   int64            `json:"injected"`
	Bad        int64            `json:"bad"`
	ByWorkload map[string]int64 `json:"byWorkload"`
}
