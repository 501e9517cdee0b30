package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// World is one sandbox. Build it with [New], then [World.Start] it; whoever
// started it has to [World.Stop] it.
type World struct {
	cfg   Config
	log   *slog.Logger
	group *group
	hub   *hub
	// client is for what stands outside of the data plane: probes, scrapes,
	// faults. It keeps no connections, as the kubelet keeps none.
	client *http.Client

	route    *route
	cluster  *cluster
	proxy    *proxy
	load     *load
	store    *store
	api      *promAPI
	saboteur *saboteur

	life    sync.Mutex // held while the world starts or stops
	state   worldState
	servers []*http.Server
	addrs   struct{ proxy, metrics, prom string }
}

type worldState int

const (
	worldNew worldState = iota
	worldStarted
	worldStopped
)

// New checks the configuration and builds a World in which nothing runs yet.
func New(cfg Config) (*World, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	w := &World{
		cfg: cfg, log: log, group: newGroup(), hub: &hub{}, store: newStore(), load: newLoad(cfg),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	w.route = newRoute(cfg, log, w.hub)
	w.cluster = newCluster(cfg, log, w.group, w.hub, w.client)
	w.proxy = newProxy(cfg, log, w.route.weights, w.cluster.endpoints)
	w.saboteur = newSaboteur(cfg, log, w.route, w.cluster, w.load)
	w.cluster.born = w.saboteur.born
	w.route.declared = func() { w.saboteur.look(w.group.ctx) }
	w.api = newPromAPI(cfg, log, w.store)
	return w, nil
}

// Start brings everything up and returns when all pods are ready, the proxy
// knows them and the load runs. The context bounds the start only. When it
// fails, everything is stopped again.
func (w *World) Start(ctx context.Context) error {
	w.life.Lock()
	defer w.life.Unlock()
	if w.state != worldNew {
		return errors.New("sandbox: a world can be started only once")
	}
	w.state = worldStarted
	if err := w.start(ctx); err != nil {
		w.stop(ctx)
		return err
	}
	return nil
}

func (w *World) start(ctx context.Context) error {
	w.api.began = time.Now()
	if err := w.listen(ctx); err != nil {
		return err
	}
	w.group.run(w.route.control)
	w.group.run(w.saboteur.run)
	w.group.run(w.proxy.tend)
	w.cluster.start()
	if err := w.waitServing(ctx); err != nil {
		return err
	}
	w.group.run((&scraper{every: w.cfg.Scrape, log: w.log, store: w.store, client: w.client, targets: w.targets}).run)
	w.load.start("http://"+w.addrs.proxy, w.cfg.RPS)
	w.log.Info("the sandbox is up", "proxy", w.ProxyURL(), "prometheus", w.PromURL(), "pods", w.cfg.pods(), "rps", w.cfg.RPS)
	return nil
}

// listen opens the three doors.
func (w *World) listen(ctx context.Context) error {
	for _, door := range []struct {
		what, field, addr string
		handler           http.Handler
		got               *string
	}{
		{"the proxy", "ListenProxy", w.cfg.ListenProxy, w.proxy, &w.addrs.proxy},
		{"the proxy's metrics", "", "127.0.0.1:0", w.proxy.metrics.handler(), &w.addrs.metrics},
		{"the Prometheus API", "ListenProm", w.cfg.ListenProm, w.api.handler(), &w.addrs.prom},
	} {
		var lc net.ListenConfig
		ln, err := lc.Listen(ctx, "tcp", door.addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("sandbox: %s cannot listen on %s: something else does: set %s to another address, or to port 0 for a free one: %w", door.what, door.addr, door.field, err)
		}
		if err != nil {
			return fmt.Errorf("sandbox: %s (%s): %w", door.what, door.field, err)
		}
		*door.got = ln.Addr().String()
		w.serve(ln, door.handler)
	}
	return nil
}

func (w *World) serve(ln net.Listener, h http.Handler) {
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: time.Minute, // see idleTimeout
		ErrorLog: slog.NewLogLogger(w.log.Handler(), slog.LevelDebug),
	}
	w.servers = append(w.servers, srv)
	w.group.run(func(context.Context) {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			w.log.Error("a server of the sandbox failed", "addr", ln.Addr().String(), "error", err.Error())
		}
	})
}

// firstPods bounds the wait for the first pods.
const firstPods = 30 * time.Second

// waitServing waits until the proxy knows every pod.
func (w *World) waitServing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstPods)
	defer cancel()
	for {
		n := len(w.proxy.endpoints[release.Primary].get()) + len(w.proxy.endpoints[release.Canary].get())
		if n >= w.cfg.pods() {
			return nil
		}
		if !sleep(ctx, 10*time.Millisecond) {
			return fmt.Errorf("sandbox: %d of %d pods are ready: %w%s", n, w.cfg.pods(), ctx.Err(), w.cluster.explain())
		}
	}
}

// explain says what is wrong with the pods, for people.
func (c *cluster) explain() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.deployments {
		for _, t := range d.trouble() {
			return fmt.Sprintf(": pod %s: %s: %s", t.Pod, t.Reason, t.Message)
		}
	}
	return ""
}

// targets lists what the scraper has to read: the proxy and every pod that has
// a process, terminating ones included.
func (w *World) targets() []target {
	out := []target{{name: ProxyName, addr: w.addrs.metrics, labels: map[string]string{
		"job": "gateway", "instance": w.addrs.metrics, "namespace": Namespace, "proxy": ProxyName,
	}}}
	for _, p := range w.cluster.list() {
		if p.Addr == "" {
			continue
		}
		out = append(out, target{name: p.Name + " " + p.Addr, addr: p.Addr, labels: map[string]string{
			"job": "pods", "instance": p.Addr, "namespace": Namespace, "pod": p.Name, "deployment": Deployment(p.Track),
		}})
	}
	return out
}

// Stop ends the load and waits for its answers, then ends everything else. When
// ctx ends first, requests on their way are cut. Processes are killed: nothing
// is running in them any more. It returns when every goroutine and every
// process has ended, and may be called again.
func (w *World) Stop(ctx context.Context) {
	w.life.Lock()
	defer w.life.Unlock()
	if w.state != worldStopped {
		w.stop(ctx)
	}
}

func (w *World) stop(ctx context.Context) {
	w.state = worldStopped
	w.load.finish(ctx)
	w.route.close()
	w.cluster.close()
	for _, srv := range w.servers {
		shut(ctx, srv)
	}
	w.group.stop()
	w.proxy.close()
}

// shut ends a server; handlers get a moment to end first.
func shut(ctx context.Context, srv *http.Server) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if srv.Shutdown(ctx) != nil {
		_ = srv.Close()
	}
}

// Routes is the door to the route.
func (w *World) Routes() *Routes { return &Routes{w.route} }

// Workloads is the door to the Deployments.
func (w *World) Workloads() *Workloads { return &Workloads{w.cluster} }

// ProxyURL is where clients send their requests; empty before Start.
func (w *World) ProxyURL() string { return url(w.addrs.proxy) }

// PromURL is the base URL of the Prometheus HTTP API; empty before Start.
func (w *World) PromURL() string { return url(w.addrs.prom) }

func url(addr string) string {
	if addr == "" {
		return ""
	}
	return "http://" + addr
}

// Report is what the load generator has seen so far.
func (w *World) Report() Report { return w.load.tally.report() }

// SetRate changes the load; 0 stops it. A rate far above Config.RPS can run out
// of slots, which the report counts.
func (w *World) SetRate(rps float64) error {
	if err := checkRate(rps); err != nil {
		return err
	}
	w.load.setRate(rps)
	return nil
}

// Pods lists every pod that is not gone.
func (w *World) Pods() []Pod { return w.cluster.list() }

// Endings lists how removed pods went, oldest first.
func (w *World) Endings() []Ending {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	return append([]Ending(nil), w.cluster.endings...)
}

// Injected is the number of errors that the apps made on purpose, by their own
// count. It is 0 without Faults.ErrorsFrom.
func (w *World) Injected(ctx context.Context) int { return w.cluster.injectedErrors(ctx) }

// WriteForeign writes the route's weights as another field manager would:
// without a fence, and without asking.
func (w *World) WriteForeign(manager string, p release.Pair) { w.route.writeForeign(manager, p) }

// Deploy gives a track a template with another version, as another writer
// would. A rolling update follows.
func (w *World) Deploy(t release.Track, version string) { w.cluster.deploy(t, version) }

// Watch tells that something has changed that a release looks at: the route,
// the Deployments or their pods. It fits engine.Watcher.
func (w *World) Watch(ctx context.Context, _ release.Binding) (<-chan struct{}, error) {
	return w.hub.listen(ctx), nil
}
