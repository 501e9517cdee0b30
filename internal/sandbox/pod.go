package sandbox

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// pod is one pod, with the process that runs in it. The cluster's lock guards
// what follows leave.
type pod struct {
	name   string
	number int
	dep    *deployment
	set    *replicaSet
	leave  chan struct{} // closed when the pod is removed

	leaving  bool
	ready    bool
	addr     string
	pid      int
	misses   int // failed probes in a row
	restarts int
	trouble  string // Kubernetes' own word, empty when well
	message  string
	injected float64 // errors that the present process has answered
}

func newPod(d *deployment, s *replicaSet, number int) *pod {
	return &pod{
		name:   fmt.Sprintf("%s-%s-%s", d.name, s.hash, podSuffix()),
		number: number,
		dep:    d,
		set:    s,
		leave:  make(chan struct{}),
	}
}

const (
	startTimeout  = 10 * time.Second
	probeTimeout  = 2 * time.Second
	readTimeout   = 5 * time.Second
	failedProbes  = 3 // in a row, as Kubernetes' failureThreshold
	firstBackOff  = 250 * time.Millisecond
	longerBackOff = 10 * time.Second
)

// runPod runs the pod's process, and runs it again when it ends by itself.
func (c *cluster) runPod(ctx context.Context, p *pod) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for backOff := firstBackOff; ; backOff = min(2*backOff, longerBackOff) {
		err := c.runOnce(ctx, p)
		if err == nil {
			return
		}
		c.log.Warn("a pod's process is not running", "pod", p.name, "error", err.Error())
		c.crashed(p, err)
		if !p.waitStaying(ctx, backOff) {
			return
		}
	}
}

// waitStaying waits for d and reports false when the pod was removed first.
func (p *pod) waitStaying(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.leave:
	case <-ctx.Done():
	}
	return false
}

// runOnce runs one process to its end. It returns nil when the pod was removed,
// and otherwise why the process is gone.
func (c *cluster) runOnce(ctx context.Context, p *pod) error {
	proc, err := c.startPod(ctx, p)
	if proc == nil {
		return err
	}
	c.born(ctx, p)
	for staying := true; staying; staying = p.waitTick(ctx, proc, c.cfg.Probe) {
		c.probe(ctx, p)
	}
	select {
	case <-proc.done:
		return fmt.Errorf("it ended by itself: %s: %s", proc.exit(), proc.lines.tail())
	case <-ctx.Done():
		proc.kill()
	default:
		c.terminate(ctx, p, proc)
	}
	return nil
}

// waitTick waits for the next probe and reports false when there is none.
func (p *pod) waitTick(ctx context.Context, proc *process, d time.Duration) bool {
	select {
	case <-proc.done:
		return false
	case <-p.leave:
		return false
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-proc.done:
	case <-p.leave:
	case <-ctx.Done():
	}
	return false
}

// startPod waits for its turn, starts the process and waits until it listens.
// It returns nothing when the pod was removed meanwhile.
func (c *cluster) startPod(ctx context.Context, p *pod) (*process, error) {
	select {
	case c.starts <- struct{}{}:
		defer func() { <-c.starts }()
	case <-p.leave:
		return nil, nil
	case <-ctx.Done():
		return nil, nil
	}
	proc, err := startProcess(c.cfg.App, c.args(p), []string{"POD_NAME=" + p.name})
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case addr := <-proc.lines.listening:
		c.update(p, func() { p.addr, p.pid, p.misses, p.injected = addr, proc.pid(), 0, 0 })
		c.log.Debug("a pod's process listens", "pod", p.name, "addr", addr, "pid", proc.pid())
		return proc, nil
	case <-proc.done:
		return nil, fmt.Errorf("it ended before it listened: %s: %s", proc.exit(), proc.lines.tail())
	case <-timer.C:
		err = fmt.Errorf("it named no address in %v: %s", startTimeout, proc.lines.tail())
	case <-p.leave:
	case <-ctx.Done():
	}
	proc.kill()
	return nil, err
}

func (c *cluster) args(p *pod) []string {
	return []string{
		"--listen", "127.0.0.1:0",
		"--version-name", p.set.template.version(),
		"--lame-duck", c.cfg.LameDuck.String(),
		// Together shorter than the grace period, so that the app ends by itself.
		"--shutdown-timeout", ((c.cfg.Grace - c.cfg.LameDuck) * 9 / 10).String(),
		"--admin",
	}
}

// probe asks the readiness question once. One good answer makes a pod ready,
// failedProbes bad ones in a row make it unready.
func (c *cluster) probe(ctx context.Context, p *pod) {
	_, err := c.ask(ctx, "http://"+p.addr+"/readyz")
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := p.ready
	if err == nil {
		p.ready, p.misses, p.trouble, p.message = true, 0, "", ""
	} else if p.misses++; p.misses >= failedProbes {
		p.ready, p.trouble = false, "Unhealthy"
		p.message = "readiness probe failed: " + err.Error()
	}
	if before != p.ready || p.misses == failedProbes {
		c.log.Info("a pod's readiness changed", "pod", p.name, "ready", p.ready, "why", p.message)
		c.reconcile(p.dep)
	}
}

// ask GETs a small page; anything but 200 is an error.
func (c *cluster) ask(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%d %s", resp.StatusCode, firstLine(body))
	}
	return string(body), nil
}

func (c *cluster) crashed(p *pod, err error) {
	c.update(p, func() {
		p.ready, p.addr, p.pid = false, "", 0
		c.injected, p.injected = c.injected+p.injected, 0
		p.restarts++
		p.trouble, p.message = "CrashLoopBackOff", err.Error()
	})
}

// terminate does what the kubelet does: SIGTERM, the grace period, SIGKILL. The
// pod's counters are read to the last.
func (c *cluster) terminate(ctx context.Context, p *pod, proc *process) {
	began := time.Now()
	proc.term()
	grace := time.NewTimer(c.cfg.Grace)
	defer grace.Stop()
	tick := time.NewTicker(c.cfg.Probe)
	defer tick.Stop()
	reads, cancel := context.WithDeadline(ctx, began.Add(c.cfg.Grace))
	defer cancel()
	killed := false
	for over := false; !over; {
		select {
		case <-tick.C:
			c.readInjected(reads, p)
		case <-grace.C:
			c.log.Warn("a pod's process ignored SIGTERM: SIGKILL", "pod", p.name, "grace", c.cfg.Grace)
			killed, over = true, true
		case <-ctx.Done():
			over = true
		case <-proc.done:
			over = true
		}
	}
	proc.kill()
	c.ended(p, Ending{
		Pod: p.name, Track: p.dep.track, Killed: killed,
		Took: time.Since(began), Exit: proc.exit(),
	})
}

func (c *cluster) ended(p *pod, e Ending) {
	c.log.Info("a pod is gone", "pod", p.name, "killed", e.Killed, "took", e.Took.Round(time.Millisecond), "exit", e.Exit)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endings = append(c.endings, e)
	c.injected, p.injected = c.injected+p.injected, 0
}

// trouble lists what keeps a Deployment's pods from being ready.
func (d *deployment) trouble() []release.Trouble {
	var out []release.Trouble
	for _, p := range d.pods {
		if p.trouble == "" || p.leaving {
			continue
		}
		out = append(out, release.Trouble{
			Kind: release.TroubleRetryable, Reason: p.trouble, Message: p.message,
			Pod: p.name, Template: p.set.hash,
		})
	}
	return out
}

func firstLine(b []byte) string {
	for i, c := range b {
		if c == '\n' {
			return string(b[:i])
		}
	}
	return string(b)
}
