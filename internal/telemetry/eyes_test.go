package telemetry_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.uber.org/goleak"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch is when the first sample of every world is scraped.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const scrape = 15 * time.Second

// tick is the time of the nth scrape.
func tick(n float64) time.Time { return epoch.Add(time.Duration(n * float64(scrape))) }

// world is what a Prometheus holds: series and their samples. It answers range
// selectors as Prometheus does and shows each sample from a time on only.
type world struct {
	t      testing.TB
	mu     sync.Mutex
	series []*worldSeries
	asked  []string
	// edit may change an answer before it is sent.
	edit func(query string, w http.ResponseWriter) (done bool)
}

type worldSeries struct {
	labels  labels.Labels
	samples []worldSample
}

type worldSample struct {
	at, visible time.Time
	value       float64
}

// newWorld reads series: a selector, then one value per scrape. "-" is a scrape
// that missed the series. A number after @ is the offset of the series' target
// in scrapes.
func newWorld(t testing.TB, lines ...string) *world {
	w := &world{t: t}
	for _, line := range lines {
		w.add(line)
	}
	return w
}

var promql = parser.NewParser(parser.Options{})

func (w *world) add(line string) {
	end := strings.LastIndex(line, "}") + 1
	matchers, err := promql.ParseMetricSelector(line[:end])
	if err != nil {
		w.t.Fatalf("%s: %v", line, err)
	}
	b := labels.NewBuilder(labels.EmptyLabels())
	for _, m := range matchers {
		b.Set(m.Name, m.Value)
	}
	s := &worldSeries{}
	offset := 0.0
	for i, v := range strings.Fields(line[end:]) {
		if i == 0 && v[0] == '@' {
			offset, _ = strconv.ParseFloat(v[1:], 64)
			continue
		}
		n := float64(len(s.samples))
		sample := worldSample{at: tick(n + offset), value: math.Inf(-1)}
		if v != "-" {
			if sample.value, err = strconv.ParseFloat(v, 64); err != nil {
				w.t.Fatalf("%s: %v", line, err)
			}
		}
		sample.visible = sample.at
		s.samples = append(s.samples, sample)
	}
	if b.Get("instance") == "" { // every real series has one
		for _, l := range []string{"proxy", "pod"} {
			if v := b.Get(l); v != "" {
				b.Set("instance", v+":9090")
				if b.Get("job") == "" {
					b.Set("job", "pods")
				}
				break
			}
		}
	}
	s.labels = b.Labels()
	w.series = append(w.series, s)
}

// missed marks a scrape without the series; real infinities are written +Inf.
func (s worldSample) missed() bool { return math.IsInf(s.value, -1) }

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := r.FormValue("query")
	w.asked = append(w.asked, q)
	if w.edit != nil && w.edit(q, rw) {
		return
	}
	secs, err := strconv.ParseFloat(r.FormValue("time"), 64)
	if err != nil {
		w.t.Errorf("a query without an explicit time: %v", r.Form)
	}
	m, v, err := selector(q)
	if err != nil {
		w.t.Error(err)
		return
	}
	writeMatrix(rw, w.matrix(v.LabelMatchers, m.Range, time.UnixMilli(int64(math.Round(secs*1000)))))
}

type stream struct {
	Metric map[string]string `json:"metric"`
	Values [][2]any          `json:"values"`
}

// selector takes a range selector apart; only raw samples may be asked for.
func selector(q string) (*parser.MatrixSelector, *parser.VectorSelector, error) {
	expr, err := promql.ParseExpr(q)
	if err != nil {
		return nil, nil, fmt.Errorf("query %s: %w", q, err)
	}
	m, ok := expr.(*parser.MatrixSelector)
	if !ok {
		return nil, nil, fmt.Errorf("query %s is a %T and not a range selector", q, expr)
	}
	v, ok := m.VectorSelector.(*parser.VectorSelector)
	if !ok {
		return nil, nil, fmt.Errorf("query %s selects from a %T", q, m.VectorSelector)
	}
	return m, v, nil
}

func (w *world) matrix(matchers []*labels.Matcher, span time.Duration, now time.Time) []stream {
	out := []stream{}
	for _, s := range w.series {
		matches := true
		for _, lm := range matchers {
			matches = matches && lm.Matches(s.labels.Get(lm.Name))
		}
		if !matches {
			continue
		}
		st := stream{Metric: s.labels.Map()}
		for _, v := range s.samples {
			if !v.missed() && !v.visible.After(now) && v.at.After(now.Add(-span)) && !v.at.After(now) {
				st.Values = append(st.Values, [2]any{float64(v.at.UnixMilli()) / 1000, strconv.FormatFloat(v.value, 'f', -1, 64)})
			}
		}
		if len(st.Values) > 0 {
			out = append(out, st)
		}
	}
	return out
}

func writeMatrix(w http.ResponseWriter, result []stream) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"status": "success",
		"data":   map[string]any{"resultType": "matrix", "result": result},
	})
}

// eyesOn opens eyes on a handler.
func eyesOn(t testing.TB, h http.Handler, change ...func(*telemetry.Source)) *telemetry.Eyes {
	t.Helper()
	srv := httptest.NewServer(h)
	s := telemetry.Source{Name: "mesh", URL: srv.URL, Provider: "sandbox", Scrape: scrape, Timeout: time.Minute}
	for _, c := range change {
		c(&s)
	}
	eyes, err := telemetry.New([]telemetry.Source{s}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	t.Cleanup(eyes.Close)
	return eyes
}

func with(provider string) func(*telemetry.Source) {
	return func(s *telemetry.Source) { s.Provider = provider }
}

// ask is a question about the tracks v1 and v2 in namespace demo.
func ask(since, now time.Time) release.Ask {
	a := release.Ask{Since: since, Now: now}
	a.Binding.Metrics.Source = "mesh"
	a.Binding.Tracks = [2]release.BoundTrack{
		{Namespace: "demo", Deployment: "echo-v1", Service: "echo-v1", Port: 80},
		{Namespace: "demo", Deployment: "echo-v2", Service: "echo-v2", Port: 80},
	}
	return a
}

func look(t testing.TB, e *telemetry.Eyes, a release.Ask) release.Reading {
	t.Helper()
	r, err := e.Look(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	checkReading(t, r)
	return r
}

// checkReading holds what is true of every reading.
func checkReading(t testing.TB, r release.Reading) {
	t.Helper()
	if r.Asked.IsZero() || r.Scrape == 0 {
		t.Errorf("a reading without its time or scrape: %+v", r)
	}
	if (r.Trouble != "") != r.At.IsZero() {
		t.Errorf("trouble %q and At %v do not fit", r.Trouble, r.At)
	}
	if r.Trouble != "" && (r.Windows != nil || r.Proxies != nil || r.Silent != nil || !r.Drain[0].At.IsZero() || !r.Drain[1].At.IsZero()) {
		t.Errorf("trouble with counts: %+v", r)
	}
	number := func(what string, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			t.Errorf("%s is %v", what, v)
		}
	}
	for _, w := range r.Windows {
		if !w.To.After(w.From) || w.To.After(r.At) {
			t.Errorf("window of %s from %v to %v in a reading at %v", w.Stratum, w.From, w.To, r.At)
		}
		for _, c := range w.Counts {
			number("requests", c.Requests)
			number("bad", c.Bad)
			if c.Bad > c.Requests*(1+1e-12) {
				t.Errorf("more errors than requests: %+v", w)
			}
		}
	}
	for _, p := range r.Proxies {
		number("new", p.New[0])
		number("new", p.New[1])
	}
	for _, d := range r.Drain {
		number("new", d.New)
		number("in flight", d.InFlight)
		if d.At.Before(d.From) && !d.At.IsZero() {
			t.Errorf("a drain from %v to %v", d.From, d.At)
		}
	}
}

// total adds up the windows of a reading.
func total(r release.Reading) [2]analysis.Counts {
	var out [2]analysis.Counts
	for _, w := range r.Windows {
		for t := range out {
			out[t] = out[t].Add(w.Counts[t])
		}
	}
	return out
}

func begun(r release.Reading) [2]float64 {
	var out [2]float64
	for _, p := range r.Proxies {
		out[0] += p.New[0]
		out[1] += p.New[1]
	}
	return out
}

// golden compares with a file, or writes it with -rewrite.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs (run with -rewrite and read the diff)\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

type counted = analysis.Counts

func counts(n, bad float64) counted { return counted{Requests: n, Bad: bad} }

// ends writes a series of finished requests of the sandbox.
func ends(proxy, service, code, values string) string {
	return fmt.Sprintf(`sandbox_proxy_requests_total{proxy=%q,backend="demo/%s",code=%q} %s`, proxy, service, code, values)
}

func starts(proxy, service, values string) string {
	return fmt.Sprintf(`sandbox_proxy_requests_started_total{proxy=%q,backend="demo/%s"} %s`, proxy, service, values)
}

func active(proxy, service, values string) string {
	return fmt.Sprintf(`sandbox_proxy_requests_active{proxy=%q,backend="demo/%s"} %s`, proxy, service, values)
}

func gauge(pod, values string) string {
	return fmt.Sprintf(`http_requests_in_flight{namespace="demo",pod=%q} %s`, pod, values)
}
