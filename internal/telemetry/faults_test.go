package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shifter-dev/shifter/internal/telemetry"
)

// first answers the first calls in its own way, then as next does.
func first(n int32, instead, next http.Handler) (http.Handler, *atomic.Int32) {
	var calls atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) <= n {
			instead.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	}), &calls
}

// one query a look: the app's, without a gauge in the answer.
func appWorld(t *testing.T, lines ...string) *world {
	t.Helper()
	for i, l := range lines {
		pod, rest, _ := strings.Cut(l, " ")
		code, values, _ := strings.Cut(rest, " ")
		lines[i] = fmt.Sprintf(`http_requests_total{namespace="demo",pod=%q,code=%q} %s`, pod, code, values)
	}
	return newWorld(t, lines...)
}

// Every fault has its class, and a class never has counts. A fault of the data
// that is none of the source has counts as they were.
func TestFaultsAndTheirClasses(t *testing.T) {
	sec := func(n float64) string { return fmt.Sprintf("%.3f", float64(tick(n).UnixMilli())/1000) }
	app := func(labels, values string) string {
		return matrix(`{"metric":{"namespace":"demo","pod":"v1-a","code":"200"` + labels + `},"values":[` + values + `]}`)
	}
	two := `[` + sec(4) + `,"5"],[` + sec(5) + `,"9"]`
	for name, c := range map[string]struct {
		answer http.Handler
		class  telemetry.Class
		want   [2]counted
		note   string
	}{
		"401":                   {answer: say(401, secret), class: telemetry.Auth},
		"403":                   {answer: say(403, secret), class: telemetry.Auth},
		"400":                   {answer: say(400, secret), class: telemetry.BadQuery},
		"429, and on":           {answer: say(429, secret), class: telemetry.Unavailable},
		"503, and on":           {answer: say(503, secret), class: telemetry.Unavailable},
		"504":                   {answer: say(504, secret), class: telemetry.Timeout},
		"truncated JSON":        {answer: say(200, app("", two)[:60]), class: telemetry.Odd},
		"an error that is 200":  {answer: say(200, `{"status":"error","errorType":"execution","error":"`+secret+`"}`), class: telemetry.BadQuery},
		"a timeout that is 200": {answer: say(200, `{"status":"error","errorType":"timeout","error":"`+secret+`"}`), class: telemetry.Timeout},
		"10 MB": {answer: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"success",`+strings.Repeat(" ", 10<<20)+`"data":{"resultType":"matrix","result":[]}}`)
		}), class: telemetry.Odd},
		"warnings":               {answer: say(200, `{"status":"success","warnings":["`+secret+`"],"data":{"resultType":"matrix","result":[]}}`), class: telemetry.Partial},
		"an empty vector":        {answer: say(200, `{"status":"success","data":{"resultType":"vector","result":[]}}`), class: telemetry.Odd},
		"nothing, of both":       {answer: say(200, matrix("")), class: telemetry.Empty},
		"only NaN":               {answer: say(200, app("", `[`+sec(4)+`,"NaN"],[`+sec(5)+`,"NaN"]`)), class: telemetry.Empty},
		"only Inf":               {answer: say(200, app("", `[`+sec(4)+`,"+Inf"],[`+sec(5)+`,"-Inf"]`)), class: telemetry.Empty},
		"a pod of somebody else": {answer: say(200, strings.ReplaceAll(app("", two), "v1-a", "other")), class: telemetry.Odd},
		"replicas": {answer: say(200, matrix(
			`{"metric":{"namespace":"demo","pod":"v1-a","code":"200","prometheus_replica":"a"},"values":[`+two+`]},`+
				`{"metric":{"namespace":"demo","pod":"v1-a","code":"200","prometheus_replica":"b"},"values":[`+two+`]}`)), class: telemetry.Odd},

		"old samples": {answer: appWorld(t, "v1-a 200 0 10 20", "v2-a 200 0 1 2"), want: [2]counted{counts(20, 0), counts(2, 0)}, note: "stale: the newest sample is of "},
		"a counter that began again": {
			answer: appWorld(t, "v1-a 200 0 90 5 10 15 20", "v2-a 200 0 1 2 3 4 5"), want: [2]counted{counts(110, 0), counts(5, 0)}, note: "began again",
		},
		"a pod that is made again": {
			answer: newWorld(t, `http_requests_total{namespace="demo",pod="v1-a",code="200"} 0 10 20 30 40 50`,
				`http_requests_total{namespace="demo",pod="v2-a",code="200",instance="10.0.0.1:1"} 5 6 7 - - -`,
				`http_requests_total{namespace="demo",pod="v2-a",code="200",instance="10.0.0.2:1"} - - - 4 5 9`),
			want: [2]counted{counts(50, 0), counts(7, 0)}, note: "first seen with their target",
		},
		"a gap": {answer: appWorld(t, "v1-a 200 0 10 - - 40 50", "v2-a 200 0 1 - - 4 5"), want: [2]counted{counts(50, 0), counts(5, 0)}},
		"totals without an error series": {
			answer: appWorld(t, "v1-a 200 0 10 20 30 40 50", "v2-a 200 0 1 2 3 4 5"), want: [2]counted{counts(50, 0), counts(5, 0)},
		},
		"one track absent": {answer: appWorld(t, "v1-a 200 0 10 20 30 40 50"), want: [2]counted{counts(50, 0), {}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := ask(tick(0), tick(5.1))
			a.Pods = [2][]string{{"v1-a"}, {"v2-a"}}
			r := look(t, eyesOn(t, c.answer, with("app")), a)
			class, _ := telemetry.ClassOf(r.Trouble)
			if class != c.class || strings.Contains(r.Trouble, secret) {
				t.Errorf("trouble %q, want class %q", r.Trouble, c.class)
			}
			if c.class != "" && len(r.Windows) > 0 {
				t.Errorf("windows beside trouble: %+v", r.Windows)
			}
			if got := total(r); got != c.want {
				t.Errorf("counted %v, want %v", got, c.want)
			}
			if !strings.Contains(strings.Join(r.Notes, "\n"), c.note) {
				t.Errorf("notes %q lack %q", r.Notes, c.note)
			}
		})
	}
}

func TestOldSamplesAloneMakeNoWindow(t *testing.T) {
	w := appWorld(t, "v1-a 200 0 10 20", "v2-a 200 0 1 2")
	a := ask(tick(2), tick(5.1))
	a.Pods = [2][]string{{"v1-a"}, {"v2-a"}}
	r := look(t, eyesOn(t, w, with("app")), a)
	if len(r.Windows) > 0 || !r.At.Equal(tick(2)) || !slices.ContainsFunc(r.Notes, func(n string) bool { c, _ := telemetry.ClassOf(n); return c == telemetry.Stale }) {
		t.Errorf("reading: %+v", r)
	}
}

// A source that hangs, that is not there, or that shows a certificate nobody
// signed.
func TestFaultsOfTheConnectionHaveTheirClass(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop }))
	defer hang.Close()
	defer close(stop)
	self := httptest.NewUnstartedServer(say(200, matrix("")))
	self.Config.ErrorLog = log.New(io.Discard, "", 0)
	self.StartTLS()
	defer self.Close()
	for name, c := range map[string]struct {
		url   string
		class telemetry.Class
		text  string
	}{
		"refused":                   {nobody, telemetry.Unavailable, "no answer: dial tcp"},
		"a hang":                    {hang.URL, telemetry.Timeout, "no answer within 500ms"},
		"a self-signed certificate": {self.URL, telemetry.Auth, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := telemetry.New([]telemetry.Source{{Name: "mesh", URL: c.url, Provider: "envoy", Timeout: 500 * time.Millisecond}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			r := look(t, e, ask(tick(0), tick(1)))
			if class, _ := telemetry.ClassOf(r.Trouble); class != c.class || !strings.Contains(r.Trouble, c.text) || len(r.Windows) > 0 {
				t.Errorf("trouble %q, want %q and %q", r.Trouble, c.class, c.text)
			}
		})
	}
}

func TestWhatPassesIsAskedAgain(t *testing.T) {
	good := func(t *testing.T) *world { return appWorld(t, "v1-a 200 0 10", "v2-a 200 0 1") }
	for name, c := range map[string]struct {
		code  int
		times int32
		calls int32 // of the two queries together
		class telemetry.Class
	}{
		"503 three times":  {503, 3, 5, ""},
		"429 once":         {429, 1, 3, ""},
		"503 for good":     {503, 100, 8, telemetry.Unavailable},
		"400 is final":     {400, 100, 2, telemetry.BadQuery},
		"401 is final":     {401, 100, 2, telemetry.Auth},
		"403 is final":     {403, 100, 4, telemetry.Auth}, // once more as GET
		"500 is final too": {500, 100, 2, telemetry.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, calls := first(c.times, say(c.code, secret), good(t))
				e, err := telemetry.New([]telemetry.Source{{Name: "mesh", URL: "http://in-place", Provider: "app", Scrape: scrape, Client: direct{h}}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				a := ask(tick(0), tick(1.1))
				a.Pods = [2][]string{{"v1-a"}, {"v2-a"}}
				r := look(t, e, a)
				if class, _ := telemetry.ClassOf(r.Trouble); class != c.class || calls.Load() != c.calls {
					t.Errorf("class %q after %d calls, want %q after %d: %s", class, calls.Load(), c.class, c.calls, r.Trouble)
				}
				if c.class == "" && total(r) != [2]counted{counts(10, 0), counts(1, 0)} {
					t.Errorf("counted %v", total(r))
				}
			})
		})
	}
}

// refusing refuses connections for a time, as a source does that starts.
type refusing struct {
	http.RoundTripper
	mu   sync.Mutex
	left int
}

func (r *refusing) RoundTrip(q *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left--; r.left >= 0 {
		_, err := (&net.Dialer{}).DialContext(q.Context(), "tcp", "127.0.0.1:1")
		return nil, err
	}
	return r.RoundTripper.RoundTrip(q)
}

func TestARefusedConnectionIsTriedAgain(t *testing.T) {
	w := newWorld(t, ends("p1", "echo-v1", "200", "0 7"))
	e := eyesOn(t, w, func(s *telemetry.Source) { s.Client = &refusing{RoundTripper: direct{w}, left: 2} })
	if r := look(t, e, ask(tick(0), tick(1.1))); total(r)[0] != counts(7, 0) {
		t.Errorf("reading: %+v", r)
	}
}

// Retries stay inside the deadline of the call, and end with it.
func TestRetriesEndWithTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, calls := first(1000, say(503, ""), nil)
		e, err := telemetry.New([]telemetry.Source{{Name: "mesh", URL: "http://in-place", Provider: "envoy", Timeout: 60 * time.Millisecond, Client: direct{h}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		r := look(t, e, ask(tick(0), tick(1)))
		if took := time.Since(begin); took > 60*time.Millisecond || calls.Load() > 2*3 || !strings.Contains(r.Trouble, "503") {
			t.Errorf("%d calls in %s: %s", calls.Load(), took, r.Trouble)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := e.Look(ctx, ask(tick(0), tick(1))); err == nil {
			t.Error("a look that was ended has a reading")
		}
	})
}
