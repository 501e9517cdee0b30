package main

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// These tests take the parts one by one; process_test.go takes real processes.

func TestFlagsWinOverEnvironmentOverDefaults(t *testing.T) {
	env := mapEnv{"GO_API_LAME_DUCK": "3s", "GO_API_ERROR_RATE": "0.5", "GO_API_ADMIN": "true", "GO_API_LATENCY": ""}
	c, err := parseConfig([]string{"--error-rate=0.25", "--listen", ":0"}, env.lookup, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		listen: ":0", version: "v1", lameDuck: 3 * time.Second, shutdownTimeout: 20 * time.Second,
		admin: true, faults: faults{ErrorRate: 0.25},
	}
	if c != want {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

func TestBadValuesAreRefusedByName(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  mapEnv
		want string // must be in the error
	}{
		{args: []string{"--error-rate=1.1"}, want: "error rate"},
		{args: []string{"--error-rate=-0.1"}, want: "error rate"},
		{args: []string{"--error-rate=NaN"}, want: "error rate"},
		{args: []string{"--error-rate=lots"}, want: "error-rate"},
		{args: []string{"--latency=11s"}, want: "latency"},
		{args: []string{"--latency=5"}, want: "latency"}, // no unit
		{args: []string{"--lame-duck=-1s"}, want: "--lame-duck"},
		{args: []string{"--shutdown-timeout=0s"}, want: "--shutdown-timeout"},
		{args: []string{"--slow-start=-1s"}, want: "--slow-start"},
		{args: []string{"--version-name=a b"}, want: "--version-name"},
		{args: []string{"--version-name="}, want: "--version-name"},
		{args: []string{"--listen=8080"}, want: "--listen"},
		{args: []string{"--no-such-flag"}, want: "no-such-flag"},
		{args: []string{"stray"}, want: "stray"},
		{env: mapEnv{"GO_API_LAME_DUCK": "soon"}, want: "GO_API_LAME_DUCK"},
	} {
		_, err := parseConfig(c.args, c.env.lookup, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v: error %v does not name %q", c.args, c.env, err, c.want)
		}
	}
}

func TestHelpNamesEveryFlagWithItsVariableButNotTheCounterExample(t *testing.T) {
	var out strings.Builder
	if _, err := parseConfig([]string{"--help"}, mapEnv{}.lookup, &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("error %v, want flag.ErrHelp", err)
	}
	for _, want := range []string{"--listen", "GO_API_LISTEN", "--shutdown-timeout", "GO_API_SHUTDOWN_TIMEOUT", "--never-ready"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %s:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "no-graceful") {
		t.Error("help shows the hidden flag")
	}
}

func TestReadinessHasOneReasonAtATime(t *testing.T) {
	for _, c := range []struct {
		name       string
		draining   bool
		neverReady bool
		age        time.Duration
		want       string
	}{
		{name: "young", age: 9 * time.Second, want: "starting"},
		{name: "old enough", age: 10 * time.Second, want: ""},
		{name: "never ready", neverReady: true, age: time.Hour, want: "never-ready"},
		{name: "draining", draining: true, age: time.Hour, want: "draining"},
		{name: "draining while starting", draining: true, neverReady: true, want: "draining"},
	} {
		a := testApp(config{slowStart: 10 * time.Second, faults: faults{NeverReady: c.neverReady}})
		a.draining.Store(c.draining)
		started := a.readyAt.Add(-10 * time.Second)
		if got := a.notReady(started.Add(c.age)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDrainingChangesReadinessNotLiveness(t *testing.T) {
	a := testApp(config{})
	h := a.handler()
	wantAnswer(t, h, "GET", "/readyz", "", 200, "ok")
	a.draining.Store(true)
	wantAnswer(t, h, "GET", "/readyz", "", 503, "draining")
	wantAnswer(t, h, "GET", "/livez", "", 200, "ok")
	wantAnswer(t, h, "GET", "/", "", 200, `{"version":"v1","host":"pod-1"}`)
}

// The connection of a request that was running before SIGTERM must go too:
// left in the proxy's pool it would be the one that Shutdown closes under it.
func TestEveryResponseClosesItsConnectionWhileDraining(t *testing.T) {
	a := testApp(config{})
	server := httptest.NewServer(a.handler())
	defer server.Close()

	get := func(path string) *http.Response {
		t.Helper()
		res, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		return res
	}
	if get("/").Close {
		t.Error("the connection closes before draining")
	}

	early := make(chan *http.Response, 1)
	go func() { early <- get("/work?ms=200") }()
	eventually(t, "the request is running", func() bool { return a.inFlight.Load() == 1 })
	a.draining.Store(true)
	if !(<-early).Close {
		t.Error("a request that was running before SIGTERM leaves its connection open")
	}
	for _, path := range []string{"/", "/work?ms=0", "/nowhere", "/livez", "/readyz", "/metrics"} {
		if res := get(path); !res.Close || res.Header.Get("X-Version") != "v1" {
			t.Errorf("%s: close=%v X-Version=%q", path, res.Close, res.Header.Get("X-Version"))
		}
	}
}

func TestAHandlerThatWritesNothingIsStampedToo(t *testing.T) {
	a := testApp(config{})
	a.draining.Store(true)
	res := wantAnswer(t, a.stamp(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), "GET", "/", "", 200, "")
	if res.Header().Get("Connection") != "close" {
		t.Error("no Connection: close")
	}
}

func TestWorkIsBounded(t *testing.T) {
	h := testApp(config{}).handler()
	wantAnswer(t, h, "GET", "/work?ms=1", "", 200, `"worked":"1ms"`)
	for _, ms := range []string{"-1", "60001", "soon", "1.5", "99999999999999999999"} {
		wantAnswer(t, h, "GET", "/work?ms="+ms, "", 400, "0 to 60000")
	}
}

func TestInjectedErrorsAreMarked(t *testing.T) {
	a := testApp(config{faults: faults{ErrorRate: 1}})
	h := a.handler()
	for _, path := range []string{"/", "/work"} {
		if res := wantAnswer(t, h, "GET", path, "", 500, "injected"); res.Header().Get("X-Fault") != "injected" {
			t.Errorf("%s: no X-Fault header", path)
		}
	}
	wantAnswer(t, h, "GET", "/readyz", "", 200, "ok") // probes tell the truth

	a.faults.Store(&faults{ErrorRate: 0.3})
	failed := 0
	for range 2000 {
		res := httptest.NewRecorder()
		h.ServeHTTP(res, httptest.NewRequest("GET", "/", nil))
		if res.Code == 500 {
			failed++
		}
	}
	if failed < 450 || failed > 750 { // 600 expected; this is over 7 standard deviations
		t.Errorf("%d of 2000 failed at rate 0.3", failed)
	}
}

func TestLatencyIsAdded(t *testing.T) {
	h := testApp(config{faults: faults{Latency: duration(30 * time.Millisecond)}}).handler()
	began := time.Now()
	wantAnswer(t, h, "GET", "/", "", 200, "v1")
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("answered after %v", took)
	}
}

func TestAdminReplacesTheFaults(t *testing.T) {
	a := testApp(config{admin: true, faults: faults{Latency: duration(time.Millisecond)}})
	h := a.handler()
	wantAnswer(t, h, "GET", "/admin/faults", "", 200,
		`{"errorRate":0,"latency":"1ms","neverReady":false,"ignoreSigterm":false}`)
	wantAnswer(t, h, "PUT", "/admin/faults", `{"errorRate":1,"neverReady":true}`, 200,
		`{"errorRate":1,"latency":"0s","neverReady":true,"ignoreSigterm":false}`)
	wantAnswer(t, h, "GET", "/", "", 500, "injected")
	wantAnswer(t, h, "GET", "/readyz", "", 503, "never-ready")
	wantAnswer(t, h, "PUT", "/admin/faults", `{}`, 200, `"errorRate":0`)
	wantAnswer(t, h, "GET", "/", "", 200, "v1")
}

func TestAdminRefusesRubbishAndKeepsTheFaults(t *testing.T) {
	a := testApp(config{admin: true, faults: faults{ErrorRate: 0.5}})
	h := a.handler()
	for _, c := range []struct {
		method, body string
		code         int
	}{
		{"PUT", ``, 400},
		{"PUT", `null`, 400},
		{"PUT", `[]`, 400},
		{"PUT", `{"errorRate":`, 400},
		{"PUT", `{"errorRate":2}`, 400},
		{"PUT", `{"errorRate":-1}`, 400},
		{"PUT", `{"errorRate":"1"}`, 400},
		{"PUT", `{"latency":"11s"}`, 400},
		{"PUT", `{"latency":5}`, 400},
		{"PUT", `{"latency":"soon"}`, 400},
		{"PUT", `{"errorrate_":0}`, 400},
		{"PUT", `{} {}`, 400},
		{"PUT", `{}x`, 400},
		{"PUT", `{"latency":"` + strings.Repeat("0", maxFaultBody) + `s"}`, 413},
		{"PUT", `{}` + strings.Repeat(" ", maxFaultBody), 413},
		{"POST", `{}`, 405},
		{"DELETE", ``, 405},
	} {
		wantAnswer(t, h, c.method, "/admin/faults", c.body, c.code, "")
	}
	if got, want := *a.faults.Load(), (faults{ErrorRate: 0.5}); got != want {
		t.Errorf("faults are now %+v", got)
	}
}

func TestAdminIsServedOnlyWhenAskedFor(t *testing.T) {
	wantAnswer(t, testApp(config{}).handler(), "GET", "/admin/faults", "", 404, "")
}

func TestMetricsCountRequestsNotProbes(t *testing.T) {
	a := testApp(config{admin: true})
	h := a.handler()
	wantMetrics(t, h, // before anything happened: the series exist
		`http_requests_total{code="200",method="get"} 0`,
		`http_requests_total{code="500",method="get"} 0`,
		`http_server_active_requests{http_request_method="GET",url_scheme="http"} 0`,
		`http_requests_in_flight 0`,
		`draining 0`,
		`build_info{version="v1"} 1`,
	)

	for _, path := range []string{"/", "/", "/work?ms=0", "/livez", "/readyz", "/metrics", "/admin/faults"} {
		wantAnswer(t, h, "GET", path, "", 200, "")
	}
	wantAnswer(t, h, "POST", "/", "", 200, "")
	wantAnswer(t, h, "BREW", "/nowhere", "", 404, "")
	a.draining.Store(true)
	body := wantMetrics(t, h,
		`http_requests_total{code="200",method="get"} 3`,
		`http_requests_total{code="200",method="post"} 1`,
		`http_requests_total{code="404",method="unknown"} 1`,
		`http_request_duration_seconds_count{code="200",method="get"} 3`,
		`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="200",http_route="/",url_scheme="http"} 2`,
		`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="200",http_route="/work",url_scheme="http"} 1`,
		`http_server_request_duration_seconds_count{http_request_method="_OTHER",http_response_status_code="404",http_route="",url_scheme="http"} 1`,
		`draining 1`,
	)
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/admin/faults", "/nowhere"} {
		if strings.Contains(body, path) {
			t.Errorf("/metrics speaks of %s", path)
		}
	}
}

func TestInFlightCountsRunningRequestsAndSurvivesAPanic(t *testing.T) {
	a := testApp(config{})
	running, release := make(chan bool), make(chan bool)
	slow := a.count("/slow", func(http.ResponseWriter, *http.Request) {
		running <- true
		<-release
	})
	done := make(chan bool)
	go func() {
		slow(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		close(done)
	}()
	<-running
	wantMetrics(t, a.handler(), `http_requests_in_flight 1`,
		`http_server_active_requests{http_request_method="GET",url_scheme="http"} 1`)
	close(release)
	<-done

	func() {
		defer func() { _ = recover() }()
		a.count("/panic", func(http.ResponseWriter, *http.Request) { panic("boom") })(
			httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}()
	wantMetrics(t, a.handler(), `http_requests_in_flight 0`,
		`http_server_active_requests{http_request_method="GET",url_scheme="http"} 0`,
		`http_requests_total{code="200",method="get"} 1`,
		`http_requests_total{code="500",method="get"} 1`)
}

func TestAClientThatLeavesIsNeitherSuccessNorError(t *testing.T) {
	a := testApp(config{})
	server := httptest.NewServer(a.handler())
	defer server.Close()
	client := &http.Client{Timeout: 50 * time.Millisecond}
	if _, err := client.Get(server.URL + "/work?ms=60000"); err == nil {
		t.Fatal("the client did not give up")
	}
	eventually(t, "the request ends", func() bool { return a.inFlight.Load() == 0 })
	wantMetrics(t, a.handler(), `http_requests_total{code="499",method="get"} 1`)
}

func TestThePodNameComesFromTheDownwardAPI(t *testing.T) {
	if got := podName(mapEnv{"POD_NAME": "checkout-7d4"}.lookup); got != "checkout-7d4" {
		t.Errorf("got %q", got)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	if got := podName(mapEnv{}.lookup); got != host {
		t.Errorf("got %q, want %q", got, host)
	}
}

// Helpers.

type mapEnv map[string]string

func (m mapEnv) lookup(key string) (string, bool) {
	value, ok := m[key]
	return value, ok
}

func testApp(c config) *app {
	c.version = "v1"
	return newApp(c, "pod-1", slog.New(slog.DiscardHandler))
}

func wantAnswer(t *testing.T, h http.Handler, method, path, body string, code int, inBody string) *httptest.ResponseRecorder {
	t.Helper()
	res := httptest.NewRecorder()
	h.ServeHTTP(res, httptest.NewRequest(method, path, strings.NewReader(body)))
	if res.Code != code || !strings.Contains(res.Body.String(), inBody) {
		t.Errorf("%s %s %.60s: %d %s\nwant %d with %q", method, path, body, res.Code, res.Body, code, inBody)
	}
	if res.Header().Get("Content-Type") == "application/json" && !json.Valid(res.Body.Bytes()) {
		t.Errorf("%s %s: not JSON: %s", method, path, res.Body)
	}
	return res
}

func wantMetrics(t *testing.T, h http.Handler, lines ...string) string {
	t.Helper()
	body := wantAnswer(t, h, "GET", "/metrics", "", 200, "").Body.String()
	for _, line := range lines {
		if !strings.Contains("\n"+body, "\n"+line+"\n") {
			t.Errorf("/metrics lacks the line\n%s", line)
		}
	}
	return body
}

// eventually polls until ok, with a deadline that no healthy run comes near.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10s: %s", what)
		}
	}
}
