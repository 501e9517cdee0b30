package api

import (
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// Running is the verdict of a release that has neither ended nor stopped.
const Running = "running"

// Verdict is the answer for pipelines: one word, one sentence, one exit code.
type Verdict struct {
	Name       string     `json:"name" doc:"Name of the release"`
	Namespace  string     `json:"namespace" doc:"Namespace of the release"`
	Verdict    string     `json:"verdict" doc:"The answer" enum:"running,succeeded,rolledBack,aborted,rejected,failed,held"`
	Phase      string     `json:"phase" doc:"Where the release is"`
	Reason     string     `json:"reason" doc:"Why, in one word"`
	Sentence   string     `json:"sentence" doc:"Why, in one sentence"`
	ExitCode   *int       `json:"exitCode" doc:"What a command line ends with; null while it runs"`
	NeedsHuman bool       `json:"needsHuman" doc:"Something is left that a person must fix"`
	Step       StepNumber `json:"step" doc:"The present step"`
	Until      *time.Time `json:"until" doc:"When a hold's policy acts; null when it is not held"`
	Next       *Next      `json:"next" doc:"What happens next"`
	Links      Links      `json:"links" doc:"Where to go from here"`
	Revision   uint64     `json:"revision" doc:"Of the release"`
}

// Verdict answers for a pipeline.
func (r Release) Verdict() Verdict {
	v := Verdict{
		Name: r.Name, Namespace: r.Namespace,
		Verdict: Running, Phase: r.Status.Phase, Reason: r.Status.Reason, Sentence: r.Status.Message,
		NeedsHuman: r.Status.NeedsHuman, Step: r.Status.Step, Next: r.Status.Next,
		Links: r.Links, Revision: r.Revision,
	}
	if code, ok := ExitCode(release.Phase(r.Status.Phase)); ok {
		v.Verdict, v.ExitCode = r.Status.Phase, &code
	}
	if r.Status.Hold != nil {
		v.Until = &r.Status.Hold.Until
	}
	return v
}

// HTTPStatus is the status of the verdict's answer: 503 while the release runs,
// so that curl --fail --retry waits and never sees green too early.
func (v Verdict) HTTPStatus() int {
	switch v.Verdict {
	case string(release.Succeeded):
		return 200
	case string(release.RolledBack), string(release.Aborted), string(release.Rejected), string(release.Failed):
		return 409
	case string(release.Held):
		return 424
	}
	return 503
}

// ExitCode is what a command line ends with in a phase; false while the release
// runs.
func ExitCode(p release.Phase) (int, bool) {
	switch p {
	case release.Succeeded:
		return 0, true
	case release.RolledBack:
		return 1, true
	case release.Rejected:
		return 2, true
	case release.Failed:
		return 3, true
	case release.Held:
		return 4, true
	case release.Aborted:
		return 5, true
	case release.Pending, release.Preflight, release.Growing, release.Shifting, release.Settling,
		release.Gating, release.Promoting, release.Draining, release.Shrinking, release.Confirming,
		release.Retreating, release.Undoing:
		return 0, false
	}
	return 0, false
}
