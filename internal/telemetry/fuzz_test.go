package telemetry_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

// direct answers in place, without a network.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	d.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// Whatever a source answers: no panic, no counts beside trouble, no count that
// is not a number, no more errors than requests.
func FuzzAnswers(f *testing.F) {
	ends := recorded(f, "envoy/envoy_cluster_upstream_rq.json")
	starts := recorded(f, "envoy/envoy_cluster_upstream_rq_total.json")
	active := recorded(f, "envoy/envoy_cluster_upstream_rq_active.json")
	app := recorded(f, "envoy/http_requests_in_flight.json")
	f.Add([]byte(starts), []byte(ends), []byte(active), []byte(app))
	f.Add([]byte(starts), []byte(recorded(f, "envoy-both-label-sets.json")), []byte(active), []byte(app))
	f.Add([]byte(recorded(f, "error-400.json")), []byte(`null`), []byte(`{`), []byte(matrix(`null`)))
	for _, odd := range []string{"NaN", "+Inf", "-Inf", "-1", "1e308", "9007199254740993", "0x1p3", ""} {
		f.Add([]byte(starts), []byte(strings.ReplaceAll(ends, `"900"`, `"`+odd+`"`)), []byte(strings.ReplaceAll(active, `"3"`, `"`+odd+`"`)), []byte(strings.ReplaceAll(app, `"2"`, `"`+odd+`"`)))
	}
	f.Add([]byte(starts), []byte(strings.ReplaceAll(ends, `[179`, `[-922337203685477`)), []byte(active), []byte(app))
	now, err := time.Parse(time.RFC3339, "2026-11-30T13:32:43Z")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, starts, ends, active, app []byte) {
		answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			out := starts
			for metric, b := range map[string][]byte{"envoy_cluster_upstream_rq%7B": ends, "rq_active": active, "in_flight": app} {
				if bytes.Contains(body, []byte(metric)) {
					out = b
				}
			}
			_, _ = w.Write(out)
		})
		e, err := telemetry.New([]telemetry.Source{{
			Name: "mesh", URL: "http://in-place", Provider: "envoy", Scrape: 2 * time.Second, Timeout: time.Minute, MaxBytes: 1 << 20, Client: direct{answer},
		}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		a := ask(now.Add(-20*time.Second), now.Add(time.Second))
		a.Pods = [2][]string{nil, {"echo-v2-a", "echo-v2-b"}}
		look(t, e, a)
	})
}

// The same of histograms that come with the counters in one answer.
func FuzzDurations(f *testing.F) {
	var a release.Ask
	if err := json.Unmarshal([]byte(recorded(f, "envoy-latency/ask.json")), &a); err != nil {
		f.Fatal(err)
	}
	body := recorded(f, "envoy-latency/proxies.json")
	f.Add([]byte(body))
	for _, odd := range []string{`"le":"+Inf"`, `"le":"1"`, `"le":""`, `"le":"NaN"`, `"le":"1e308"`, `"code":"1"`} {
		f.Add([]byte(strings.ReplaceAll(body, `"le":"100"`, odd)))
	}
	for _, odd := range []string{"NaN", "+Inf", "-1", "1e308", ""} {
		f.Add([]byte(strings.ReplaceAll(body, `"0"]`, `"`+odd+`"]`)))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		e, err := telemetry.New([]telemetry.Source{{
			Name: "mesh", URL: "http://in-place", Provider: "envoy", Scrape: 2 * time.Second, Timeout: time.Minute, MaxBytes: 1 << 20, Latency: true,
			Client: direct{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) })},
		}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		look(t, e, a)
	})
}
