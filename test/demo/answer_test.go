//go:build scenarios

package demo

import "time"

// answer is what `shifter demo -o json` prints at the end: of the API's release
// the fields that these tests look at, and what the demo's client counted.
type answer struct {
	Release release `json:"release"`
	Report  report  `json:"report"`
}

// report is counted where the requests are sent and answered, apart from all
// telemetry.
type report struct {
	Sent      int            `json:"sent"`
	Failed    int            `json:"failed"`
	Injected  int            `json:"injected"` // of the failed ones
	Lost      int            `json:"lost"`     // failed without being injected, or not sent
	ByVersion map[string]int `json:"byVersion"`
	Steps     []seen         `json:"steps"`
}

// seen is the primary's percentage of what clients got while a step was shown.
type seen struct {
	Target  float64  `json:"target"`
	Seen    *float64 `json:"seen"`
	Answers int      `json:"answers"`
}

type release struct {
	Name    string  `json:"name"`
	Status  status  `json:"status"`
	Steps   []step  `json:"steps"`
	History []event `json:"history"`
}

type status struct {
	Phase      string    `json:"phase"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	NeedsHuman bool      `json:"needsHuman"`
	Unverified []string  `json:"unverified"`
	Share      share     `json:"share"`
	Tracks     tracks    `json:"tracks"`
	Harm       *interval `json:"harm"`
	Drain      *drain    `json:"drain"`
	Retreat    *retreat  `json:"retreat"`
}

type share struct {
	Declared *float64 `json:"declared"`
}

type tracks struct {
	Primary track `json:"primary"`
	Canary  track `json:"canary"`
}

type track struct {
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
}

type retreat struct {
	Why    string     `json:"why"`
	Reason string     `json:"reason"`
	Refuge string     `json:"refuge"`
	Moved  *time.Time `json:"moved"`
	Shown  *time.Time `json:"shown"`
	Undone *time.Time `json:"undone"`
	Forced bool       `json:"forced"`
}

type step struct {
	Share    float64    `json:"share"`
	State    string     `json:"state"`
	Written  *time.Time `json:"written"`
	Shown    *time.Time `json:"shown"`
	ShownBy  string     `json:"shownBy"`
	Passed   *time.Time `json:"passed"`
	Replicas *replicas  `json:"replicas"`
	Gate     *gate      `json:"gate"`
}

type replicas struct {
	Primary int `json:"primary"`
	Canary  int `json:"canary"`
}

type gate struct {
	Outcome   string     `json:"outcome"`
	Reason    string     `json:"reason"`
	Metric    string     `json:"metric"`
	Sentence  string     `json:"sentence"`
	Data      *time.Time `json:"data"`
	Candidate arm        `json:"candidate"`
	Parts     []part     `json:"parts"`
}

// part is what one metric says: errors, or latency with its bound in seconds.
type part struct {
	Metric    string `json:"metric"`
	Proves    bool   `json:"proves"`
	Candidate arm    `json:"candidate"`
}

type arm struct {
	Requests float64 `json:"requests"`
	Bad      float64 `json:"bad"`
}

type event struct {
	At     time.Time `json:"at"`
	Phase  string    `json:"phase"`
	Reason string    `json:"reason"`
	Text   string    `json:"text"`
}
