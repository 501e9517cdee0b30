package analysis

import "time"

// Step is one step of a stage as the judge needs it.
type Step struct {
	Index int     `json:"index"`
	Share float64 `json:"share"` // the candidate's target share, percent
	Prev  float64 `json:"prev"`  // its share before, percent; for the record only
	// Copies is how many copies of the fail product the whole stage can start:
	// one for each step below 100, and one for the judgement after a guard
	// alarm. Only the first step's number is used, since weights must be set
	// before the data come; zero counts as one.
	Copies int `json:"copies"`
	// At is when the step began. Windows that begin earlier count as warm-up,
	// as do those that are marked so, since they may mix two shares.
	At time.Time `json:"at"`
}

// control says whether a baseline serves beside the candidate.
func (s Step) control() bool { return s.Share < fullShare }
