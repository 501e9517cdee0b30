package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Two instances behind a small mesh are replaced in turn while clients send
// requests. The mesh behaves like a real one where it hurts: it reuses
// connections, it never retries, and it hears that an instance is not ready
// only when its next probe says so.
//
// Clients come by one of two ways. A proxy chooses an instance for each request.
// A plain Service (kube-proxy) does so for each connection: a client that keeps
// its connection stays with an instance that is not ready any more.

const probeInterval = 25 * time.Millisecond

func TestRollingRestartBehindAProxyLosesNothing(t *testing.T) {
	clients := rollUnderLoad(t, throughProxy, 20, exitOK, "--lame-duck=600ms")
	clients.wantNoFailures(t)
	if answers := clients.ok.Load(); clients.dials > answers/5 {
		t.Errorf("%d connections for %d answers: hardly any was reused, so this proves little", clients.dials, answers)
	}
}

func TestRollingRestartBehindAServiceLosesNothing(t *testing.T) {
	rollUnderLoad(t, throughService, 10, exitOK, "--lame-duck=1s").wantNoFailures(t)
}

// The controls: the same load must lose requests when the lesson is left out.
// If they pass unharmed, the tests above prove nothing.

func TestControlWithoutGracefulShutdownLosesRequests(t *testing.T) {
	rollUnderLoad(t, throughProxy, 4, -1, "--no-graceful").wantFailures(t) // -1: killed by the signal
}

func TestControlShutdownWithoutLameDuckLosesRequests(t *testing.T) {
	rollUnderLoad(t, throughProxy, 4, exitOK, "--lame-duck=0s").wantFailures(t)
}

// rollUnderLoad replaces instances one at a time, each of which must end with
// the given code, and returns what the clients saw.
func rollUnderLoad(t *testing.T, way way, restarts, code int, args ...string) *load {
	t.Helper()
	m := newMesh(t)
	instances := [2]*process{start(t, args...), start(t, args...)}
	for _, p := range instances {
		m.add(p)
	}
	clients := startLoad(way(m))

	var slowest time.Duration // from SIGTERM until the mesh had noticed
	for i := range restarts {
		old := instances[i%2]
		told := time.Now()
		old.signal(syscall.SIGTERM)
		m.waitUntilOut(old)
		slowest = max(slowest, time.Since(told))
		old.wantExit(code)

		served := clients.ok.Load()
		instances[i%2] = start(t, args...)
		m.add(instances[i%2])
		eventually(t, "load goes on", func() bool { return clients.ok.Load() > served+100 })
	}
	clients.stop()
	clients.dials = m.dials.Load()
	t.Logf("%d restarts, %d requests answered, %d failed; the mesh noticed within %v; %d connections",
		restarts, clients.ok.Load(), clients.failed.Load(), slowest.Round(time.Millisecond),
		clients.dials)
	return clients
}

// way returns where a client sends its requests, and how it opens connections.
type way func(*mesh) (target string, dial dialer)

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func throughProxy(m *mesh) (string, dialer) {
	return m.server.URL, new(net.Dialer).DialContext
}

func throughService(m *mesh) (string, dialer) {
	return "http://service", func(ctx context.Context, _, _ string) (net.Conn, error) {
		b := m.pick()
		if b == nil {
			return nil, errors.New("the service has no endpoints")
		}
		return b.dial(ctx, "tcp", strings.TrimPrefix(b.process.url, "http://"))
	}
}

// mesh knows which instances are ready, and is a reverse proxy over them.
type mesh struct {
	t      *testing.T
	server *httptest.Server
	dials  atomic.Int64

	mu    sync.Mutex
	ready []*backend
	next  int
}

// backend is one instance with its own connection pool, as in Envoy.
type backend struct {
	process   *process
	proxy     *httputil.ReverseProxy
	transport *http.Transport
	dial      dialer
}

func newMesh(t *testing.T) *mesh {
	m := &mesh{t: t}
	m.server = httptest.NewServer(m)
	t.Cleanup(m.server.Close)
	return m
}

func (m *mesh) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b := m.pick()
	if b == nil {
		http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
		return
	}
	b.proxy.ServeHTTP(w, r)
}

func (m *mesh) pick() *backend {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ready) == 0 {
		return nil
	}
	m.next++
	return m.ready[m.next%len(m.ready)]
}

// add waits until an instance is ready, brings it into rotation, and watches it
// until its end.
func (m *mesh) add(p *process) {
	m.t.Helper()
	target, err := url.Parse(p.url)
	if err != nil {
		m.t.Fatal(err)
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		m.dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	transport := &http.Transport{
		MaxIdleConnsPerHost: 100, // reuse: by default all but two would be closed after use
		DialContext:         dial,
	}
	b := &backend{process: p, transport: transport, dial: dial, proxy: &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "upstream: "+err.Error(), http.StatusBadGateway)
		},
		ErrorLog: log.New(io.Discard, "", 0), // the answer says it already
	}}
	eventually(m.t, "the new instance is ready", func() bool { return p.get("/readyz").code == 200 })
	m.mu.Lock()
	m.ready = append(m.ready, b)
	m.mu.Unlock()

	watching := make(chan struct{})
	go func() {
		defer close(watching)
		m.watch(b)
	}()
	m.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-watching
	})
}

// watch probes an instance, and takes it out of rotation when it is not ready.
func (m *mesh) watch(b *backend) {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-b.process.exited:
			m.remove(b)
			return
		case <-tick.C:
			if b.process.get("/readyz").code != http.StatusOK {
				m.remove(b)
			}
		}
	}
}

// remove ends the use of an instance. Like Envoy it closes the idle connections
// to it, also those that were being opened and come too late to be of use.
func (m *mesh) remove(b *backend) {
	m.mu.Lock()
	m.ready = slices.DeleteFunc(m.ready, func(other *backend) bool { return other == b })
	m.mu.Unlock()
	b.transport.CloseIdleConnections()
}

func (m *mesh) waitUntilOut(p *process) {
	m.t.Helper()
	eventually(m.t, "the instance is out of rotation", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return !slices.ContainsFunc(m.ready, func(b *backend) bool { return b.process == p })
	})
}

// load is a handful of clients that send one request after the other.
type load struct {
	ok, failed atomic.Int64
	dials      int64 // connections that the proxy opened for them; set at the end
	ending     atomic.Bool
	clients    sync.WaitGroup

	mu       sync.Mutex
	failures map[string]int // by what the client saw
}

func startLoad(target string, dial dialer) *load {
	l := &load{failures: map[string]int{}}
	for range 6 {
		l.clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 10 * time.Second}
			defer client.CloseIdleConnections()
			for i := 0; !l.ending.Load(); i++ {
				l.one(client, fmt.Sprintf("%s/work?ms=%d", target, i%3*8))
			}
		})
	}
	return l
}

// one sends a POST whose body cannot be sent twice: neither net/http nor a real
// proxy may retry that behind our back, as they do with a GET.
func (l *load) one(client *http.Client, target string) {
	res, err := client.Post(target, "text/plain", io.LimitReader(strings.NewReader("order"), 5))
	if err == nil {
		var body []byte
		body, err = io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%d %s", res.StatusCode, strings.TrimSpace(string(body)))
		}
	}
	if err == nil {
		l.ok.Add(1)
		return
	}
	l.failed.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures[ports.ReplaceAllString(err.Error(), ":port")]++
}

var ports = regexp.MustCompile(`:[0-9]+\b`)

func (l *load) stop() {
	l.ending.Store(true)
	l.clients.Wait()
}

func (l *load) wantNoFailures(t *testing.T) {
	t.Helper()
	for failure, n := range l.failures {
		t.Errorf("%d times: %s", n, failure)
	}
}

func (l *load) wantFailures(t *testing.T) {
	t.Helper()
	if l.failed.Load() == 0 {
		t.Error("no request failed: the load is too kind to prove anything")
	}
	for failure, n := range l.failures {
		t.Logf("as expected, %d times: %s", n, failure)
	}
}
