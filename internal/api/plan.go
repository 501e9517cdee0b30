package api

import "github.com/shifter-dev/shifter/internal/release"

// Plan answers a dry run: what the release would do. Durations are in seconds.
type Plan struct {
	Name      string            `json:"name" doc:"Name of the release"`
	Namespace string            `json:"namespace" doc:"Namespace of the release"`
	Spec      Spec              `json:"spec" doc:"What was asked for, with the defaults filled in"`
	Stage     string            `json:"stage" doc:"The first stage"`
	Incoming  string            `json:"incoming" doc:"The track that gains share in it"`
	Full      int               `json:"full" doc:"Replicas that carry all of the managed traffic"`
	Tracks    PlanTracks        `json:"tracks" doc:"Both tracks as they are now"`
	Steps     []ExpectedStep    `json:"steps" doc:"What each step is expected to cost" nullable:"false"`
	Total     float64           `json:"total" doc:"Expected seconds in all"`
	PeakPods  int               `json:"peakPods" doc:"The most pods at one time, both tracks together"`
	Bounds    []float64         `json:"bounds" doc:"Seconds above which an answer counts as slow in this release; empty where errors are judged alone" nullable:"false"`
	Rate      *float64          `json:"rate" doc:"The managed traffic now, in requests per second"`
	Warnings  []Finding         `json:"warnings" doc:"What does not refuse it and should be known" nullable:"false"`
	Unknown   map[string]string `json:"unknown,omitempty" doc:"Why a field here is not known"`
}

// PlanTracks are both tracks as a plan finds them.
type PlanTracks struct {
	Primary PlanTrack `json:"primary" doc:"The primary"`
	Canary  PlanTrack `json:"canary" doc:"The canary"`
}

// PlanTrack is one track as a plan finds it.
type PlanTrack struct {
	Deployment string    `json:"deployment" doc:"The Deployment"`
	Replicas   int       `json:"replicas" doc:"Its size now"`
	Template   Template  `json:"template" doc:"Its pod template now"`
	UndoTo     *Template `json:"undoTo" doc:"Where an undo would lead; null when nothing can be undone"`
}

// ExpectedStep is what one step is expected to cost.
type ExpectedStep struct {
	Stage       string   `json:"stage,omitempty" doc:"The stage, where the release has several; the share is that of the stage's incoming track" enum:"canary,promote,shift"`
	Share       float64  `json:"share" doc:"Target share in percent"`
	Replicas    Replicas `json:"replicas" doc:"Of both tracks while it runs"`
	Requests    float64  `json:"requests" doc:"Requests on the incoming track to certify it"`
	Time        float64  `json:"time" doc:"Seconds"`
	Certifiable bool     `json:"certifiable" doc:"False when the window is too short at the present traffic"`
	Control     bool     `json:"control" doc:"False where there is nothing to compare with"`
}

// FromForecast makes a plan's answer. The forecast's findings are not part of
// it; they refuse.
func FromForecast(f release.Forecast) Plan {
	r := f.Release
	p := Plan{
		Name: r.Key.Name, Namespace: r.Key.Namespace, Spec: fromSpec(r.Spec),
		Stage: string(r.Stage), Incoming: r.Incoming().String(), Full: r.Binding.Full,
		Tracks: PlanTracks{
			Primary: planTrack(r.Binding.Tracks[release.Primary]),
			Canary:  planTrack(r.Binding.Tracks[release.Canary]),
		},
		Steps: []ExpectedStep{}, Total: f.Total.Seconds(), PeakPods: f.PeakPods,
		Warnings: Findings(f.Warnings), Bounds: r.Bounds(),
	}
	for _, s := range f.Steps {
		stage := ""
		if len(r.Spec.Stages) > 1 {
			stage = string(s.Stage)
		}
		p.Steps = append(p.Steps, ExpectedStep{
			Stage: stage, Share: s.Share, Replicas: replicas(s.Replicas), Requests: finite(s.Requests),
			Time: s.Time.Seconds(), Certifiable: s.Certifiable, Control: s.Control,
		})
	}
	why := reasons{}
	p.Rate = known(why, "rate", f.Rate)
	p.Unknown = why.orNil()
	return p
}

func planTrack(t release.BoundTrack) PlanTrack {
	out := PlanTrack{Deployment: t.Deployment, Replicas: t.Replicas, Template: fromTemplate(t.Template)}
	if t.UndoTo != nil {
		u := fromTemplate(*t.UndoTo)
		out.UndoTo = &u
	}
	return out
}
