package server

import (
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/api/apitest"
)

func TestAFailOfSlowAnswersIsShownWithItsNumbers(t *testing.T) {
	v := apitest.View("gating", apitest.Now())
	g := &v.Verdict.Val
	g.Outcome, g.Reason, g.Metric, g.Material = analysis.Fail, analysis.Regression, "latency:0.25", true
	g.SeenCandidate.Bad = 0
	g.Parts[1].Candidate, g.Parts[1].Baseline = analysis.Counts{}, analysis.Counts{}
	g.Parts[1].Copies = append(g.Parts[1].Copies, analysis.CopyPart{
		Weight: .2, Log: 9, Material: true,
		Candidate: analysis.Counts{Requests: 1000, Bad: 81}, Baseline: analysis.Counts{Requests: 1000, Bad: 39},
	})
	w := newWorld()
	w.put(v)
	html := ask(newServer(t, w), "GET", api.LinksOf(v.Release.Key, "").Page, "").Body.String()
	for _, want := range []string{
		"answers more requests slowly", "Slower than 250 ms", "8.1 %", "81 of 1,000", "3.9 %", "Difference in errors", "no request failed",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(html, "bad requests more") {
		t.Error("slow answers are shown as harm")
	}
}

func TestBoundsOfLatencyAreShownWithTheirProof(t *testing.T) {
	v := apitest.View("gating", apitest.Now())
	for proof, change := range map[string]func(*analysis.Part){
		"not proven yet":   func(*analysis.Part) {},
		"proven not worse": func(p *analysis.Part) { p.LogPass = 9 },
		"watched only":     func(p *analysis.Part) { p.Proves = false },
	} {
		w := apitest.View("gating", apitest.Now())
		change(&w.Verdict.Val.Parts[1])
		rows := slowRows(*api.FromView(w, "").Status.Gate)
		if len(rows) != 1 || rows[0].Proof != proof || rows[0].Bound != "250 ms" || rows[0].CandOf == "" {
			t.Errorf("%s: %+v", proof, rows)
		}
	}
	v.Verdict.Val.Parts[1].Candidate, v.Verdict.Val.LogPassAt = analysis.Counts{}, 0
	if rows := slowRows(*api.FromView(v, "").Status.Gate); rows[0].Cand != dash || rows[0].Proof != "" {
		t.Errorf("at 100, without requests: %+v", rows)
	}
	if got := boundText(2500 * time.Millisecond.Seconds()); got != "2.5 s" {
		t.Errorf("%q", got)
	}
}
