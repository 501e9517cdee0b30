package telemetry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	engine "github.com/prometheus/prometheus/promql"    //nolint:depguard // the real engine judges our queries; in a test only
	"github.com/prometheus/prometheus/storage"          //nolint:depguard // as above
	"github.com/prometheus/prometheus/util/annotations" //nolint:depguard // as above

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

// prom answers queries over a world with the engine of Prometheus itself. A
// scrape that misses a series writes a stale marker, as Prometheus does.
type prom struct {
	*world
	engine *engine.Engine
}

func newProm(w *world) *prom {
	return &prom{w, engine.NewEngine(engine.EngineOpts{Logger: slog.New(slog.DiscardHandler), MaxSamples: 1e6, Timeout: time.Minute})}
}

func (p *prom) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, r.FormValue("query"))
	secs, err := strconv.ParseFloat(r.FormValue("time"), 64)
	if err != nil {
		p.t.Errorf("a query without an explicit time: %v", r.Form)
	}
	q, err := p.engine.NewInstantQuery(r.Context(), p, nil, r.FormValue("query"), time.UnixMilli(int64(math.Round(secs*1000))))
	if err != nil {
		p.t.Errorf("%s: %v", r.FormValue("query"), err)
		return
	}
	defer q.Close()
	res := q.Exec(r.Context())
	if res.Err != nil {
		p.t.Errorf("%s: %v", r.FormValue("query"), res.Err)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"status": "success", "data": map[string]any{"resultType": res.Value.Type(), "result": res.Value},
	})
}

func (p *prom) Querier(mint, maxt int64) (storage.Querier, error) {
	return &promQuerier{world: p.world, mint: mint, maxt: maxt}, nil
}

type promQuerier struct {
	*world
	mint, maxt int64
	list       []storage.Series
	at         int
}

func (q *promQuerier) Select(_ context.Context, _ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	set := &promQuerier{at: -1}
	for _, s := range q.series {
		if slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
			continue
		}
		var points []engine.FPoint
		there := false
		for _, v := range s.samples {
			point := engine.FPoint{T: v.at.UnixMilli(), F: v.value}
			if v.missed() {
				if !there {
					continue
				}
				point.F = math.Float64frombits(value.StaleNaN)
			}
			there = !v.missed()
			if point.T >= q.mint && point.T <= q.maxt {
				points = append(points, point)
			}
		}
		if len(points) > 0 {
			set.list = append(set.list, engine.NewStorageSeries(engine.Series{Metric: s.labels, Floats: points}))
		}
	}
	slices.SortFunc(set.list, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return set
}

func (q *promQuerier) Next() bool                      { q.at++; return q.at < len(q.list) }
func (q *promQuerier) At() storage.Series              { return q.list[q.at] }
func (*promQuerier) Err() error                        { return nil }
func (*promQuerier) Warnings() annotations.Annotations { return nil }
func (*promQuerier) Close() error                      { return nil }

func (*promQuerier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (*promQuerier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// shape writes the series of one provider. Tracks are echo-v1 and echo-v2 in
// namespace demo.
type shape struct {
	provider string
	// ends, starts and slow make selectors; le is in the provider's own unit.
	ends   func(track int, unit string, bad bool) string
	starts func(track int, unit string) string
	slow   func(track int, unit, le string) string
	fast   string // le of 100 ms
	// foreign series must not be counted.
	foreign []string
	// perPod: each track's units are its own pods.
	perPod bool
	change func(*release.Ask)
}

var tracks = [2]string{"echo-v1", "echo-v2"}

func pick[T any](bad bool, yes, no T) T {
	if bad {
		return yes
	}
	return no
}

// envoyShape is Envoy by one label for the cluster and one for the class.
func envoyShape(provider, cluster string, names [2]string, ends, class string, codes [2]string, foreign ...string) shape {
	series := func(metric string, track int, unit, more string) string {
		return fmt.Sprintf(`%s{namespace="edge",pod=%q,%s=%q%s}`, metric, unit, cluster, names[track], more)
	}
	return shape{
		provider: provider, fast: "100",
		ends: func(track int, unit string, bad bool) string {
			return series(ends, track, unit, fmt.Sprintf(`,%s=%q`, class, pick(bad, codes[1], codes[0])))
		},
		starts: func(track int, unit string) string { return series("envoy_cluster_upstream_rq_total", track, unit, "") },
		slow: func(track int, unit, le string) string {
			return series("envoy_cluster_upstream_rq_time_bucket", track, unit, fmt.Sprintf(`,le=%q`, le))
		},
		foreign: foreign,
	}
}

func istioShape(provider, reporter, other string, change func(*release.Ask)) shape {
	series := func(metric string, track int, unit, more string) string {
		service := tracks[track]
		if change != nil {
			service = "echo"
		}
		return fmt.Sprintf(`%s{namespace="edge",pod=%q,reporter=%q,destination_service_namespace="demo",destination_service_name=%q,destination_workload=%q%s}`,
			metric, unit, reporter, service, tracks[track], more)
	}
	return shape{
		provider: provider, fast: "100", change: change,
		ends: func(track int, unit string, bad bool) string {
			return series("istio_requests_total", track, unit, pick(bad, `,response_code="503",response_flags="UF"`, `,response_code="200",response_flags="-"`))
		},
		slow: func(track int, unit, le string) string {
			return series("istio_request_duration_milliseconds_bucket", track, unit, fmt.Sprintf(`,response_code="200",le=%q`, le))
		},
		foreign: []string{
			fmt.Sprintf(`istio_requests_total{namespace="demo",pod="v2-0",reporter=%q,destination_service_namespace="demo",destination_service_name="echo-v2",destination_workload="echo-v2",response_code="500"}`, other),
			fmt.Sprintf(`istio_requests_total{namespace="edge",pod="gw-0",reporter=%q,destination_service_namespace="prod",destination_service_name="echo-v2",destination_workload="echo-v2",response_code="500"}`, reporter),
		},
	}
}

func podShape(provider, ends, code, slow string) shape {
	return shape{
		provider: provider, fast: "0.1", perPod: true,
		ends: func(_ int, unit string, bad bool) string {
			return fmt.Sprintf(`%s{namespace="demo",pod=%q,%s=%q}`, ends, unit, code, pick(bad, "500", "200"))
		},
		slow: func(_ int, unit, le string) string {
			return fmt.Sprintf(`%s{namespace="demo",pod=%q,le=%q}`, slow, unit, le)
		},
		foreign: []string{fmt.Sprintf(`%s{namespace="demo",pod="other",%s="500"}`, ends, code), fmt.Sprintf(`%s{namespace="prod",pod="v2-0",%s="500"}`, ends, code)},
	}
}

func subsets(a *release.Ask) {
	for t := range a.Binding.Tracks {
		a.Binding.Tracks[t].Service, a.Binding.Tracks[t].Subset = "echo", fmt.Sprintf("v%d", t+1)
	}
}

func routed(a *release.Ask) {
	a.Binding.Routes = []release.BoundRoute{{Ref: release.RouteRef{Kind: "HTTPRoute", Namespace: "demo", Name: "echo"}}}
}

func shapes() map[string]shape {
	istioEnvoy := [2]string{"outbound|80||echo-v1.demo.svc.cluster.local", "outbound|80||echo-v2.demo.svc.cluster.local"}
	linkerd := func(metric string, track int, unit, more string) string {
		return fmt.Sprintf(`%s{namespace="shop",pod=%q,direction="outbound",dst_namespace="demo",dst_deployment=%q%s}`, metric, unit, tracks[track], more)
	}
	traefik := func(metric string, track int, unit, more string) string {
		return fmt.Sprintf(`%s{namespace="edge",pod=%q,service="httproute-demo-echo-gw-edge-main-ep-web-0-1a2b-svc-demo-%s-%d@kubernetesgateway",method="GET",protocol="http"%s}`,
			metric, unit, tracks[track], track, more)
	}
	sandbox := shape{
		provider: "sandbox",
		ends: func(track int, unit string, bad bool) string {
			return fmt.Sprintf(`sandbox_proxy_requests_total{proxy=%q,backend="demo/%s",code=%q}`, unit, tracks[track], pick(bad, "500", "200"))
		},
		starts: func(track int, unit string) string {
			return fmt.Sprintf(`sandbox_proxy_requests_started_total{proxy=%q,backend="demo/%s"}`, unit, tracks[track])
		},
		foreign: []string{`sandbox_proxy_requests_total{proxy="gw-0",backend="demo/echo-v22",code="500"}`},
	}
	return map[string]shape{
		"sandbox": sandbox,
		"envoy": envoyShape("envoy", "cluster_name", istioEnvoy, "envoy_cluster_upstream_rq", "response_code_class", [2]string{"2xx", "5xx"},
			`envoy_cluster_upstream_rq{namespace="edge",pod="gw-0",cluster_name="outbound|80||echo-v2.demo.svc.cluster.local",response_code="500"}`,
			`envoy_cluster_upstream_rq{namespace="edge",pod="gw-0",cluster_name="outbound|81||echo-v2.demo.svc.cluster.local",response_code_class="5xx"}`),
		"envoy-gateway": envoyShape("envoy-gateway", "envoy_cluster_name", [2]string{"service/demo/echo-v1/80", "service/demo/echo-v2/80/grpc"},
			"envoy_cluster_upstream_rq_xx", "envoy_response_code_class", [2]string{"2", "5"},
			`envoy_cluster_upstream_rq_xx{namespace="edge",pod="gw-0",envoy_cluster_name="httproute/demo/echo/rule/0",envoy_response_code_class="5"}`,
			`envoy_cluster_upstream_rq_xx{namespace="edge",pod="gw-0",envoy_cluster_name="service/demo/echo-v2/8080",envoy_response_code_class="5"}`),
		"contour": envoyShape("contour", "envoy_cluster_name", [2]string{"demo_echo-v1_80", "demo_echo-v2_80"},
			"envoy_cluster_upstream_rq_xx", "envoy_response_code_class", [2]string{"2", "5"},
			`envoy_cluster_upstream_rq_xx{namespace="edge",pod="gw-0",envoy_cluster_name="demo_echo-v2_8080",envoy_response_code_class="5"}`),
		"app":            podShape("app", "http_requests_total", "code", "http_request_duration_seconds_bucket"),
		"app-otel":       podShape("app-otel", "http_server_request_duration_seconds_count", "http_response_status_code", "http_server_request_duration_seconds_bucket"),
		"istio":          istioShape("istio", "source", "destination", nil),
		"istio-subsets":  istioShape("istio", "source", "waypoint", subsets),
		"istio-waypoint": istioShape("istio-waypoint", "waypoint", "source", nil),
		"linkerd": {
			provider: "linkerd", fast: "100",
			ends: func(track int, unit string, bad bool) string {
				return linkerd("response_total", track, unit, pick(bad, `,status_code="500",classification="failure"`, `,status_code="200",classification="success"`))
			},
			starts: func(track int, unit string) string { return linkerd("request_total", track, unit, "") },
			slow: func(track int, unit, le string) string {
				return linkerd("response_latency_ms_bucket", track, unit, fmt.Sprintf(`,status_code="200",le=%q`, le))
			},
			foreign: []string{
				`response_total{namespace="demo",pod="v2-0",direction="inbound",dst_namespace="demo",dst_deployment="echo-v2",classification="failure"}`,
				`response_total{namespace="shop",pod="gw-0",direction="outbound",dst_namespace="prod",dst_deployment="echo-v2",classification="failure"}`,
			},
		},
		"traefik": {
			provider: "traefik", fast: "0.1", change: routed,
			ends: func(track int, unit string, bad bool) string {
				return traefik("traefik_service_requests_total", track, unit, fmt.Sprintf(`,code=%q`, pick(bad, "502", "200")))
			},
			slow: func(track int, unit, le string) string {
				return traefik("traefik_service_request_duration_seconds_bucket", track, unit, fmt.Sprintf(`,code="200",le=%q`, le))
			},
			foreign: []string{
				`traefik_service_requests_total{namespace="edge",pod="gw-0",service="httproute-demo-echo-gw-edge-main-ep-web-0-1a2b-wrr@kubernetesgateway",code="500"}`,
				`traefik_service_requests_total{namespace="edge",pod="gw-0",service="httproute-demo-other-gw-edge-main-ep-web-0-1a2b-svc-demo-echo-v2-1@kubernetesgateway",code="500"}`,
				`traefik_service_requests_total{namespace="edge",pod="gw-0",service="httproute-demo-echo-gw-edge-main-ep-web-0-1a2b-svc-demo-echo-v2-1-0@kubernetesgateway",code="500"}`,
			},
		},
	}
}

// script is what happened: counts by scrape. The canary's first requests come
// at the third scrape and its errors at the fourth, the second unit begins
// again at the fifth.
func (s shape) script() []string {
	unit := func(track, n int) string {
		if s.perPod {
			return fmt.Sprintf("v%d-%d", track+1, n)
		}
		return fmt.Sprintf("gw-%d", n)
	}
	lines := []string{
		s.ends(0, unit(0, 0), false) + " 0 90 180 270 360 450",
		s.ends(0, unit(0, 1), false) + " 100 110 120 130 5 15",
		s.ends(1, unit(1, 0), false) + " - - 10 20 30 40",
		s.ends(1, unit(1, 0), true) + " - - - 1 1 3",
	}
	if s.perPod { // the pod was scraped before, or its first sample were no birth
		lines = append(lines, s.ends(1, unit(1, 0), false)[:len(s.ends(1, unit(1, 0), false))-1]+`,method="get"} 0 0 0 0 0 0`)
	}
	if s.starts != nil {
		lines = append(lines,
			s.starts(0, unit(0, 0))+" 0 91 181 271 361 451",
			s.starts(0, unit(0, 1))+" 100 110 120 130 5 15",
			s.starts(1, unit(1, 0))+" - - 11 22 33 44")
	}
	if s.slow != nil {
		lines = append(lines,
			s.slow(0, unit(0, 0), s.fast)+" 0 80 160 240 320 400",
			s.slow(0, unit(0, 0), "+Inf")+" 0 90 180 270 360 450",
			// Begins again and has passed its old value in the small bucket.
			s.slow(0, unit(0, 1), s.fast)+" 1 1 1 1 2 3",
			s.slow(0, unit(0, 1), "+Inf")+" 100 110 120 130 5 15",
			s.slow(1, unit(1, 0), s.fast)+" - - 5 10 20 30",
			s.slow(1, unit(1, 0), "+Inf")+" - - 10 21 31 43")
	}
	for _, f := range s.foreign {
		lines = append(lines, f+" 0 1000 2000 3000 4000 5000")
	}
	return lines
}

// Every provider's queries, asked of Prometheus' own engine, count what the
// script says and nothing else, errors and latency alike.
func TestEveryProviderCountsWhatHappened(t *testing.T) {
	covered := map[string]bool{}
	for name, s := range shapes() {
		covered[s.provider] = true
		t.Run(name, func(t *testing.T) {
			p := newProm(newWorld(t, s.script()...))
			e := eyesOn(t, p, with(s.provider), func(s *telemetry.Source) { s.Latency = true })
			a := ask(tick(0), tick(5.1))
			a.Pods = [2][]string{{"v1-0", "v1-1"}, {"v2-0"}}
			if s.change != nil {
				s.change(&a)
			}
			r := look(t, e, a)
			if len(p.asked) > 3 {
				t.Errorf("%d queries: %q", len(p.asked), p.asked)
			}
			errs, slow := release.Reading{}, release.Reading{}
			for _, w := range r.Windows {
				switch m, ok := analysis.MetricOf(w.Metric); {
				case w.Metric == analysis.MetricErrors:
					errs.Windows = append(errs.Windows, w)
				case ok && m == analysis.Latency(0.1):
					slow.Windows = append(slow.Windows, w)
				default:
					t.Errorf("a window of %q", w.Metric)
				}
			}
			if got, want := total(errs), [2]counted{counts(450+45, 0), counts(43, 3)}; got != want {
				t.Errorf("errors: %v, want %v\n%+v", got, want, r)
			}
			// 1 of 30, then 2 of 5 and 1 of 10 were quick at the second unit.
			if got, want := total(slow), [2]counted{counts(495, 50+30+3+9), counts(43, 13)}; s.slow != nil && got != want {
				t.Errorf("latency: %v, want %v\n%+v", got, want, r)
			}
			if got, want := begun(r), [2]float64{451 + 45, 44}; s.starts != nil && got != want {
				t.Errorf("begun: %v, want %v", got, want)
			}
		})
	}
	for _, p := range telemetry.Providers() {
		if !covered[p] {
			t.Errorf("the provider %s has no series here", p)
		}
	}
}

// Looks that meet add up in each provider's series too.
func TestLooksOfEveryProviderAddUp(t *testing.T) {
	for name, s := range shapes() {
		t.Run(name, func(t *testing.T) {
			e := eyesOn(t, newProm(newWorld(t, s.script()...)), with(s.provider), func(s *telemetry.Source) { s.Latency = true })
			sum := map[string][2]counted{}
			at := tick(0)
			for _, now := range []float64{1.1, 1.9, 3.4, 5.1} {
				a := ask(at, tick(now))
				a.Pods = [2][]string{{"v1-0", "v1-1"}, {"v2-0"}}
				if s.change != nil {
					s.change(&a)
				}
				r := look(t, e, a)
				for _, w := range r.Windows {
					c := sum[w.Metric]
					for i := range c {
						c[i] = c[i].Add(w.Counts[i])
					}
					sum[w.Metric] = c
				}
				at = r.At
			}
			if got, want := sum[analysis.MetricErrors], [2]counted{counts(495, 0), counts(43, 3)}; got != want {
				t.Errorf("errors: %v, want %v", got, want)
			}
			if got, want := sum[analysis.Latency(0.1).String()], [2]counted{counts(495, 92), counts(43, 13)}; s.slow != nil && got != want {
				t.Errorf("latency: %v, want %v", got, want)
			}
		})
	}
}

// A track's subset is told by its workload; requests that reached none are
// said, and counted for nobody.
func TestRequestsWithoutAWorkloadAreSaid(t *testing.T) {
	s := shapes()["istio-subsets"]
	lost := strings.Replace(s.ends(1, "gw-0", true), `destination_workload="echo-v2"`, `destination_workload="unknown"`, 1)
	w := newWorld(t, append(s.script(), lost+" 0 0 0 0 7 7")...)
	a := ask(tick(0), tick(5.1))
	subsets(&a)
	r := look(t, eyesOn(t, newProm(w), with("istio")), a)
	if got := total(r); got != [2]counted{counts(495, 0), counts(43, 3)} {
		t.Errorf("counted %v", got)
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), `7 requests to the Service have no workload ("unknown")`) {
		t.Errorf("notes: %q", r.Notes)
	}
}

func TestErrorsAreWhatEachMeshCallsOne(t *testing.T) {
	istio := func(more string) string {
		return `istio_requests_total{namespace="edge",pod="gw-0",reporter="source",destination_service_namespace="demo",destination_service_name="echo-v2",` + more + `}`
	}
	traefik := func(more string) string {
		return `traefik_service_requests_total{namespace="edge",pod="gw-0",service="httproute-demo-echo-gw-e-m-ep-web-0-1a-svc-demo-echo-v2-1@kubernetesgateway",` + more + `}`
	}
	for name, c := range map[string]struct {
		provider, series string
		bad              bool
	}{
		"a 404":                                {"istio", istio(`response_code="404"`), false},
		"a 500":                                {"istio", istio(`response_code="500"`), true},
		"a client that hung up":                {"istio", istio(`response_code="0",response_flags="DC"`), false},
		"a connection that broke":              {"istio", istio(`response_code="0",response_flags="UC"`), true},
		"gRPC: unavailable":                    {"istio", istio(`response_code="200",grpc_response_status="14"`), true},
		"gRPC: not found":                      {"istio", istio(`response_code="200",grpc_response_status="5"`), false},
		"gRPC: fine":                           {"istio", istio(`response_code="200",grpc_response_status="0"`), false},
		"Traefik, gRPC: not found is a code 5": {"traefik", traefik(`protocol="grpc",code="5"`), false},
		"Traefik, gRPC: internal":              {"traefik", traefik(`protocol="grpc",code="13"`), true},
		"Traefik, HTTP: 502":                   {"traefik", traefik(`protocol="http",code="502"`), true},
	} {
		t.Run(name, func(t *testing.T) {
			a := ask(tick(0), tick(1.1))
			routed(&a)
			r := look(t, eyesOn(t, newProm(newWorld(t, c.series+" 0 4")), with(c.provider)), a)
			if got, want := total(r)[1], counts(4, pick(c.bad, 4.0, 0)); got != want {
				t.Errorf("got %v, want %v: %s", got, want, r.Trouble)
			}
		})
	}
}
