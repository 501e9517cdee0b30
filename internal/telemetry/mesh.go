package telemetry

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/shifter-dev/shifter/internal/release"
)

// What several rows say.
const (
	noStarts    = "it has no counter of begun requests per proxy: a split cannot be shown, and finished requests stand in for new ones"
	alivePods   = "it sees only requests that reached a pod that is still alive"
	flushed     = "its histograms trail its counters by one flush of Envoy's statistics (5 s unless configured)"
	notTried    = "its names are from its source and documents: it has not been tried against a real one here"
	envoyTime   = "envoy_cluster_upstream_rq_time_bucket"
	envoyActive = "envoy_cluster_upstream_rq_active"
	envoyStarts = "envoy_cluster_upstream_rq_total"
)

// providers are all templates. To add a mesh, add a row, a golden file of its
// queries and a recorded answer.
func providers() []provider {
	return []provider{
		{
			name:     "sandbox",
			starts:   "sandbox_proxy_requests_started_total",
			ends:     "sandbox_proxy_requests_total",
			active:   "sandbox_proxy_requests_active",
			app:      appGauge,
			slow:     "http_request_duration_seconds_bucket",
			slowUnit: inSeconds, slowPods: true,
			code:  "code",
			tell:  sandboxBackend,
			proxy: []string{"proxy"},
			apart: true,
			// Its proxy finishes every request that it begins, also those that a
			// client gives up.
			difference: true,
		},
		{
			// Envoy under Istio, as gateway or sidecar (lab/README.md). Its stats
			// must be let through by proxyStatsMatcher.
			name:   "envoy",
			starts: envoyStarts,
			// One name holds two label sets, response_code_class and response_code,
			// that count the same requests: without the matcher all count twice.
			ends:       "envoy_cluster_upstream_rq",
			endsOnly:   `response_code_class!=""`,
			active:     envoyActive,
			app:        appGauge,
			slow:       envoyTime,
			slowUnit:   inMillis,
			code:       "response_code_class",
			tell:       envoyCluster,
			proxy:      podLabels,
			apart:      true,
			slowCannot: []string{flushed},
			// No difference: a request that is reset or retried is begun and never
			// finished by these counters, so theirs never returns to 0.
		},
		{
			name:     "app",
			ends:     "http_requests_total",
			app:      appGauge,
			slow:     "http_request_duration_seconds_bucket",
			slowUnit: inSeconds,
			code:     "code",
			apart:    true,
			cannot:   []string{noStarts, alivePods},
		},
		{
			// The names of the OpenTelemetry conventions, as Prometheus writes them.
			name:     "app-otel",
			ends:     "http_server_request_duration_seconds_count",
			app:      "http_server_active_requests",
			slow:     "http_server_request_duration_seconds_bucket",
			slowUnit: inSeconds,
			code:     "http_response_status_code",
			cannot:   []string{noStarts, alivePods},
		},
		istio("istio", "source", "it counts what sidecars and gateways sent; traffic through a waypoint is istio-waypoint's"),
		istio("istio-waypoint", "waypoint", "it counts what waypoints sent; traffic that passes none is not seen"),
		envoyGateway(),
		linkerd(),
		traefik(),
		contour(),
	}
}

// istio is Istio's own telemetry by one reporter: two of them count the same
// request twice. In-flight and begun requests are Envoy's own statistics, which
// Istio hides unless proxyStatsMatcher lets them through.
func istio(name, reporter, only string) provider {
	return provider{
		name:     name,
		starts:   envoyStarts,
		ends:     "istio_requests_total",
		active:   envoyActive,
		app:      appGauge,
		slow:     "istio_request_duration_milliseconds_bucket",
		slowUnit: inMillis,
		code:     "response_code",
		bad:      istioFailed,
		tell: func(a release.Ask, _ string) (naming, error) {
			return istioDestination(a, reporter)
		},
		clients: envoyCluster,
		proxy:   podLabels,
		cannot: []string{
			only,
			"begun and in-flight requests are seen only where proxyStatsMatcher lets upstream_rq_total and upstream_rq_active through",
			"requests that no route or cluster took (NR, NC) name no destination and are not counted",
			notTried,
		},
		slowCannot: []string{flushed},
	}
}

// istioDestination names a track by its Service, which is known even for
// requests that reached no pod. Subsets share a Service, and are told apart by
// their workload, which is unknown for such requests.
func istioDestination(a release.Ask, reporter string) (naming, error) {
	n := naming{
		labels: []model.LabelName{"destination_service_namespace", "destination_service_name"},
		only:   []string{is("reporter", reporter)},
	}
	tracks := a.Binding.Tracks
	for t, b := range tracks {
		n.values[t] = []string{b.Namespace, b.Service}
	}
	if tracks[0].Subset == "" && tracks[1].Subset == "" {
		return n, nil
	}
	n.labels = append(n.labels, "destination_workload")
	n.stray = "unknown"
	for t, b := range tracks {
		if !isSubdomain(b.Deployment) || b.Deployment == n.stray {
			return naming{}, fmt.Errorf("the %s: subsets are told apart by their workload, and %q is no name of one", release.Track(t), b.Deployment)
		}
		n.values[t] = append(n.values[t], b.Deployment)
	}
	return n, nil
}

// istioFailed: class 5, a connection that broke, or a gRPC status of the
// server's. A code of 0 with the flag DC is a client that hung up.
func istioFailed(code string, m model.Metric) bool {
	if code[0] == '5' || grpcFailed(string(m["grpc_response_status"])) {
		return true
	}
	return code == "0" && !strings.Contains(string(m["response_flags"]), "DC")
}

// grpcFailed tells the statuses that are the server's fault: unknown, deadline
// exceeded, resource exhausted, internal, unavailable, data loss.
func grpcFailed(status string) bool {
	switch status {
	case "2", "4", "8", "13", "14", "15":
		return true
	}
	return false
}

// envoyGateway reads clusters that hold one backend each, which Envoy Gateway
// makes when it merges backends. Else all backends of a rule are one cluster.
func envoyGateway() provider {
	p := plainEnvoy("envoy-gateway")
	p.tell = func(a release.Ask, _ string) (naming, error) {
		n := naming{labels: []model.LabelName{"envoy_cluster_name"}}
		for t, b := range a.Binding.Tracks {
			if err := wholeService("envoy-gateway", b); err != nil {
				return naming{}, fmt.Errorf("the %s: %w", release.Track(t), err)
			}
			// A protocol may follow.
			n.match[t] = whole(regexp.QuoteMeta(fmt.Sprintf("service/%s/%s/%d", b.Namespace, b.Service, b.Port)) + `(/[a-z0-9.]+)?`)
		}
		return n, nil
	}
	p.hint = "Envoy Gateway counts all backends of a rule as one cluster unless EnvoyProxy.spec.mergeBackends is set (v1.9); set it, without a clusterStatName, or use the provider app"
	p.cannot = []string{
		"it sees tracks only where EnvoyProxy.spec.mergeBackends gives each Service a cluster of its own; other routes to the same Service count too",
		notTried,
	}
	return p
}

// contour reads the clusters' other names, which Contour gives for statistics.
func contour() provider {
	p := plainEnvoy("contour")
	p.tell = func(a release.Ask, _ string) (naming, error) {
		var names [2]string
		for t, b := range a.Binding.Tracks {
			if err := wholeService("contour", b); err != nil {
				return naming{}, fmt.Errorf("the %s: %w", release.Track(t), err)
			}
			names[t] = fmt.Sprintf("%s_%s_%d", b.Namespace, b.Service, b.Port)
		}
		return one("envoy_cluster_name", names[0], names[1]), nil
	}
	p.cannot = []string{"other routes to the same Service count too", notTried}
	return p
}

// plainEnvoy is Envoy with its own names of labels.
func plainEnvoy(name string) provider {
	return provider{
		name:       name,
		starts:     envoyStarts,
		ends:       "envoy_cluster_upstream_rq_xx",
		active:     envoyActive,
		app:        appGauge,
		slow:       envoyTime,
		slowUnit:   inMillis,
		code:       "envoy_response_code_class",
		proxy:      podLabels,
		slowCannot: []string{flushed},
	}
}

// linkerd reads the outbound side of the proxies: who sent to which Deployment.
func linkerd() provider {
	return provider{
		name:     "linkerd",
		starts:   "request_total",
		ends:     "response_total",
		app:      appGauge,
		slow:     "response_latency_ms_bucket",
		slowUnit: inMillis,
		code:     "classification",
		bad:      func(class string, _ model.Metric) bool { return class == "failure" },
		tell: func(a release.Ask, _ string) (naming, error) {
			n := naming{
				labels: []model.LabelName{"dst_namespace", "dst_deployment"},
				only:   []string{is("direction", "outbound")},
			}
			for t, b := range a.Binding.Tracks {
				if !isSubdomain(b.Deployment) {
					return naming{}, fmt.Errorf("the %s: the provider linkerd counts by Deployment, and %q is no name of one", release.Track(t), b.Deployment)
				}
				n.values[t] = []string{b.Namespace, b.Deployment}
			}
			return n, nil
		},
		proxy: podLabels,
		// No difference: a request that its client gives up before any answer is
		// begun and never finished.
		cannot: []string{
			"it counts what meshed clients and gateways sent, and only requests that were given a pod",
			notTried,
		},
		slowCannot: []string{"its latency is the time to the first byte of the answer, not to the last"},
	}
}

// traefik reads the child services that a weighted service is made of. Their
// names hold the route, the place of the rule and a hash, so a pattern finds
// them.
func traefik() provider {
	return provider{
		name:     "traefik",
		ends:     "traefik_service_requests_total",
		app:      appGauge,
		slow:     "traefik_service_request_duration_seconds_bucket",
		slowUnit: inSeconds,
		code:     "code",
		bad: func(code string, m model.Metric) bool {
			if p := m["protocol"]; p == "grpc" || p == "grpc-web" {
				return grpcFailed(code) // the code is the status of gRPC then
			}
			return code[0] == '5'
		},
		tell:  traefikService,
		proxy: podLabels,
		hint:  "Traefik needs metrics.prometheus.addServicesLabels, and a scrape that keeps its own label service (honorLabels)",
		cannot: []string{
			noStarts,
			"what Traefik answers itself for a Service without ready pods is not counted",
			"it joins names with dashes: a namespace and Service that make the same word as another pair are not told apart",
			notTried,
		},
	}
}

func traefikService(a release.Ask, _ string) (naming, error) {
	var routes []string
	for _, r := range a.Binding.Routes {
		if r.Ref.Kind != "HTTPRoute" && r.Ref.Kind != "GRPCRoute" {
			return naming{}, fmt.Errorf("the provider traefik reads HTTPRoutes and GRPCRoutes, and %s is neither", r.Ref)
		}
		if !isLabel(r.Ref.Namespace) || !isSubdomain(r.Ref.Name) {
			return naming{}, fmt.Errorf("the route %q is no name of one", r.Ref)
		}
		routes = append(routes, dashed(strings.ToLower(r.Ref.Kind)+"-"+r.Ref.Namespace+"-"+r.Ref.Name))
	}
	if len(routes) == 0 {
		return naming{}, errors.New("the provider traefik finds services by their route, and none is bound")
	}
	n := naming{labels: []model.LabelName{"service"}}
	for t, b := range a.Binding.Tracks {
		if b.Subset != "" {
			return naming{}, noSubset("traefik", b)
		}
		n.match[t] = whole(fmt.Sprintf("(%s)-gw-.+-svc-%s-%s-[0-9]+@kubernetesgateway", strings.Join(routes, "|"), b.Namespace, b.Service))
	}
	return n, nil
}

// dashed is what Traefik makes of a name: words with one dash between them.
func dashed(name string) string {
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '.' }), "-")
}

// whole makes a pattern of whole values, as Prometheus reads them.
func whole(pattern string) *regexp.Regexp { return regexp.MustCompile("^(?:" + pattern + ")$") }

func sandboxBackend(a release.Ask, _ string) (naming, error) {
	var names [2]string
	for t, b := range a.Binding.Tracks {
		if b.Subset != "" {
			return naming{}, fmt.Errorf("the %s: %w", release.Track(t), noSubset("sandbox", b))
		}
		names[t] = b.Namespace + "/" + b.Service
	}
	return one("backend", names[0], names[1]), nil
}

func envoyCluster(a release.Ask, domain string) (naming, error) {
	var names [2]string
	for t, b := range a.Binding.Tracks {
		if err := hasPort("envoy", b); err != nil {
			return naming{}, fmt.Errorf("the %s: %w", release.Track(t), err)
		}
		names[t] = fmt.Sprintf("outbound|%d|%s|%s.%s.svc.%s", b.Port, b.Subset, b.Service, b.Namespace, domain)
	}
	return one("cluster_name", names[0], names[1]), nil
}

func hasPort(provider string, b release.BoundTrack) error {
	if b.Port <= 0 || b.Port > 65535 {
		return fmt.Errorf("the provider %s needs the port of Service %q, and %d is none", provider, b.Service, b.Port)
	}
	return nil
}

func noSubset(provider string, b release.BoundTrack) error {
	return fmt.Errorf("the provider %s cannot tell subsets apart, and Service %q is used with subset %q", provider, b.Service, b.Subset)
}

// wholeService checks a track of a data plane that knows Services and their
// ports, and no subsets.
func wholeService(provider string, b release.BoundTrack) error {
	if b.Subset != "" {
		return noSubset(provider, b)
	}
	return hasPort(provider, b)
}
