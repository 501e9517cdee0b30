package analysis

import "time"

// Step is one step of a stage as the judge needs it.
type Step struct {
	Index int     `json:"index"`
	Share float64 `json:"share"` // the candidate's target share, percent
	Prev  float64 `json:"prev"`  // its share before, percent; for the record only
	// Copies is how many copies of the fail product the whole release can start,
	// over all its stages: one for each step below 100, and one for the judgement
	// after a guard alarm. Only the first step's number is used, since weights
	// must be set before the data come; zero counts as one.
	Copies int `json:"copies"`
	// At is when the step began. Windows that begin earlier count as warm-up,
	// as do those that are marked so, since they may mix two shares.
	At time.Time `json:"at"`
	// Watch names what is judged beside the errors. What the release's first step
	// does not watch has no weight in a fail later.
	Watch Watch `json:"watch,omitzero"`
	// Seeds are what a look back told about the dispersion. They enter a metric
	// when it is first watched, and are not kept here.
	Seeds []Seed `json:"-"`
}

// control says whether a baseline serves beside the candidate.
func (s Step) control() bool { return s.Share < fullShare }
