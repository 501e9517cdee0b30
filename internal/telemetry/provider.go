package telemetry

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shifter-dev/shifter/internal/drain"
	"github.com/shifter-dev/shifter/internal/release"
)

// Sees is what a provider can see. Whatever it cannot see stays unknown.
type Sees struct {
	Provider string `json:"provider"`
	// Errors: finished requests per track, and how many of them failed.
	Errors bool `json:"errors"`
	// Starts: new requests per proxy and track, so that a split can be shown.
	Starts bool `json:"starts"`
	// InFlight names the signals for requests in flight, best first.
	InFlight []drain.Source `json:"inFlight"`
	// Cannot says in sentences what is missing.
	Cannot []string `json:"cannot,omitempty"`
}

// provider is a template: the names by which one kind of data plane is read. An
// empty name is something that it cannot see.
type provider struct {
	name   string
	starts string // counter of requests begun, per proxy and backend
	ends   string // counter of requests finished, with a code
	active string // gauge of requests in flight, per proxy and backend
	app    string // gauge of requests in flight, per pod

	// endsOnly is one more matcher on ends.
	endsOnly string
	// code is the label of ends that tells errors from the rest.
	code string
	// backend is the label that names a track's backend, and backendOf writes
	// it. Without them ends are counted per pod of the track.
	backend   string
	backendOf func(t release.BoundTrack, domain string) (string, error)
	// proxy holds the labels that name a proxy; the first one present counts.
	proxy []string
	// difference: requests begun minus finished are those in flight.
	difference bool
	cannot     []string
}

// appGauge is what an application that can be drained well exports itself.
const appGauge = "http_requests_in_flight"

// podLabels name a pod, by custom; an instance names it when nothing else does.
var podLabels = []string{"pod", "kubernetes_pod_name", "pod_name", "instance"}

// providers are all templates. To add a mesh, add a row, a golden file of its
// queries and a recorded answer.
var providers = []provider{
	{
		name:      "sandbox",
		starts:    "sandbox_proxy_requests_started_total",
		ends:      "sandbox_proxy_requests_total",
		active:    "sandbox_proxy_requests_active",
		app:       appGauge,
		code:      "code",
		backend:   "backend",
		backendOf: sandboxBackend,
		proxy:     []string{"proxy"},
		// Its proxy finishes every request that it begins, also those that a
		// client gives up.
		difference: true,
	},
	{
		// Envoy under Istio, as gateway or sidecar (lab/README.md). Its stats
		// must be let through by proxyStatsMatcher.
		name:   "envoy",
		starts: "envoy_cluster_upstream_rq_total",
		// One name holds two label sets, response_code_class and response_code,
		// that count the same requests: without the matcher all count twice.
		ends:      "envoy_cluster_upstream_rq",
		endsOnly:  `response_code_class!=""`,
		active:    "envoy_cluster_upstream_rq_active",
		app:       appGauge,
		code:      "response_code_class",
		backend:   "cluster_name",
		backendOf: envoyCluster,
		proxy:     podLabels,
		// No difference: a request that is reset or retried is begun and never
		// finished by these counters, so theirs never returns to 0.
	},
	{
		name:   "app",
		ends:   "http_requests_total",
		app:    appGauge,
		code:   "code",
		cannot: []string{"it has no counter of begun requests per proxy: a split cannot be shown, and finished requests stand in for new ones", "it sees only requests that reached a pod that is still alive"},
	},
}

func providerNamed(name string) (provider, error) {
	for _, p := range providers {
		if p.name == name {
			return p, nil
		}
	}
	return provider{}, fmt.Errorf("provider %q is not known; use one of %s", name, strings.Join(Providers(), ", "))
}

// Providers lists the names of the templates.
func Providers() []string {
	out := make([]string, 0, len(providers))
	for _, p := range providers {
		out = append(out, p.name)
	}
	return out
}

func (p provider) sees() Sees {
	s := Sees{Provider: p.name, Errors: p.ends != "", Starts: p.starts != "", Cannot: slices.Clone(p.cannot)}
	if p.app != "" {
		s.InFlight = append(s.InFlight, drain.SourceApp)
	}
	if p.active != "" {
		s.InFlight = append(s.InFlight, drain.SourceClient)
	}
	if p.difference {
		s.InFlight = append(s.InFlight, drain.SourceDifference)
	}
	return s
}

func sandboxBackend(t release.BoundTrack, _ string) (string, error) {
	if t.Subset != "" {
		return "", fmt.Errorf("the provider sandbox cannot tell subsets apart, and Service %q is used with subset %q", t.Service, t.Subset)
	}
	return t.Namespace + "/" + t.Service, nil
}

func envoyCluster(t release.BoundTrack, domain string) (string, error) {
	if t.Port <= 0 || t.Port > 65535 {
		return "", fmt.Errorf("the provider envoy needs the port of Service %q, and %d is none", t.Service, t.Port)
	}
	return fmt.Sprintf("outbound|%d|%s|%s.%s.svc.%s", t.Port, t.Subset, t.Service, t.Namespace, domain), nil
}

// role says what a family of series is for.
type role string

const (
	roleStarts role = "requests started"
	roleEnds   role = "requests finished"
	roleActive role = "requests in flight at the proxies"
	roleApp    role = "requests in flight in the pods"
)

// family is one metric of one look: its query, then its series.
type family struct {
	role   role
	metric string
	query  string
	series []series
	// problem is what is wrong with the answer, if anything.
	problem string
	// copiedUntil is the time until which series were there twice, if they are
	// not any more.
	copiedUntil int64
	// hollow counts the samples of series without any number.
	hollow int
}

// gauge reports whether the family is of gauges, of which only the newest
// sample counts.
func (f family) gauge() bool { return f.role == roleActive || f.role == roleApp }

// byPod reports whether the family's series belong to a track by their pod.
func (p provider) byPod(r role) bool {
	return r == roleApp || p.backend == ""
}

// families builds the queries. Counters are read over the whole span, gauges
// over the shortest.
func (l *look) buildFamilies(span, shortest int64) error {
	add := func(r role, metric string, seconds int64, matchers ...string) {
		if metric == "" {
			return
		}
		l.families = append(l.families, family{
			role: r, metric: metric,
			query: fmt.Sprintf("%s{%s}[%ds]", metric, strings.Join(matchers, ","), seconds),
		})
	}
	pods, err := l.podMatchers()
	if err != nil {
		return err
	}
	if l.p.backend == "" {
		if pods != nil {
			add(roleEnds, l.p.ends, span, pods...)
			add(roleApp, l.p.app, shortest, pods...)
		}
		return nil
	}
	backends := is(l.p.backend, l.backends[:]...)
	add(roleStarts, l.p.starts, span, backends)
	if l.p.endsOnly == "" {
		add(roleEnds, l.p.ends, span, backends)
	} else {
		add(roleEnds, l.p.ends, span, backends, l.p.endsOnly)
	}
	add(roleActive, l.p.active, shortest, backends)
	if pods != nil {
		add(roleApp, l.p.app, shortest, pods...)
	}
	return nil
}

// nameTracks checks every name that goes into a query and notes which backend
// and which pod belongs to which track.
func (l *look) nameTracks() error {
	for t, b := range l.ask.Binding.Tracks {
		track := release.Track(t)
		if !isLabel(b.Namespace) {
			return fmt.Errorf("the %s's namespace %q is not a DNS label", track, b.Namespace)
		}
		if l.p.backend == "" {
			continue
		}
		if !isLabel(b.Service) {
			return fmt.Errorf("the %s's Service %q is not a DNS label", track, b.Service)
		}
		if b.Subset != "" && !isLabel(b.Subset) {
			return fmt.Errorf("the %s's subset %q is not a DNS label", track, b.Subset)
		}
		name, err := l.p.backendOf(b, l.src.Domain)
		if err != nil {
			return fmt.Errorf("the %s: %w", track, err)
		}
		l.backends[t] = name
	}
	if l.p.backend != "" && l.backends[release.Primary] == l.backends[release.Canary] {
		return fmt.Errorf("both tracks are %q to the provider %s", l.backends[0], l.p.name)
	}
	for t, pods := range l.ask.Pods {
		ns := l.ask.Binding.Tracks[t].Namespace
		for _, pod := range pods {
			if !isSubdomain(pod) {
				return fmt.Errorf("the pod name %q is not a DNS name", pod)
			}
			id := ns + "/" + pod
			if of, ok := l.pods[id]; ok && of != release.Track(t) {
				return fmt.Errorf("pod %s is given for both tracks", id)
			}
			l.pods[id] = release.Track(t)
		}
	}
	return nil
}

// podMatchers matches the live pods; nil without any.
func (l *look) podMatchers() ([]string, error) {
	var spaces, pods []string
	for id := range l.pods {
		ns, pod, ok := strings.Cut(id, "/")
		if !ok {
			return nil, errors.New("internal: a pod without a namespace")
		}
		spaces, pods = append(spaces, ns), append(pods, pod)
	}
	if len(pods) == 0 {
		return nil, nil
	}
	return []string{is("namespace", spaces...), is("pod", pods...)}, nil
}

// is matches a label that equals one of the values. Prometheus anchors =~ at
// both ends, and each value is escaped, so the match is exact.
func is(label string, values ...string) string {
	values = slices.Clone(values)
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) == 1 {
		return label + "=" + strconv.Quote(values[0])
	}
	for i, v := range values {
		values[i] = regexp.QuoteMeta(v)
	}
	return label + "=~" + strconv.Quote(strings.Join(values, "|"))
}

var (
	dnsLabel     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	dnsSubdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

func isLabel(s string) bool { return len(s) <= 63 && dnsLabel.MatchString(s) }

func isSubdomain(s string) bool { return len(s) <= 253 && dnsSubdomain.MatchString(s) }
