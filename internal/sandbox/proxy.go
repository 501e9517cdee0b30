package sandbox

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/shifter-dev/shifter/internal/release"
)

// Headers that the proxy adds to every answer, so that a client can count for
// itself who served it.
const (
	headerTrack = "X-Track"
	headerPod   = "X-Pod"
	// headerFault is what the app says of an error that it was told to make.
	headerFault = "X-Fault"
)

// proxy is the data plane: it splits the requests by weight and spreads each
// track's over its ready endpoints. It enforces what it has heard, which is
// older than what is written.
type proxy struct {
	weights   *lagged[release.Pair]
	endpoints [2]*lagged[[]endpoint]
	log       *slog.Logger
	reverse   httputil.ReverseProxy
	turn      [2]atomic.Uint64
	metrics   *proxyMetrics

	mu    sync.Mutex
	rand  *rand.Rand
	pools map[string]*http.Transport // by address of the endpoint
}

func newProxy(cfg Config, log *slog.Logger, weights *lagged[release.Pair], endpoints [2]*lagged[[]endpoint]) *proxy {
	p := &proxy{
		weights: weights, endpoints: endpoints, log: log, metrics: newProxyMetrics(),
		rand:  rand.New(rand.NewPCG(cfg.Seed, 0)),
		pools: map[string]*http.Transport{},
	}
	p.reverse = httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      once{roundTripper(p.roundTrip)},
		ModifyResponse: sign,
		ErrorHandler:   p.failed,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return p
}

// once makes a transport send every request at most once. Go's own sends a
// request without a body again, without a word, when a kept connection turns
// out to be closed; that would hide from every count the very loss that a bad
// shutdown causes. A body that cannot be had again rules it out (see
// persistConn.shouldRetryRequest), and an empty one is not sent at all.
type once struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.WithContext(req.Context()) // a copy: a RoundTripper must not change its request
	r.GetBody = nil
	if r.Body == nil || r.Body == http.NoBody {
		r.Body = emptyBody{}
	}
	return o.next.RoundTrip(r)
}

// roundTripper is a function that is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// roundTrip sends a request on a connection of its endpoint's pool.
func (p *proxy) roundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	pool := p.pools[r.URL.Host]
	if pool == nil {
		pool = newPool()
		p.pools[r.URL.Host] = pool
	}
	p.mu.Unlock()
	return pool.RoundTrip(r)
}

// dialTimeout is long for loopback, where a closed port is refused at once: only
// a very busy machine needs it.
const dialTimeout = 5 * time.Second

// idleTimeout must be shorter than any time after which a server closes a
// connection by itself, or a request is lost that is just being sent on it. The
// shortest is the time for a first request's header, which runs out on
// connections that Go's transport opened to spare: 10 s at the app.
const idleTimeout = 5 * time.Second

func newPool() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     idleTimeout,
	}
}

// tendEvery is how often the proxy looks for endpoints that it has lost.
const tendEvery = 50 * time.Millisecond

// tend drops the pools of endpoints that are gone, as Envoy does: a connection
// that was opened and never used would keep a process from ending for 5 s
// (http.Server.Shutdown).
func (p *proxy) tend(ctx context.Context) {
	for sleep(ctx, tendEvery) {
		keep := map[string]bool{}
		for t := range p.endpoints {
			for _, e := range p.endpoints[t].get() {
				keep[e.addr] = true
			}
		}
		p.dropPools(func(addr string) bool { return !keep[addr] })
	}
}

func (p *proxy) dropPools(which func(addr string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr, pool := range p.pools {
		if which(addr) {
			pool.CloseIdleConnections()
			delete(p.pools, addr)
		}
	}
}

// close drops every pool.
func (p *proxy) close() { p.dropPools(func(string) bool { return true }) }

// emptyBody is an empty body that is not http.NoBody.
type emptyBody struct{}

// Read implements io.Reader.
func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements io.Closer.
func (emptyBody) Close() error { return nil }

// chosen is where one request goes.
type chosen struct {
	track    release.Track
	endpoint endpoint
}

type chosenKey struct{}

func rewrite(r *httputil.ProxyRequest) {
	c, _ := r.In.Context().Value(chosenKey{}).(chosen)
	r.Out.URL.Scheme, r.Out.URL.Host = "http", c.endpoint.addr
}

// sign adds who answered.
func sign(resp *http.Response) error {
	c, _ := resp.Request.Context().Value(chosenKey{}).(chosen)
	resp.Header.Set(headerTrack, c.track.String())
	resp.Header.Set(headerPod, c.endpoint.pod)
	return nil
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := chosen{track: p.pick()}
	res := &answered{ResponseWriter: w}
	p.metrics.begin(c.track)
	finished := false
	// Deferred: ReverseProxy panics when an answer breaks off in the middle.
	defer func() { p.metrics.end(c.track, res.codeOf(finished)) }()

	list := p.endpoints[c.track].get()
	if len(list) == 0 {
		res.Header().Set(headerTrack, c.track.String())
		http.Error(res, "no healthy endpoint", http.StatusServiceUnavailable)
		finished = true
		return
	}
	c.endpoint = list[p.turn[c.track].Add(1)%uint64(len(list))]
	p.reverse.ServeHTTP(res, r.WithContext(context.WithValue(r.Context(), chosenKey{}, c)))
	finished = true
}

// pick chooses a track by the enforced weights.
func (p *proxy) pick() release.Track {
	w := p.weights.get()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rand.Int32N(max(w.Sum(), 1)) < w.Primary {
		return release.Primary
	}
	return release.Canary
}

// statusClientGone is what proxies count when the client left first.
const statusClientGone = 499

// failed answers for an upstream that did not: 503 when no connection could be
// made or it broke, as Envoy does.
func (p *proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	c, _ := r.Context().Value(chosenKey{}).(chosen)
	if errors.Is(r.Context().Err(), context.Canceled) {
		w.WriteHeader(statusClientGone)
		return
	}
	p.log.Warn("the proxy got no answer", "pod", c.endpoint.pod, "track", c.track.String(), "error", err.Error())
	w.Header().Set(headerTrack, c.track.String())
	w.Header().Set(headerPod, c.endpoint.pod)
	http.Error(w, "upstream: "+err.Error(), http.StatusServiceUnavailable)
}

// answered notes the status code.
type answered struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (a *answered) WriteHeader(code int) {
	if a.code == 0 && code >= 200 { // 1xx are not the final header
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *answered) Write(b []byte) (int, error) {
	if a.code == 0 {
		a.code = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// codeOf is the code to count: an answer that broke off is a failure, whatever
// its header had promised.
func (a *answered) codeOf(finished bool) int {
	switch {
	case !finished:
		return http.StatusBadGateway
	case a.code == 0:
		return http.StatusOK
	default:
		return a.code
	}
}

// proxyMetrics are the proxy's own counts.
type proxyMetrics struct {
	registry *prometheus.Registry
	started  *prometheus.CounterVec
	total    *prometheus.CounterVec
	active   *prometheus.GaugeVec
}

func newProxyMetrics() *proxyMetrics {
	m := &proxyMetrics{
		registry: prometheus.NewRegistry(),
		started: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_proxy_requests_started_total", Help: "Requests sent to a backend.",
		}, []string{"backend"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_proxy_requests_total", Help: "Requests answered, by status code.",
		}, []string{"backend", "code"}),
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sandbox_proxy_requests_active", Help: "Requests started and not yet answered.",
		}, []string{"backend"}),
	}
	m.registry.MustRegister(m.started, m.total, m.active)
	// A backend is there from the start, a code with its first answer: so it is
	// with Envoy's series too.
	for _, t := range []release.Track{release.Primary, release.Canary} {
		m.started.WithLabelValues(backend(t))
		m.active.WithLabelValues(backend(t))
	}
	return m
}

func (m *proxyMetrics) begin(t release.Track) {
	m.started.WithLabelValues(backend(t)).Inc()
	m.active.WithLabelValues(backend(t)).Inc()
}

func (m *proxyMetrics) end(t release.Track, code int) {
	m.total.WithLabelValues(backend(t), strconv.Itoa(code)).Inc()
	m.active.WithLabelValues(backend(t)).Dec()
}

// handler serves GET /metrics.
func (m *proxyMetrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return mux
}
