package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/sandbox"
)

func promClient(t *testing.T, w *sandbox.World) promv1.API {
	t.Helper()
	c, err := api.NewClient(api.Config{Address: w.PromURL(), RoundTripper: &http.Transport{DisableKeepAlives: true}})
	noErr(t, err)
	return promv1.NewAPI(c)
}

// scraped is a quick world with quick scrapes, which cost a lot under the race
// detector.
func scraped() sandbox.Config {
	cfg := quick()
	cfg.Scrape, cfg.ReadLag = 100*time.Millisecond, 100*time.Millisecond
	return cfg
}

// ask asks an instant query at now.
func ask[T model.Value](t *testing.T, c promv1.API, query string) T {
	t.Helper()
	v, _, _, err := c.Query(t.Context(), query, time.Now(), promv1.WithTimeout(5*time.Second))
	noErr(t, err)
	got, ok := v.(T)
	if !ok {
		t.Fatalf("%s is a %s", query, v.Type())
	}
	return got
}

// value asks for one number; nothing is -1.
func value(t *testing.T, c promv1.API, query string) float64 {
	t.Helper()
	v := ask[model.Vector](t, c, query)
	if len(v) == 0 {
		return -1
	}
	if len(v) > 1 {
		t.Fatalf("%s has %d answers", query, len(v))
	}
	return float64(v[0].Value)
}

func TestCountersInPromQLEqualTheClientsCounts(t *testing.T) {
	cfg := scraped()
	cfg.RPS = rate
	w := start(t, cfg)
	c := promClient(t, w)

	// A backend is there before its first request, a code is not.
	eventually(t, "the first scrape can be read", func() bool {
		return value(t, c, `sandbox_proxy_requests_started_total{backend="demo/checkout"}`) == 0
	})
	if v := ask[model.Vector](t, c, `sandbox_proxy_requests_total{backend="demo/checkout"}`); len(v) != 0 {
		t.Errorf("a code exists before its first answer: %v", v)
	}

	split(t, w, 50)
	eventually(t, "both tracks serve", func() bool { return w.Report().ByTrack[release.Primary] > 20 })
	r := quiet(t, w)
	nothingLost(t, r)
	eventually(t, "the last answer is counted everywhere", func() bool {
		return value(t, c, `sum(sandbox_proxy_requests_total{code="200"})`) == float64(r.Answered) &&
			value(t, c, `sum(http_requests_total)`) == float64(r.Answered)
	})
	for query, want := range map[string]int{
		`sum(sandbox_proxy_requests_started_total)`:                                    r.Sent,
		`sum(sandbox_proxy_requests_active)`:                                           0,
		`sum(sandbox_proxy_requests_total{backend="demo/checkout",proxy="gateway-1"})`: r.ByTrack[release.Primary],
		`sum(sandbox_proxy_requests_total{backend="demo/checkout-canary"})`:            r.ByTrack[release.Canary],
		`sum(http_requests_total{deployment="checkout",namespace="demo",code="200"})`:  r.ByTrack[release.Primary],
		`sum(http_requests_total{deployment="checkout-canary"})`:                       r.ByTrack[release.Canary],
		`sum(http_request_duration_seconds_bucket{le="+Inf"})`:                         r.Answered,
		`sum(http_requests_in_flight)`:                                                 0,
		`sum(up)`:                                                                      2*cfg.Replicas + 1,
		`count(count by (pod) (http_requests_in_flight{pod!=""}))`:                     2 * cfg.Replicas,
		`count(build_info{version="v2"})`:                                              2 * cfg.Replicas,
		`count({job="pods",__name__="up"})`:                                            2 * cfg.Replicas,
		`count(sandbox_proxy_requests_started_total{instance!="",job="gateway"})`:      2,
	} {
		if got := value(t, c, query); got != float64(want) {
			t.Errorf("%s is %v, want %d", query, got, want)
		}
	}
}

func TestAPodIsScrapedUntilItIsGoneAndThenStale(t *testing.T) {
	w := start(t, scraped())
	c := promClient(t, w)
	eventually(t, "all pods are scraped", func() bool { return value(t, c, `sum(up{job="pods"})`) == 4 })
	scale(t, w, release.Canary, 1)
	eventually(t, "a terminating pod is scraped", func() bool { return value(t, c, `sum(draining)`) == 1 })
	eventually(t, "the pod is gone", func() bool { return len(w.Endings()) == 1 })
	gone := w.Endings()[0].Pod
	eventually(t, "its series have ended", func() bool {
		return len(ask[model.Vector](t, c, fmt.Sprintf(`{pod=%q}`, gone))) == 0
	})
	if n := value(t, c, `sum(up{job="pods"})`); n != 3 {
		t.Errorf("%v pods are up, want 3", n)
	}
	if m := ask[model.Matrix](t, c, fmt.Sprintf(`draining{pod=%q}[1m]`, gone)); len(m) != 1 || len(m[0].Values) < 3 {
		t.Errorf("the past of a pod that is gone is %v", m)
	}
}

func TestTheAPIAnswersAsPrometheusDoes(t *testing.T) {
	cfg := scraped()
	cfg.ReadLag = 500 * time.Millisecond
	w := start(t, cfg)
	c := promClient(t, w)
	eventually(t, "ten samples", func() bool {
		m := ask[model.Matrix](t, c, `up{proxy="gateway-1"}[1m]`)
		if len(m) == 0 {
			return false
		}
		points := m[0].Values
		newest := points[len(points)-1].Timestamp.Time()
		if age := time.Since(newest); age < cfg.ReadLag {
			t.Fatalf("a sample can be read after %v, the lag is %v", age, cfg.ReadLag)
		}
		return len(points) >= 10
	})
	if s := ask[*model.Scalar](t, c, `scalar(up{proxy="gateway-1"}) + 1`); s.Value != 2 {
		t.Errorf("a scalar is %v", s)
	}
	if v := ask[model.Vector](t, c, `nothing`); len(v) != 0 {
		t.Errorf("nothing is %v", v)
	}
	_, _, _, err := c.Query(t.Context(), `sum(`, time.Now())
	var bad *promv1.Error
	if !errors.As(err, &bad) || bad.Type != promv1.ErrBadData {
		t.Errorf("a bad query is answered %v", err)
	}

	for path, want := range map[string]struct {
		code int
		body string
	}{
		"?query=nothing":                   {200, `"resultType":"vector","result":[]`},
		"?query=nothing[1m]":               {200, `"resultType":"matrix","result":[]`},
		"?query=1&time=2026-01-02T03:04Z":  {400, `"errorType":"bad_data"`},
		"?query=1&time=1767323045.5":       {200, `"result":[1767323045.5,"1"]`},
		"?query=1&timeout=soon":            {400, `"errorType":"bad_data"`},
		"?query=":                          {400, `"errorType":"bad_data"`},
		"?query=up*on(namespace)up":        {422, `"errorType":"execution"`},
		"?query=up&time=1767323045&x=more": {200, `"status":"success"`},
	} {
		code, body := get(t, w.PromURL()+"/api/v1/query"+path)
		if code != want.code || !strings.Contains(body, want.body) {
			t.Errorf("%s: got %d %s, want %d %s", path, code, body, want.code, want.body)
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	noErr(t, err)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	noErr(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	noErr(t, err)
	return resp.StatusCode, string(body)
}

func TestTelemetryGoesAwayInTurns(t *testing.T) {
	cfg := scraped()
	cfg.Scrape, cfg.ReadLag = 50*time.Millisecond, 50*time.Millisecond
	cfg.Faults.Telemetry = sandbox.Telemetry{Outage: 500 * time.Millisecond, Every: time.Second}
	w := start(t, cfg)
	c := promClient(t, w)
	var seen []string
	eventually(t, "down and stale, with fresh data around each", func() bool {
		now := look(t, c)
		if now != "" && (len(seen) == 0 || seen[len(seen)-1] != now) {
			seen = append(seen, now)
		}
		story := strings.Join(seen, " ")
		return strings.Contains(story, "fresh down fresh") && strings.Contains(story, "fresh stale fresh")
	})
}

// look says how the API is, empty when it is in between.
func look(t *testing.T, c promv1.API) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	v, _, _, err := c.Query(ctx, `timestamp(up{proxy="gateway-1"})`, time.Now())
	var e *promv1.Error
	switch {
	case errors.As(err, &e) && e.Type == promv1.ErrServer && strings.Contains(e.Msg, "503"):
		return "down"
	case err != nil:
		t.Fatal(err)
	}
	vec, ok := v.(model.Vector)
	if !ok || len(vec) == 0 {
		return ""
	}
	switch age := time.Since(time.Unix(0, int64(float64(vec[0].Value)*1e9))); {
	case age < 200*time.Millisecond:
		return "fresh"
	case age > 350*time.Millisecond:
		return "stale"
	}
	return ""
}
