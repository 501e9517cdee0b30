package telemetry_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

// replay serves recorded answers by the metric that is asked for.
func replay(t *testing.T, files map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, v, err := selector(r.FormValue("query"))
		if err != nil {
			t.Error(err)
			return
		}
		body, ok := files[v.Name]
		if !ok {
			body = matrix("")
		}
		say(200, body)(w, r)
	})
}

func recordedAsk(t *testing.T) release.Ask {
	t.Helper()
	var a release.Ask
	if err := json.Unmarshal([]byte(recorded(t, "envoy/ask.json")), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func every2s(s *telemetry.Source) { s.Provider, s.Scrape = "envoy", 2*time.Second }

func envoyFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir("testdata/recorded/envoy")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && name != "ask" {
			files[name] = recorded(t, "envoy/"+e.Name())
		}
	}
	return files
}

// What a real Prometheus answered over targets that follow a script
// (testdata/record): a cluster and its 5xx born with a value, a gateway that
// starts again, a pod that goes.
func TestARecordedEnvoyIsReadAsItsScriptSays(t *testing.T) {
	r := look(t, eyesOn(t, replay(t, envoyFiles(t)), every2s), recordedAsk(t))
	if len(r.Windows) != 2 || r.Windows[0].Stratum != "demo/gw-0" || r.Windows[1].Stratum != "demo/gw-1" {
		t.Fatalf("reading: %+v", r)
	}
	// gw-0 from tick 1 to 11: the canary's 2xx are born at 300 on tick 3, its
	// 5xx at 1 on tick 5. increase() would have lost both.
	if got, want := r.Windows[0].Counts, [2]counted{counts(9000, 0), counts(1107, 7)}; got != want {
		t.Errorf("gw-0: %v, want %v", got, want)
	}
	// gw-1 from tick 1 to 12: to tick 6, and from 0 again after tick 6.
	if got, want := r.Windows[1].Counts, [2]counted{counts(9900, 0), counts(1204, 4)}; got != want {
		t.Errorf("gw-1: %v, want %v", got, want)
	}
	golden(t, "recorded/envoy.reading.golden", mustJSON(t, r))
}

// The two label sets of one name count the same requests. An answer that holds
// both is refused rather than counted twice.
func TestBothLabelSetsOfEnvoyAreNotCountedTwice(t *testing.T) {
	files := envoyFiles(t)
	files["envoy_cluster_upstream_rq"] = recorded(t, "envoy-both-label-sets.json")
	if n := strings.Count(files["envoy_cluster_upstream_rq"], `"response_code"`); n == 0 {
		t.Fatal("the recording lacks the second label set")
	}
	r := look(t, eyesOn(t, replay(t, files), every2s), recordedAsk(t))
	if !strings.Contains(r.Trouble, "a series has no label response_code_class") {
		t.Errorf("reading: %+v", r)
	}
}

func TestARecordedAppIsRead(t *testing.T) {
	files := map[string]string{
		"http_requests_total":     recorded(t, "app.json"),
		"http_requests_in_flight": envoyFiles(t)["http_requests_in_flight"],
	}
	r := look(t, eyesOn(t, replay(t, files), every2s, with("app")), recordedAsk(t))
	golden(t, "recorded/app.reading.golden", mustJSON(t, r))
}

// What a Prometheus answered over a real Envoy as Istio's gateway, while a
// canary took over: counters and histograms of one query. The histograms trail
// by one flush, which was a second there.
func TestARecordedEnvoysLatencyIsRead(t *testing.T) {
	var a release.Ask
	if err := json.Unmarshal([]byte(recorded(t, "envoy-latency/ask.json")), &a); err != nil {
		t.Fatal(err)
	}
	r := look(t, eyesOn(t, say(200, recorded(t, "envoy-latency/proxies.json")), every2s, latency), a)
	slow := slowOf(t, r)
	if got := total(release.Reading{Windows: r.Windows[:1]}); got != [2]counted{counts(127, 0), counts(4273, 0)} {
		t.Errorf("errors: %v", got)
	}
	if got := slow[0.1]; got != [2]counted{counts(105, 1), counts(4314, 36)} || len(slow) != 18 {
		t.Errorf("%d bounds, above 100 ms: %v", len(slow), got)
	}
	golden(t, "recorded/envoy-latency.reading.golden", mustJSON(t, r))
}
