package release

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/shifter-dev/shifter/internal/analysis"
)

func TestACompactRecordHasItsTotalsAndTheNewestPartOfTheStory(t *testing.T) {
	v := &analysis.Verdict{Outcome: analysis.Pass, LogPass: 4, Notes: []string{"n"}, Parts: []analysis.Part{{Metric: "errors"}}}
	r := Release{Phase: Gating, Target: 50, Verdict: v, Step: StepRecord{Verdict: v}, Steps: []StepRecord{{Share: 10, Verdict: v}, {Share: 25}}}
	for i := range HistoryMax {
		r.History = append(r.History, Event{Seq: uint64(i), Text: fmt.Sprint("event ", i)})
	}
	before, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	c := Compact(r)
	after, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(r); string(again) != string(before) {
		t.Error("the record that was given has changed")
	}
	if len(after) > len(before)*2/3 || strings.Contains(string(after), "parts") {
		t.Errorf("%d bytes of %d: %s", len(after), len(before), after)
	}
	if c.Phase != Gating || c.Target != 50 || len(c.Steps) != 2 || c.Steps[0].Verdict.LogPass != 4 || c.Verdict.Outcome != analysis.Pass {
		t.Errorf("%+v", c)
	}
	if n := len(c.History); n != keptWhenCompact || c.History[n-1].Seq != HistoryMax-1 {
		t.Errorf("%d events, the last of them %d", n, c.History[n-1].Seq)
	}
}
