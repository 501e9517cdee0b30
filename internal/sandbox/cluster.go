package sandbox

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// cluster holds the two Deployments and their pods: API server, controllers and
// kubelet in one. What a controller does, it does at once under the lock; pods
// live in goroutines of their own.
type cluster struct {
	cfg    Config
	log    *slog.Logger
	group  *group
	hub    *hub
	client *http.Client
	// born is called when a process of a pod is up, before its first probe.
	born func(context.Context, *pod)
	// starts bounds how many processes start at once.
	starts    chan struct{}
	endpoints [2]*lagged[[]endpoint] // as the proxy knows them

	mu          sync.Mutex
	closed      bool
	number      int
	deployments [2]*deployment
	published   [2][]endpoint
	endings     []Ending
	injected    float64 // by processes that have ended
}

// endpoint is a pod that gets traffic.
type endpoint struct {
	pod  string
	addr string
}

// Ending tells how a removed pod went.
type Ending struct {
	Pod    string
	Track  release.Track
	Killed bool          // SIGKILL, after the grace period
	Took   time.Duration // from SIGTERM to the end of the process
	Exit   string        // as the operating system put it
}

// parallelStarts keeps a scale-up from starving the pods that serve.
const parallelStarts = 2

func newCluster(cfg Config, log *slog.Logger, g *group, h *hub, client *http.Client) *cluster {
	c := &cluster{cfg: cfg, log: log, group: g, hub: h, client: client, starts: make(chan struct{}, parallelStarts)}
	for t := range c.deployments {
		c.endpoints[t] = newLagged[[]endpoint](cfg.EndpointLag, nil)
		c.deployments[t] = cfg.Begin.deployment(release.Track(t))
	}
	return c
}

// start gives both Deployments their first size.
func (c *cluster) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.deployments {
		d.replicas = c.cfg.Begin.replicas(d.track, c.cfg.Replicas)
		c.reconcile(d)
	}
}

// close makes the cluster start nothing any more.
func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// reconcile brings a Deployment closer to what it wants; the caller holds the
// lock and has just changed something.
func (c *cluster) reconcile(d *deployment) {
	if c.closed {
		return
	}
	for more := true; more; {
		more = d.roll()
		for _, s := range d.sets {
			c.fit(d, s)
		}
	}
	c.publish(d)
	c.hub.notify()
}

// fit creates and removes pods until the ReplicaSet has what it wants.
func (c *cluster) fit(d *deployment, s *replicaSet) {
	for len(d.of(s)) < s.desired {
		c.create(d, s)
	}
	for _, p := range d.victims(s) {
		c.log.Info("a pod is removed", "pod", p.name, "ready", p.ready)
		// The endpoints lose it and the process gets SIGTERM, both now and
		// neither waiting for the other.
		p.leaving = true
		close(p.leave)
	}
}

func (c *cluster) create(d *deployment, s *replicaSet) {
	c.number++
	p := newPod(d, s, c.number)
	d.pods = append(d.pods, p)
	c.group.run(func(ctx context.Context) {
		defer c.gone(p)
		c.runPod(ctx, p)
	})
}

func (c *cluster) gone(p *pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.dep.pods = slices.DeleteFunc(p.dep.pods, func(q *pod) bool { return q == p })
	c.reconcile(p.dep)
}

// publish tells the proxy, with its lag, which pods are ready.
func (c *cluster) publish(d *deployment) {
	var list []endpoint
	for _, p := range d.pods {
		if p.ready && !p.leaving {
			list = append(list, endpoint{pod: p.name, addr: p.addr})
		}
	}
	if slices.Equal(list, c.published[d.track]) {
		return
	}
	c.published[d.track] = list
	c.endpoints[d.track].set(list)
}

// update changes a pod and lets its Deployment react.
func (c *cluster) update(p *pod, change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.reconcile(p.dep)
}

// Pod is one look at a pod.
type Pod struct {
	Name     string
	Track    release.Track
	Version  string
	Template string // its hash
	Addr     string // empty until the process listens
	PID      int
	Ready    bool
	Leaving  bool // terminating
}

func (c *cluster) list() []Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Pod
	for _, d := range c.deployments {
		for _, p := range d.pods {
			out = append(out, Pod{
				Name: p.name, Track: d.track, Version: p.set.template.version(), Template: p.set.hash,
				Addr: p.addr, PID: p.pid, Ready: p.ready, Leaving: p.leaving,
			})
		}
	}
	return out
}
