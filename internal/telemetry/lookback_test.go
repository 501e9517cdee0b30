package telemetry_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

func lookBack(t *testing.T, e *telemetry.Eyes, a release.Ask) release.Past {
	t.Helper()
	p, err := e.LookBack(t.Context(), a, release.Primary, .5)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(p.Windows, func(a, b analysis.Window) int {
		return cmp.Or(cmp.Compare(a.Metric, b.Metric), a.To.Compare(b.To))
	})
	return p
}

// arms writes the windows of a metric as people read them.
func arms(p release.Past, metric string) []string {
	var out []string
	for _, w := range p.Windows {
		if w.Metric == metric {
			out = append(out, fmt.Sprintf("%g/%g %g/%g", w.Candidate.Bad, w.Candidate.Requests, w.Baseline.Bad, w.Baseline.Requests))
		}
	}
	return out
}

func histogramOf(p release.Past) map[float64]float64 {
	out := map[float64]float64{}
	for _, b := range p.Buckets {
		out[b.Bound] = b.Count
	}
	return out
}

func TestALookBackPairsAProxysScrapesWithTheNextOnes(t *testing.T) {
	w := newWorld(t,
		class("echo-v1", "2xx", "0 100 190 290 390"), class("echo-v1", "5xx", "0 0 10 10 10"), class("echo-v2", "2xx", "0 7 7 7 7"),
		bucket("echo-v1", "100", "0 90 180 270 360"), bucket("echo-v1", "250", "0 99 199 299 399"), bucket("echo-v1", "+Inf", "0 100 200 300 400"),
	)
	p := lookBack(t, eyesOn(t, newProm(w), with("envoy"), latency), ask(tick(0), tick(4.1)))
	if got, want := histogramOf(p), (map[float64]float64{.1: 360, .25: 399, math.Inf(1): 400}); !maps.Equal(got, want) {
		t.Errorf("the histogram is %v, want %v", got, want)
	}
	if got, want := arms(p, "errors"), []string{"0/100 10/100", "0/100 0/100"}; !slices.Equal(got, want) {
		t.Errorf("errors %q, want %q", got, want)
	}
	if got, want := arms(p, "latency:0.25"), []string{"1/100 0/100", "0/100 0/100"}; !slices.Equal(got, want) {
		t.Errorf("latency %q, want %q", got, want)
	}
	if got := strings.Join(w.asked, "\n"); strings.Contains(got, "rq_active") || strings.Contains(got, "in_flight") {
		t.Errorf("it asked for what it does not need: %s", got)
	}
}

func TestALookBackSplitsPodsThatCountForThemselves(t *testing.T) {
	var lines []string
	a := ask(tick(0), tick(3.1))
	for i := range 4 {
		pod := fmt.Sprintf("echo-%d", i)
		a.Pods[0] = append(a.Pods[0], pod)
		lines = append(lines,
			fmt.Sprintf(`http_requests_total{namespace="demo",pod=%q,code="200"} 0 10 20 30`, pod),
			fmt.Sprintf(`http_request_duration_seconds_bucket{namespace="demo",pod=%q,code="200",le="0.1"} 0 9 18 27`, pod),
			fmt.Sprintf(`http_request_duration_seconds_bucket{namespace="demo",pod=%q,code="200",le="+Inf"} 0 10 20 30`, pod),
		)
	}
	p := lookBack(t, eyesOn(t, newWorld(t, lines...), with("app"), latency), a)
	for metric, want := range map[string]string{"errors": "0/20 0/20", "latency:0.1": "2/20 2/20"} {
		if got := arms(p, metric); !slices.Equal(got, []string{want, want, want}) {
			t.Errorf("%s: %q, want three times %q", metric, got, want)
		}
	}
	if got, want := histogramOf(p), (map[float64]float64{.1: 108, math.Inf(1): 120}); !maps.Equal(got, want) {
		t.Errorf("the histogram is %v, want %v", got, want)
	}
}

func TestALookBackLeavesOutWhatDoesNotFit(t *testing.T) {
	fine := []string{class("echo-v1", "2xx", "0 100 200"), bucket("echo-v1", "100", "0 90 180"), bucket("echo-v1", "+Inf", "0 100 200")}
	none := map[float64]float64{math.Inf(1): 0}
	for name, c := range map[string]struct {
		lines []string
		want  map[float64]float64
	}{
		"no histogram":                        {fine[:1], none},
		"a bucket without a sample":           {[]string{fine[0], bucket("echo-v1", "100", "0 - 180"), fine[2]}, map[float64]float64{.1: 0, math.Inf(1): 0}},
		"no total":                            {fine[:2], none},
		"a bound that the other side has not": {append(slices.Clone(fine), bucket("echo-v2", "200", "0 1 2"), bucket("echo-v2", "+Inf", "0 1 2")), map[float64]float64{math.Inf(1): 200}},
	} {
		t.Run(name, func(t *testing.T) {
			p := lookBack(t, eyesOn(t, newProm(newWorld(t, c.lines...)), with("envoy"), latency), ask(tick(0), tick(2.1)))
			if got := histogramOf(p); !maps.Equal(got, c.want) {
				t.Errorf("the histogram is %v, want %v", got, c.want)
			}
			if got, want := arms(p, "errors"), []string{"0/100 0/100"}; !slices.Equal(got, want) {
				t.Errorf("errors %q, want %q", got, want)
			}
		})
	}
}

func TestALookBackWithoutAnAnswerIsAnError(t *testing.T) {
	w := newWorld(t, class("echo-v1", "2xx", "0 100 200"))
	w.edit = func(_ string, rw http.ResponseWriter) bool {
		rw.WriteHeader(http.StatusForbidden)
		return true
	}
	e := eyesOn(t, w, with("envoy"), latency)
	if _, err := e.LookBack(t.Context(), ask(tick(0), tick(2)), release.Primary, .5); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("refused: %v", err)
	}
	a := ask(tick(0), tick(2))
	a.Binding.Metrics.Source = "nobody's"
	if _, err := e.LookBack(context.Background(), a, release.Primary, .5); err == nil {
		t.Error("a source that is not configured is no error")
	}
}

func TestALookBackThatIsTooLargeIsShorter(t *testing.T) {
	w := newWorld(t, class("echo-v1", "2xx", "0 100 200"), bucket("echo-v1", "100", "0 90 180"), bucket("echo-v1", "+Inf", "0 100 200"))
	refused := 0
	w.edit = func(q string, rw http.ResponseWriter) bool {
		if strings.Contains(q, "[1875s]") { // half an hour, and what lies before it
			refused++
			rw.WriteHeader(http.StatusUnprocessableEntity)
			return true
		}
		return false
	}
	p := lookBack(t, eyesOn(t, w, with("app"), latency), func() release.Ask {
		a := ask(tick(0), tick(2.1))
		a.Pods[0] = []string{"a"}
		return a
	}())
	if refused == 0 || len(p.Buckets) == 0 {
		t.Errorf("refused %d times, then %v", refused, p.Buckets)
	}
}

func TestALookTellsOnlyOfBoundsThatAreAskedFor(t *testing.T) {
	world := func() *world {
		return newWorld(t, class("echo-v1", "2xx", "0 100 200"), bucket("echo-v1", "100", "0 90 180"), bucket("echo-v1", "250", "0 95 190"), bucket("echo-v1", "+Inf", "0 100 200"))
	}
	for _, c := range []struct {
		asked, want []float64
	}{{nil, []float64{.1, .25}}, {[]float64{.25, 7}, []float64{.25}}, {[]float64{}, nil}} {
		w := world()
		a := ask(tick(0), tick(2.1))
		a.Bounds = c.asked
		got := slices.Sorted(maps.Keys(slowOf(t, look(t, eyesOn(t, newProm(w), with("envoy"), latency), a))))
		if !slices.Equal(got, c.want) {
			t.Errorf("asked for %v it tells of %v", c.asked, got)
		}
		if read := strings.Contains(strings.Join(w.asked, " "), "rq_time"); read != (c.want != nil) {
			t.Errorf("asked for %v it queries %q", c.asked, w.asked)
		}
	}
}
