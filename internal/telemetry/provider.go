package telemetry

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

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
	// Latency: how many requests took longer than the bounds of a histogram.
	Latency bool `json:"latency"`
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
	slow   string // bucket counters of durations

	// endsOnly is one more matcher on ends: that the label of the code is there.
	endsOnly string
	// code is the label of ends that tells errors from the rest, and bad how;
	// nil means class 5.
	code string
	bad  func(code string, m model.Metric) bool
	// slowUnit is what the bounds of slow are in, and slowPods says that the pods
	// export it, though proxies count the rest.
	slowUnit string
	slowPods bool
	// tell names the backends of the tracks. Without it requests are counted per
	// pod of the track.
	tell func(a release.Ask, domain string) (naming, error)
	// clients names them for starts and active, where these differ.
	clients func(a release.Ask, domain string) (naming, error)
	// proxy holds the labels that name a proxy; the first one present counts.
	proxy []string
	// apart asks for each family with a query of its own, where no latency is
	// read. Else families of one kind of target share one.
	apart bool
	// difference: requests begun minus finished are those in flight.
	difference bool
	// hint is the way out when there is nothing to see.
	hint   string
	cannot []string
	// slowCannot is what its latency is not.
	slowCannot []string
}

// perPod reports whether requests are counted by the pods of the tracks.
func (p provider) perPod() bool { return p.tell == nil }

// appGauge is what an application that can be drained well exports itself.
const appGauge = "http_requests_in_flight"

// Units of the bounds of histograms.
const (
	inSeconds = "s"
	inMillis  = "ms"
)

// podLabels name a pod, by custom; an instance names it when nothing else does.
var podLabels = []string{"pod", "kubernetes_pod_name", "pod_name", "instance"}

func providerNamed(name string) (provider, error) {
	for _, p := range providers() {
		if p.name == name {
			return p, nil
		}
	}
	return provider{}, fmt.Errorf("provider %q is not known; use one of %s", name, strings.Join(Providers(), ", "))
}

// Providers lists the names of the templates.
func Providers() []string {
	all := providers()
	out := make([]string, 0, len(all))
	for _, p := range all {
		out = append(out, p.name)
	}
	return out
}

func (p provider) sees(latency bool) Sees {
	s := Sees{
		Provider: p.name, Errors: p.ends != "", Starts: p.starts != "", Latency: latency && p.slow != "",
		Cannot: slices.Clone(p.cannot),
	}
	if s.Latency {
		s.Cannot = append(s.Cannot, p.slowCannot...)
	}
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

// role says what a family of series is for.
type role string

const (
	roleStarts role = "requests started"
	roleEnds   role = "requests finished"
	roleActive role = "requests in flight at the proxies"
	roleApp    role = "requests in flight in the pods"
	roleSlow   role = "durations of requests"
)

// family is one metric of one look: its query, then its series.
type family struct {
	role     role
	metric   string
	matchers []string
	seconds  int64 // how far back it is read
	// oldest is the time before which its samples are not used.
	oldest int64
	// bare series have no label for the code and count what others count too.
	skipBare bool
	series   []series
	// stray series are of the managed service and of neither track.
	stray []series
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

// request is one query, and the families that it answers for.
type request struct {
	query    string
	families []int
}

// byPod reports whether the family's series belong to a track by their pod.
func (p provider) byPod(r role) bool {
	return r == roleApp || p.perPod() || r == roleSlow && p.slowPods
}

// naming returns how the series of a family that is not by pod are named.
func (l *look) naming(r role) naming {
	if l.p.clients != nil && (r == roleStarts || r == roleActive) {
		return l.clients
	}
	return l.by
}

// buildFamilies lists what is read. Counters are read over the whole span,
// gauges over the shortest.
func (l *look) buildFamilies(span, shortest int64) error {
	pods, err := l.podMatchers()
	if err != nil {
		return err
	}
	add := func(r role, metric string, seconds int64) {
		matchers := pods
		if !l.p.byPod(r) {
			matchers = l.naming(r).matchers()
		}
		if metric == "" || matchers == nil {
			return
		}
		l.families = append(l.families, family{role: r, metric: metric, matchers: matchers, seconds: seconds})
	}
	if !l.p.perPod() {
		add(roleStarts, l.p.starts, span)
	}
	add(roleEnds, l.p.ends, span)
	if l.src.Latency && (l.ask.Bounds == nil || len(l.ask.Bounds) > 0) {
		add(roleSlow, l.p.slow, span)
	}
	if !l.p.perPod() {
		add(roleActive, l.p.active, shortest)
	}
	add(roleApp, l.p.app, shortest)
	l.buildRequests()
	return nil
}

// buildRequests writes the queries: one for each family, or one for all that
// have the same labels. What one query answers is of one moment.
func (l *look) buildRequests() {
	apart := l.p.apart && !l.src.Latency
	of := map[string]int{}
	for i := range l.families {
		f := &l.families[i]
		f.oldest = l.oldest
		key := strconv.Itoa(i)
		if !apart {
			key = strings.Join(f.matchers, ",")
			f.oldest = l.now - 1000*f.seconds
			f.skipBare = f.role == roleEnds && l.p.endsOnly != ""
		} else if f.role == roleEnds && l.p.endsOnly != "" {
			f.matchers = append(f.matchers, l.p.endsOnly)
		}
		n, ok := of[key]
		if !ok {
			n = len(l.requests)
			of[key] = n
			l.requests = append(l.requests, request{})
		}
		l.requests[n].families = append(l.requests[n].families, i)
	}
	for i := range l.requests {
		l.requests[i].query = l.queryFor(l.requests[i].families)
	}
}

func (l *look) queryFor(families []int) string {
	first := l.families[families[0]]
	if len(families) == 1 {
		return fmt.Sprintf("%s{%s}[%ds]", first.metric, strings.Join(first.matchers, ","), first.seconds)
	}
	var names []string
	var longest int64
	for _, i := range families {
		names = append(names, l.families[i].metric)
		longest = max(longest, l.families[i].seconds)
	}
	matchers := append([]string{is(model.MetricNameLabel, names...)}, first.matchers...)
	return fmt.Sprintf("{%s}[%ds]", strings.Join(matchers, ","), longest)
}

// nameTracks checks every name that goes into a query and notes which backend
// and which pod belongs to which track.
func (l *look) nameTracks() error {
	for t, b := range l.ask.Binding.Tracks {
		track := release.Track(t)
		switch {
		case !isLabel(b.Namespace):
			return fmt.Errorf("the %s's namespace %q is not a DNS label", track, b.Namespace)
		case l.p.perPod():
		case !isLabel(b.Service):
			return fmt.Errorf("the %s's Service %q is not a DNS label", track, b.Service)
		case b.Subset != "" && !isLabel(b.Subset):
			return fmt.Errorf("the %s's subset %q is not a DNS label", track, b.Subset)
		}
	}
	if err := l.nameBackends(); err != nil {
		return err
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

func (l *look) nameBackends() error {
	l.copies = copyLabels
	if l.p.perPod() {
		return nil
	}
	var err error
	if l.by, err = l.p.tell(l.ask, l.src.Domain); err != nil {
		return err
	}
	if l.p.clients != nil {
		if l.clients, err = l.p.clients(l.ask, l.src.Domain); err != nil {
			return err
		}
	}
	for _, n := range []naming{l.by, l.clients} {
		if len(n.labels) > 0 && n.text(release.Primary) == n.text(release.Canary) {
			return fmt.Errorf("both tracks are %q to the provider %s", n.text(release.Primary), l.p.name)
		}
		// A label that names a backend tells no copies apart.
		l.copies = slices.DeleteFunc(slices.Clone(l.copies), func(c model.LabelName) bool {
			return slices.Contains(n.labels, c)
		})
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
