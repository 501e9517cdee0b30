package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/telemetry"
)

const secret = "SECRET-OF-THE-SOURCE"

func say(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func recorded(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/recorded/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func matrix(series string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + series + `]}}`
}

// The list of ux-reliability B5.8 and more. The same answer is given to every
// query.
func TestWhatTheSourceDoesWrongIsTrouble(t *testing.T) {
	now := tick(10)
	sec := func(d time.Duration) string { return fmt.Sprintf("%.3f", float64(now.Add(d).UnixMilli())/1000) }
	labels := `"proxy":"p1","backend":"demo/echo-v1","code":"200"`
	values := `"values":[[` + sec(-20*time.Second) + `,"5"],[` + sec(-5*time.Second) + `,"9"]]`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"400, refused query": {say(400, recorded(t, "error-400.json")), "it answered 400 Bad Request"},
		"422, failed query":  {say(422, recorded(t, "error-422.json")), "it answered 422 Unprocessable Entity"},
		"401":                {say(401, secret), "it answered 401 Unauthorized"},
		"403":                {say(403, secret), "it answered 403 Forbidden"},
		"404":                {say(404, secret), "it answered 404 Not Found"},
		"405":                {say(405, secret), "it answered 405 Method Not Allowed"},
		"429":                {say(429, secret), "it answered 429 Too Many Requests"},
		"500":                {say(500, `<html>`+secret), "it answered 500 Internal Server Error"},
		"502":                {say(502, secret), "it answered 502 Bad Gateway"},
		"503, flapping":      {say(503, `{"status":"error","errorType":"timeout","error":"`+secret+`"}`), "it answered 503 Service Unavailable"},
		"204":                {say(204, ""), "cut off or not one of Prometheus"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/"+secret, http.StatusFound)
		}, "it answered 302 Found"},
		"an error that says 200":  {say(200, `{"status":"error","errorType":"execution","error":"`+secret+`"}`), "it failed to evaluate the query"},
		"bad data that says 200":  {say(200, `{"status":"error","errorType":"bad_data","error":"`+secret+`"}`), "it refused the query as bad data"},
		"a timeout that says 200": {say(200, `{"status":"error","errorType":"timeout","error":"`+secret+`"}`), "it timed out on the query"},
		"an unknown kind of error": {
			say(200, `{"status":"error","errorType":"`+secret+`","error":"`+secret+`"}`),
			"an error of an unknown kind",
		},
		"an empty body":        {say(200, ""), "cut off or not one of Prometheus"},
		"truncated JSON":       {say(200, matrix(`{"metric":{` + labels + `},` + values)[:90]), "cut off or not one of Prometheus"},
		"something else":       {say(200, `<html>`+secret), "cut off or not one of Prometheus"},
		"a number that is not": {say(200, matrix(`{"metric":{`+labels+`},"values":[[1,"`+secret+`"]]}`)), "cut off or not one of Prometheus"},
		"null":                 {say(200, `null`), "not a matrix"},
		"no data":              {say(200, `{"status":"success"}`), "not a matrix"},
		"a vector":             {say(200, `{"status":"success","data":{"resultType":"vector","result":[]}}`), "not a matrix"},
		"a scalar":             {say(200, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`), "not a matrix"},
		"a partial answer": {
			say(200, `{"status":"success","warnings":["`+secret+`"],"data":{"resultType":"matrix","result":[]}}`),
			"the answer is partial: it has 1 warnings",
		},
		"nothing":             {say(200, matrix("")), `no samples of sandbox_proxy_requests_started_total or sandbox_proxy_requests_total with backend "demo/echo-v1" or "demo/echo-v2"`},
		"a null series":       {say(200, matrix(`null`)), "holds an empty series"},
		"a series by no name": {say(200, matrix(`{"metric":{},`+values+`}`)), "series that were not asked for"},
		"another metric":      {say(200, matrix(`{"metric":{"__name__":"up",`+labels+`},`+values+`}`)), "series that were not asked for"},
		"another backend":     {say(200, matrix(`{"metric":{"proxy":"p1","backend":"demo/x","code":"200"},`+values+`}`)), "series that were not asked for"},
		"no proxy label":      {say(200, matrix(`{"metric":{"backend":"demo/echo-v1","code":"200"},`+values+`}`)), "a series names no proxy: it has no label proxy"},
		"only NaN":            {say(200, matrix(`{"metric":{`+labels+`},"values":[[`+sec(-time.Second)+`,"NaN"]]}`)), "no sample of sandbox_proxy_requests_total is a number"},
		"histograms": {
			say(200, matrix(`{"metric":{`+labels+`},"histograms":[[`+sec(-time.Second)+`,{"count":"1","sum":"1","buckets":[]}]]}`)),
			"histograms where counters were asked for",
		},
		"samples out of order": {say(200, matrix(`{"metric":{`+labels+`},"values":[[`+sec(-time.Second)+`,"1"],[`+sec(-2*time.Second)+`,"2"]]}`)), "out of order"},
		"one time twice":       {say(200, matrix(`{"metric":{`+labels+`},"values":[[`+sec(-time.Second)+`,"1"],[`+sec(-time.Second)+`,"1"]]}`)), "out of order"},
		"samples to come":      {say(200, matrix(`{"metric":{`+labels+`},"values":[[`+sec(time.Minute)+`,"1"]]}`)), "from after the time that was asked for"},
		"only what is too old": {say(200, matrix(`{"metric":{`+labels+`},"values":[[`+sec(-time.Hour)+`,"1"]]}`)), "no samples of"},
		"two equal series":     {say(200, matrix(`{"metric":{`+labels+`},`+values+`},{"metric":{`+labels+`},`+values+`}`)), "p1 is counted twice: two series differ only in nothing"},
		"two replicas": {
			say(200, matrix(`{"metric":{"prometheus_replica":"a",`+labels+`},`+values+`},{"metric":{"prometheus_replica":"b",`+labels+`},`+values+`}`)),
			`p1 is counted twice: two series differ only in prometheus_replica ("a", "b")`,
		},
		"two ports": {
			say(200, matrix(`{"metric":{"instance":"10.0.0.1:15020",`+labels+`},`+values+`},{"metric":{"instance":"10.0.0.1:15090",`+labels+`},`+values+`}`)),
			`p1 is counted twice: two series differ only in instance ("10.0.0.1:15020", "10.0.0.1:15090")`,
		},
		"two jobs": {
			say(200, matrix(`{"metric":{"job":"a","endpoint":"x",`+labels+`},`+values+`},{"metric":{"job":"b","endpoint":"y",`+labels+`},`+values+`}`)),
			`p1 is counted twice: two series differ only in job ("a", "b"), endpoint ("x", "y")`,
		},
		"10 MB": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"matrix","result":[`)
			pad := []byte(strings.Repeat(" ", 1<<20))
			for range 10 {
				if _, err := w.Write(pad); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, `]}}`)
		}, "the answer is larger than 8388608 bytes"},
		"a connection that breaks": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"status":"succ`)
			panic(http.ErrAbortHandler)
		}, "no answer, or it broke off"},
		"not even HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, secret+"\r\n\r\n")
			_ = c.Close()
		}, "no answer, or it broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			r := look(t, eyesOn(t, c.answer), ask(tick(8), now))
			if !strings.Contains(r.Trouble, c.want) || !strings.Contains(r.Trouble, `: metrics source "mesh": `) {
				t.Errorf("trouble %q, want %q", r.Trouble, c.want)
			}
			for _, leak := range []string{secret, "parse error", "too many samples", "127.0.0.1"} {
				if strings.Contains(r.Trouble, leak) {
					t.Errorf("the trouble tells what the source said: %q", r.Trouble)
				}
			}
		})
	}
}

func TestADownSourceIsTrouble(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	url := srv.URL
	srv.Close()
	e, err := telemetry.New([]telemetry.Source{{Name: "mesh", URL: url, Provider: "envoy"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if r := look(t, e, ask(tick(0), tick(1))); !strings.Contains(r.Trouble, "no answer: dial tcp") {
		t.Errorf("trouble %q", r.Trouble)
	}
}

func TestASlowSourceIsTroubleAtItsDeadline(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"no answer at all": func(http.ResponseWriter) {},
		"no end of the body": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"status":`)
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			stop := make(chan struct{})
			e := eyesOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.FormValue("timeout") != "50ms" {
					t.Errorf("the source is not told the deadline: %v", r.Form)
				}
				answer(w)
				<-stop
			}), func(s *telemetry.Source) { s.Timeout = 50 * time.Millisecond })
			defer close(stop)
			if r := look(t, e, ask(tick(0), tick(1))); !strings.Contains(r.Trouble, "no answer within 50ms") {
				t.Errorf("trouble %q", r.Trouble)
			}
		})
	}
}

func TestALookThatIsEndedIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stop := make(chan struct{})
	e := eyesOn(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel(); <-stop }))
	defer close(stop)
	if _, err := e.Look(ctx, ask(tick(0), tick(1))); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// One query that fails makes the whole look trouble: half a look would show
// requests without their errors.
func TestOneFailedQueryIsTroubleForAll(t *testing.T) {
	for _, metric := range []string{"started", "requests_total", "active", "in_flight"} {
		w := newWorld(t, starts("p1", "echo-v1", "0 1"), ends("p1", "echo-v1", "200", "0 1"))
		w.edit = func(q string, rw http.ResponseWriter) bool {
			if strings.Contains(q, metric) {
				rw.WriteHeader(500)
				return true
			}
			return false
		}
		a := ask(tick(0), tick(1.1))
		a.Pods[0] = []string{"x"}
		if r := look(t, eyesOn(t, w), a); !strings.Contains(r.Trouble, metric) {
			t.Errorf("%s: %q", metric, r.Trouble)
		}
	}
}

func TestASourceThatTakesOnlyGetIsRead(t *testing.T) {
	w := newWorld(t, ends("p1", "echo-v1", "200", "0 7"))
	e := eyesOn(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			rw.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.ServeHTTP(rw, r)
	}))
	if r := look(t, e, ask(tick(0), tick(1.1))); total(r)[0].Requests != 7 {
		t.Errorf("reading %+v", r)
	}
}

// Copies that have ended must not keep the eyes shut until they leave the
// range; what they made doubtful is left out.
func TestCopiesThatEndedCostOnlyTheirTime(t *testing.T) {
	w := newWorld(t,
		ends("p1", "echo-v1", "200", "0 10 20 30 40 50 60 70 80"), starts("p1", "echo-v1", "0 1 2 3 4 5 6 7 8"),
		`sandbox_proxy_requests_total{proxy="p1",backend="demo/echo-v1",code="200",job="new"} - 10 20 - - - - - -`)
	e := eyesOn(t, w)
	if r := look(t, e, ask(tick(0), tick(3.1))); !strings.Contains(r.Trouble, "p1 is counted twice") {
		t.Errorf("while both are there: %+v", r)
	}
	r := look(t, e, ask(tick(0), tick(8.1)))
	if got := total(r)[0].Requests; got != 60 || !strings.Contains(strings.Join(r.Notes, "\n"), "counts up to 2026-03-01T12:00:30Z are left out") {
		t.Errorf("counted %v, notes %q, trouble %q", got, r.Notes, r.Trouble)
	}
}
