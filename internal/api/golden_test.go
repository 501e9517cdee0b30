package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/api/apitest"
	"github.com/shifter-dev/shifter/internal/release"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// golden compares a value's JSON with a file.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (make it with -rewrite)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look at the diff after -rewrite:\n%s", path, got)
	}
}

func TestAnswersInEveryState(t *testing.T) {
	for _, state := range apitest.Names() {
		t.Run(state, func(t *testing.T) {
			r := api.FromView(apitest.View(state, apitest.Now()), "https://shifter.example")
			golden(t, "release-"+state+".json", r)
			golden(t, "verdict-"+state+".json", r.Verdict())
		})
	}
}

func TestARecordAloneHasNoLiveNumbers(t *testing.T) {
	r := api.FromView(api.RecordView(apitest.View("gating", apitest.Now()).Release), "")
	golden(t, "record-gating.json", r)
	st := r.Status
	if st.Live || st.Share.Declared != nil || st.Share.Shown != nil || st.Tracks.Primary.Ready != nil || st.Tracks.Primary.Need != nil {
		t.Errorf("a record alone shows live numbers: %+v", st)
	}
	for _, why := range []string{st.Share.Unknown["declared"], st.Share.Unknown["shown"], st.Tracks.Primary.Unknown["ready"], st.Tracks.Primary.Unknown["need"]} {
		if why == "" {
			t.Error("what is not known has no reason")
		}
	}
	if st.Gate == nil || st.Gate.Share != 25 {
		t.Errorf("the record's last verdict is not shown: %+v", st.Gate)
	}
}

func TestAReleaseThatCannotBeReadIsStillShown(t *testing.T) {
	v := release.View{AsOf: apitest.Now(), Release: release.Release{
		Key: release.Key{Namespace: "shop", Name: "broken"}, Phase: release.Failed, Reason: release.ReasonInternal,
		NeedsHuman: true, Message: "Nothing is done for this release.",
	}}
	golden(t, "release-unreadable.json", api.FromView(v, ""))
}

func TestPlan(t *testing.T) {
	v := apitest.View("pending", apitest.Now())
	golden(t, "plan.json", api.FromForecast(release.Forecast{
		Release:  v.Release,
		Warnings: []release.Finding{{Pointer: "/canary/deployment", Code: "latestTag", Message: "container app uses the tag latest", Fix: "pin the image"}},
		Steps: []release.ExpectedStep{
			{Share: 10, Replicas: [2]int{2, 4}, Requests: 3120, Time: 320e9, Certifiable: true, Control: true},
			{Share: 100, Replicas: [2]int{4, 4}, Requests: 300, Time: 300e9},
		},
		Total: 620e9, PeakPods: 8, Rate: release.Unseen[float64]("the metrics source did not answer"),
	}))
}
