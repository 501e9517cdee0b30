package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"github.com/shifter-dev/shifter/internal/release"
)

// faultVersion is the version that is bad; pods of others stay well.
const faultVersion = "v2"

// podFaults is what a pod is told to do wrong, in the app's own words.
type podFaults struct {
	ErrorRate     float64 `json:"errorRate"`
	Latency       string  `json:"latency,omitempty"`
	NeverReady    bool    `json:"neverReady"`
	IgnoreSigterm bool    `json:"ignoreSigterm"`
}

// saboteur makes happen what Config.Faults orders, once the route has declared
// the share for it. What was triggered stays.
type saboteur struct {
	faults  Faults
	log     *slog.Logger
	route   *route
	cluster *cluster
	load    *load

	turn    sync.Mutex // one look at a time; guards stopped and stuck
	stopped bool       // LoadStopsAt has done it
	stuck   [2]bool    // StuckAt has found its victim

	mu     sync.Mutex
	errors bool                 // ErrorsFrom is on
	slow   bool                 // SlowFrom is on
	podMap map[string]podFaults // by name of the pod
}

func newSaboteur(cfg Config, log *slog.Logger, r *route, c *cluster, l *load) *saboteur {
	return &saboteur{faults: cfg.Faults, log: log, route: r, cluster: c, load: l, podMap: map[string]podFaults{}}
}

// run looks whenever a pod has changed, for what could not be done at once.
func (s *saboteur) run(ctx context.Context) {
	for range s.route.hub.listen(ctx) {
		s.look(ctx)
	}
}

// look does what the share that was declared calls for.
func (s *saboteur) look(ctx context.Context) {
	s.turn.Lock()
	defer s.turn.Unlock()
	share := s.route.peakShare()
	if at := s.faults.LoadStopsAt.Share; at > 0 && share >= at && !s.stopped {
		s.log.Warn("fault: the load stops", "share", share)
		s.load.setRate(0)
		s.stopped = true
	}
	if at := s.faults.ErrorsFrom.Share; at > 0 && share >= at && s.turnOn(&s.errors) {
		s.log.Warn("fault: the primary answers with errors", "rate", s.faults.ErrorsFrom.Rate, "version", faultVersion)
		s.breakPrimary(ctx)
	}
	if at := s.faults.SlowFrom.Share; at > 0 && share >= at && s.turnOn(&s.slow) {
		s.log.Warn("fault: the primary answers later", "by", s.faults.SlowFrom.By, "version", faultVersion)
		s.breakPrimary(ctx)
	}
	if at := s.faults.StuckAt.Share; at > 0 && share >= at {
		s.stick(ctx, release.Primary, func(f *podFaults) { f.NeverReady = true })
		s.stick(ctx, release.Canary, func(f *podFaults) { f.IgnoreSigterm = true })
	}
}

// turnOn sets a fault of all pods of the primary, and reports whether it was off.
func (s *saboteur) turnOn(on *bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := *on
	*on = true
	return !was
}

// breakPrimary gives the faults to the pods that are there. Later ones get them
// at birth.
func (s *saboteur) breakPrimary(ctx context.Context) {
	for _, p := range s.cluster.list() {
		s.apply(ctx, p.Name, p.Addr, p.Track, p.Version)
	}
}

// stick gives one ready pod of the track, the newest, a fault for ever.
func (s *saboteur) stick(ctx context.Context, t release.Track, set func(*podFaults)) {
	if s.stuck[t] {
		return
	}
	var victim Pod
	for _, p := range s.cluster.list() {
		if p.Track == t && p.Ready && !p.Leaving {
			victim = p
		}
	}
	if victim.Name == "" {
		return // none yet; the next change brings us back
	}
	s.stuck[t] = true
	s.mu.Lock()
	f := s.podMap[victim.Name]
	set(&f)
	s.podMap[victim.Name] = f
	s.mu.Unlock()
	s.log.Warn("fault: a pod is stuck", "pod", victim.Name, "neverReady", f.NeverReady, "ignoreSigterm", f.IgnoreSigterm)
	s.apply(ctx, victim.Name, victim.Addr, victim.Track, victim.Version)
}

// born gives a new process its pod's faults before it gets traffic.
func (s *saboteur) born(ctx context.Context, p *pod) {
	s.apply(ctx, p.name, p.addr, p.dep.track, p.set.template.version())
}

// apply tells a process what to do wrong, if anything.
func (s *saboteur) apply(ctx context.Context, name, addr string, t release.Track, version string) {
	s.mu.Lock()
	f := s.podMap[name]
	if t == release.Primary && version == faultVersion {
		if s.errors {
			f.ErrorRate = s.faults.ErrorsFrom.Rate
		}
		if s.slow {
			f.Latency = s.faults.SlowFrom.By.String()
		}
	}
	s.mu.Unlock()
	if f == (podFaults{}) || addr == "" {
		return
	}
	var err error
	for range 3 {
		if err = s.put(ctx, addr, f); err == nil || !sleep(ctx, 20*time.Millisecond) {
			return
		}
	}
	s.log.Warn("a fault could not be given to a pod", "pod", name, "error", err.Error())
}

func (s *saboteur) put(ctx context.Context, addr string, f podFaults) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+addr+"/admin/faults", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := s.cluster.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("PUT /admin/faults: %s", resp.Status)
	}
	return nil
}

// readInjected notes how many errors a pod has answered by now. A pod that does
// not answer keeps the last number.
func (c *cluster) readInjected(ctx context.Context, p *pod) {
	c.mu.Lock()
	addr := p.addr
	c.mu.Unlock()
	if addr == "" || c.cfg.Faults.ErrorsFrom.Share == 0 {
		return
	}
	n, err := c.countErrors(ctx, addr)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.addr == addr { // still the same process
		p.injected = max(p.injected, n)
	}
}

// countErrors asks an app how many requests it has answered with 500. It has no
// errors but those it is told to make.
func (c *cluster) countErrors(ctx context.Context, addr string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var n float64
	err := readMetrics(ctx, c.client, addr, func(m *model.Sample) {
		if m.Metric[model.MetricNameLabel] == "http_requests_total" && m.Metric["code"] == "500" {
			n += float64(m.Value)
		}
	})
	return n, err
}

// injectedErrors sums over the pods that live and those that are gone.
func (c *cluster) injectedErrors(ctx context.Context) int {
	c.mu.Lock()
	var pods []*pod
	for _, d := range c.deployments {
		pods = append(pods, d.pods...)
	}
	c.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range pods {
		wg.Go(func() { c.readInjected(ctx, p) })
	}
	wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.injected
	for _, d := range c.deployments {
		for _, p := range d.pods {
			sum += p.injected
		}
	}
	return int(sum)
}
