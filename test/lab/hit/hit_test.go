package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// start runs a generator against a handler and returns its control API.
func start(t *testing.T, h http.Handler, slots int, timeout time.Duration) *httptest.Server {
	t.Helper()
	target := httptest.NewServer(h)
	t.Cleanup(target.Close)
	c := client{target: target.URL, method: http.MethodPost, timeout: timeout, http: newTransport(slots)}
	t.Cleanup(c.http.CloseIdleConnections)
	g := newGenerator(t.Context(), c, slots)
	s := httptest.NewServer(control(g, time.Minute))
	t.Cleanup(s.Close)
	return s
}

func post(t *testing.T, s *httptest.Server, path, body string) int {
	t.Helper()
	resp, err := s.Client().Post(s.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func get(t *testing.T, s *httptest.Server) report {
	t.Helper()
	resp, err := s.Client().Get(s.URL + "/report")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var r report
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]counts{"paced": r.Paced, "long": r.Long} {
		var sent, answered, failed int64
		for _, s := range c.Timeline {
			sent, answered, failed = sent+s.Sent, answered+s.Answered, failed+s.Failed
		}
		if c.Sent != c.Answered+c.Failed+c.InFlight || sent != c.Sent || answered != c.Answered || failed != c.Failed {
			t.Errorf("the %s stream does not add up: %+v", name, c)
		}
	}
	return r
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10s: %s", what)
		}
	}
}

func TestEveryRequestIsCountedOnceByWhatItGot(t *testing.T) {
	var n atomic.Int64
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) % 4 {
		case 0:
			w.Header().Set("X-Fault", "injected")
			w.Header().Set("X-Version", "v2")
			w.WriteHeader(500)
		case 1:
			w.WriteHeader(503) // as a proxy answers for itself
		default:
			w.Header().Set("X-Version", "v1")
			_, _ = io.WriteString(w, `{"version":"v1","host":"checkout-canary-5d9c7b-x2x4z"}`)
		}
	}), 1000, time.Minute)
	post(t, s, "/rate", `{"rps":200}`)
	eventually(t, "100 answers", func() bool { return get(t, s).Paced.Answered >= 100 })
	post(t, s, "/rate", `{"rps":0}`)
	eventually(t, "nothing in flight", func() bool { return get(t, s).Paced.InFlight == 0 })

	r := get(t, s).Paced
	if r.Sent != n.Load() || r.Failed != 0 || r.Missed != 0 {
		t.Errorf("%d were received; the report says %+v", n.Load(), r)
	}
	if r.Injected != r.ByCode["500"] || r.Bad != r.ByCode["503"] || r.Injected+r.Bad+r.ByCode["200"] != r.Answered {
		t.Errorf("codes do not add up: %+v", r)
	}
	if r.ByVersion["v1"] != r.ByCode["200"] || r.ByVersion["v2"] != r.Injected || r.ByVersion[none] != r.Bad || r.ByWorkload["checkout-canary"] != r.ByCode["200"] {
		t.Errorf("versions or workloads do not add up: %+v", r)
	}
	if got := int64(len(r.Samples)); got != min(r.Bad, maxSamples) {
		t.Errorf("%d samples of %d bad answers", got, r.Bad)
	}

	post(t, s, "/reset", "")
	if r := get(t, s).Paced; r.Sent != 0 || len(r.Timeline) != 0 {
		t.Errorf("after a reset: %+v", r)
	}
}

// TestNothingIsSentTwice breaks connections at the moment when Go's client would
// send a GET again without a word: a kept connection that ends before an answer.
func TestNothingIsSentTwice(t *testing.T) {
	var received atomic.Int64
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if received.Add(1)%2 == 0 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				if tcp, ok := conn.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0)
				}
				_ = conn.Close()
			}
		}
	}), 1, time.Minute)
	post(t, s, "/rate", `{"rps":100}`)
	eventually(t, "50 failures", func() bool { return get(t, s).Paced.Failed >= 50 })
	post(t, s, "/rate", `{"rps":0}`)
	eventually(t, "nothing in flight", func() bool { return get(t, s).Paced.InFlight == 0 })
	r := get(t, s).Paced
	if r.Sent != received.Load() {
		t.Errorf("sent %d, but %d were received", r.Sent, received.Load())
	}
	if r.Failures["reset"]+r.Failures["closed"] != r.Failed {
		t.Errorf("failures are named %v", r.Failures)
	}
}

func TestTheLoadDoesNotWaitForAnswers(t *testing.T) {
	hang := make(chan struct{})
	s := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}), 20, 300*time.Millisecond)
	defer close(hang)
	post(t, s, "/rate", `{"rps":200}`)
	eventually(t, "all slots taken and more missed", func() bool { r := get(t, s).Paced; return r.InFlight == 20 && r.Missed > 0 })
	eventually(t, "time-outs", func() bool { return get(t, s).Paced.Failures["timeout"] >= 20 })
	post(t, s, "/rate", `{"rps":0}`)
	eventually(t, "nothing in flight", func() bool { return get(t, s).Paced.InFlight == 0 })
}

func TestLongRequestsStayInFlightAndCutOnesAreSeen(t *testing.T) {
	var cut atomic.Bool
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "/work?ms=200" {
			t.Errorf("asked for %s", r.URL)
		}
		time.Sleep(200 * time.Millisecond)
		if cut.Load() {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "not all of it")
		}
	}), 10, time.Minute)
	post(t, s, "/long", `{"n":5,"ms":200}`)
	eventually(t, "10 answers", func() bool { return get(t, s).Long.Answered >= 10 })
	eventually(t, "5 in flight", func() bool { return get(t, s).Long.InFlight == 5 })
	if r := get(t, s).Long; r.Failed != 0 {
		t.Errorf("%d failed", r.Failed)
	}
	cut.Store(true)
	eventually(t, "a cut answer", func() bool { return get(t, s).Long.Failures["cut"] > 0 })
	post(t, s, "/long", `{"n":0}`)
	eventually(t, "nothing in flight", func() bool { return get(t, s).Long.InFlight == 0 })
}

func TestItStopsByItself(t *testing.T) {
	var n atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { n.Add(1) }))
	defer target.Close()
	g := newGenerator(t.Context(), client{target: target.URL, method: http.MethodPost, timeout: time.Second, http: newTransport(10)}, 10)
	s := httptest.NewServer(control(g, 100*time.Millisecond))
	defer s.Close()
	post(t, s, "/rate", `{"rps":200}`)
	post(t, s, "/long", `{"n":2,"ms":10}`)
	eventually(t, "rest", func() bool {
		before := n.Load()
		time.Sleep(300 * time.Millisecond)
		return before > 0 && n.Load() == before
	})
}

func TestWishesThatMakeNoSenseAreRefused(t *testing.T) {
	s := start(t, http.NotFoundHandler(), 1, time.Second)
	for _, c := range [][2]string{
		{"/rate", `{"rps":-1}`},
		{"/rate", `{"rps":5001}`},
		{"/rate", `{"rqs":1}`},
		{"/rate", ``},
		{"/long", `{"n":-1}`},
		{"/long", `{"n":1,"ms":60001}`},
		{"/long", `{"n":1001}`},
	} {
		if code := post(t, s, c[0], c[1]); code != http.StatusBadRequest {
			t.Errorf("%s %s: %d", c[0], c[1], code)
		}
	}
}

func TestADeploymentIsNamedByItsPods(t *testing.T) {
	for pod, want := range map[string]string{
		"checkout-7d4f9c-abcde":        "checkout",
		"checkout-canary-5d9c7b-x2x4z": "checkout-canary",
		"laptop":                       "laptop",
		"my-laptop":                    "my-laptop",
	} {
		if got := deployment(pod); got != want {
			t.Errorf("%s: %s", pod, got)
		}
	}
}
