package release

import (
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
)

// newWatched is a judged release whose latency is watched at 25 and 100 ms.
func newWatched(seed uint64) *judged {
	j := newJudged(seed)
	j.r.Binding.Watch = analysis.Watch{Bounds: []float64{.025, .1}, Prove: []float64{.025, .1}}
	j.r.Binding.Seeds = []analysis.Seed{{Metric: "latency:0.025", Pearson: 60, Terms: 40}}
	return j
}

func TestAReleaseThatIsAsFastPasses(t *testing.T) {
	for seed := range uint64(8) {
		j := newWatched(seed)
		r := j.run()
		if r.Phase != Succeeded || len(j.broken) > 0 {
			t.Fatalf("seed %d: %s %v\n%s", seed, r.Phase, j.broken, j.story())
		}
		for _, s := range r.Steps {
			proven := 0
			for _, p := range s.Verdict.Parts {
				if p.Proves {
					proven++
				}
			}
			if want := 3; s.Share < 100 && proven != want {
				t.Errorf("seed %d: at %g %% %d metrics are proven, want %d", seed, s.Share, proven, want)
			}
		}
	}
}

func TestSlowAnswersFrom50AreStoppedAndUndone(t *testing.T) {
	for seed := range uint64(8) {
		j := newWatched(seed)
		j.slowFrom = 50
		r := j.run()
		if r.Phase != RolledBack || r.Reason != ReasonGateFailed || len(j.broken) > 0 {
			t.Fatalf("seed %d: %s (%s) %v\n%s", seed, r.Phase, r.Reason, j.broken, j.story())
		}
		if r.Retreat.Undone.IsZero() || r.Drain.Status != drain.Drained {
			t.Errorf("seed %d: %+v %+v", seed, r.Retreat, r.Drain)
		}
		if why := r.Retreat.Reason; !strings.HasPrefix(why, "Failed at 50 %: slower than ") || !strings.HasSuffix(why, "the canary's; no request failed.") {
			t.Errorf("seed %d: the reason is %q", seed, why)
		}
		if h := r.Verdict.Harm; h.Mid != 0 {
			t.Errorf("seed %d: slow answers count as harm: %+v", seed, h)
		}
	}
}

func TestWatchedLatencyThatStopsComingIsAGapAndNeverAPass(t *testing.T) {
	j := newWatched(1)
	j.r.Binding.Watch.Bounds = append(j.r.Binding.Watch.Bounds, 1)
	j.r.Binding.Watch.Prove = []float64{1}
	r := j.r
	r.Gate = r.Gate.StartStep(r.gateStep(0, 10, j.now))
	h := analysis.Health{Scrape: time.Second}
	for i := range 40 {
		from := j.now.Add(time.Duration(i) * time.Second)
		c := analysis.Counts{Requests: 100}
		r.Gate = r.Gate.Add(r.Spec.Gate, []analysis.Window{{Metric: analysis.MetricErrors, From: from, To: from.Add(time.Second), Candidate: c, Baseline: c}})
		v := r.Gate.Verdict(r.Spec.Gate, h, from.Add(time.Second))
		if v.Outcome == analysis.Pass {
			t.Fatalf("it passed after %d s: %+v", i, v)
		}
		if i == 39 && v.Reason != analysis.TelemetryUnavailable {
			t.Errorf("in the end it says %s", v.Reason)
		}
	}
}

func TestAllStagesShareTheCopies(t *testing.T) {
	r := newJudged(1).r
	if got := r.copies(); got != 4 {
		t.Errorf("a shift in 10, 25, 50 and 100 plans %d copies, want 4", got)
	}
	r.Spec.Stages = []Stage{StageCanary, StageShift}
	if got := r.copies(); got != 8 {
		t.Errorf("two stages plan %d copies, want 8", got)
	}
	r.Plan = []Step{{Share: 30, Present: true}, {Share: 50}, {Share: 100}}
	if got := r.copies(); got != 7 {
		t.Errorf("a stage that began at 30 plans, with another one, %d copies, want 7", got)
	}
}

func TestVerdictsOnLatencyAreToldInPlainWords(t *testing.T) {
	r := newJudged(1).r
	c, b := analysis.Counts{Requests: 1000, Bad: 81}, analysis.Counts{Requests: 9000, Bad: 351}
	v := analysis.Verdict{
		Outcome: analysis.Fail, Reason: analysis.Regression, Metric: "latency:0.25", Share: 50,
		SeenCandidate: analysis.Counts{Requests: 1200, Bad: 3}, SeenBaseline: analysis.Counts{Requests: 9900},
		Parts: []analysis.Part{{Metric: "errors"}, {Metric: "latency:0.25", Copies: []analysis.CopyPart{
			{Weight: .4, Log: 20, Candidate: b, Baseline: b}, // not material
			{Weight: .2, Log: 9, Material: true, Candidate: c, Baseline: b},
		}}},
	}
	for _, tt := range []struct {
		change func(*analysis.Verdict)
		want   string
	}{
		{func(*analysis.Verdict) {}, "Failed at 50 %: slower than 250 ms: 8.1 % of the primary's answers, 3.9 % of the canary's."},
		{func(v *analysis.Verdict) { v.SeenCandidate.Bad = 0 }, "Failed at 50 %: slower than 250 ms: 8.1 % of the primary's answers, 3.9 % of the canary's; no request failed."},
		{func(v *analysis.Verdict) { v.Parts = nil }, "Failed at 50 %: the answers of the primary are slow (slower than 250 ms)."},
		{func(v *analysis.Verdict) { v.Metric = "errors" }, "Failed at 50 %: primary: 1200 requests, 3 failed, canary: 9900 requests, 0 failed."},
		{func(v *analysis.Verdict) {
			v.Reason, v.LogPassAt = analysis.WindowExhausted, 3
			v.Parts = []analysis.Part{{Metric: "errors", Proves: true, LogPass: 4}, {Metric: "latency:2.5", Proves: true, LogPass: 2}}
		}, "Not enough evidence at 50 % within the window (of answers slower than 2.5 s): primary: 0 requests, 0 failed, canary: 0 requests, 0 failed."},
	} {
		v := v
		tt.change(&v)
		if got := verdictSentence(v, r); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
