package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// scene is one namespace with the sample API, a route and a client.
type scene struct {
	lab
	ns, kind string
	rps      float64
	span     time.Duration
	out      io.Writer
	hit      string // URL of the client's control API
}

// tracks are the Deployments, as the client names them by their pods.
const primary, canary = "checkout", "checkout-canary"

// counts is what is read of the client's report.
type counts struct {
	Sent       int64            `json:"sent"`
	Answered   int64            `json:"answered"`
	Failed     int64            `json:"failed"`
	InFlight   int64            `json:"inFlight"`
	Missed     int64            `json:"missed"`
	Injected   int64            `json:"injected"`
	Bad        int64            `json:"bad"`
	ByWorkload map[string]int64 `json:"byWorkload"`
	MeanMS     float64          `json:"meanMs"`
	MaxMS      float64          `json:"maxMs"`
}

func (s *scene) check(ctx context.Context) error {
	ip, err := s.kube(ctx, "get", "-n", s.ns, "service", "hit", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		return err
	}
	s.hit = "http://" + ip
	for _, share := range []int64{0, 25, 100} {
		if err := s.at(ctx, share); err != nil {
			return fmt.Errorf("with %d %% on %s: %w", share, primary, err)
		}
	}
	return nil
}

// at gives the primary a share and sends traffic for a while.
func (s *scene) at(ctx context.Context, share int64) error {
	if err := s.weigh(ctx, share); err != nil {
		return err
	}
	// Proxies follow within a fifth of a second; this is no test of when.
	if err := wait(ctx, 2*time.Second); err != nil {
		return err
	}
	before, err := s.counters(ctx)
	if err != nil {
		return err
	}
	seen, err := s.traffic(ctx)
	if err != nil {
		return err
	}
	// Two scrapes and a flush of the proxy's counters.
	if err := wait(ctx, 6*time.Second); err != nil {
		return err
	}
	after, err := s.counters(ctx)
	if err != nil {
		return err
	}
	part := 100 * float64(seen.ByWorkload[primary]) / float64(seen.Answered)
	fmt.Fprintf(s.out, "%s: weight %3d, client %6.2f %% of %d answers, mean %.1f ms, max %.0f ms\n",
		s.kind, share, part, seen.Answered, seen.MeanMS, seen.MaxMS)
	return errors.Join(judgeClient(seen, share), judgeProxy(seen, before, after))
}

// weigh writes the weights. A merge patch needs no knowledge of what is there.
func (s *scene) weigh(ctx context.Context, share int64) error {
	resource, patch := "httproute", fmt.Sprintf(
		`{"spec":{"rules":[{"name":"main","backendRefs":[{"name":"checkout","port":80,"weight":%d},{"name":"checkout-canary","port":80,"weight":%d}]}]}}`,
		share, 100-share)
	if s.kind == "virtualservice" {
		resource, patch = s.kind, fmt.Sprintf(
			`{"spec":{"http":[{"name":"main","route":[{"destination":{"host":"checkout","subset":"primary","port":{"number":80}},"weight":%d},`+
				`{"destination":{"host":"checkout","subset":"canary","port":{"number":80}},"weight":%d}]}]}}`,
			share, 100-share)
	}
	_, err := s.kube(ctx, "patch", "-n", s.ns, resource, "checkout", "--type=merge", "-p", patch)
	return err
}

// traffic has the client send for a while, and waits for the last answer.
func (s *scene) traffic(ctx context.Context) (counts, error) {
	var report struct {
		Paced counts `json:"paced"`
	}
	if err := call(ctx, "POST", s.hit+"/reset", "", nil); err != nil {
		return counts{}, err
	}
	if err := call(ctx, "POST", s.hit+"/rate", fmt.Sprintf(`{"rps":%g}`, s.rps), nil); err != nil {
		return counts{}, err
	}
	slept := wait(ctx, s.span)
	if err := errors.Join(slept, call(context.WithoutCancel(ctx), "POST", s.hit+"/rate", `{"rps":0}`, nil)); err != nil {
		return counts{}, err
	}
	for {
		if err := call(ctx, "GET", s.hit+"/report", "", &report); err != nil || report.Paced.InFlight == 0 {
			return report.Paced, err
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return counts{}, err
		}
	}
}

// counters reads what the gateway's proxy has counted: requests begun, ended
// and sent again, by backend. Raw values: a series is born with its first
// request, and increase() does not see what it is born with.
func (s *scene) counters(ctx context.Context) (map[string]int64, error) {
	all := map[string]int64{}
	for _, name := range []string{"total", "completed", "retry"} {
		expr := fmt.Sprintf(`envoy_cluster_upstream_rq_%s{namespace=%q,gateway="gw",cluster_name=~"outbound.*"}`, name, s.ns)
		values, err := s.query(ctx, expr, "cluster_name")
		if err != nil {
			return nil, err
		}
		for cluster, n := range values {
			all[name+" "+track(cluster)] += n
		}
	}
	return all, nil
}

// track names the Deployment behind Envoy's name for a backend:
// outbound|80||checkout-canary.NS.svc.cluster.local, or with a subset
// outbound|80|canary|checkout.NS.svc.cluster.local.
func track(cluster string) string {
	if parts := strings.Split(cluster, "|"); len(parts) == 4 {
		if strings.HasPrefix(parts[3], canary+".") || parts[2] == "canary" {
			return canary
		}
	}
	return primary
}

// judgeClient asks for no failure, and for the share within four standard
// errors: one true lab in 16,000 fails.
func judgeClient(seen counts, share int64) error {
	var errs []error
	if lost := seen.Failed + seen.Bad + seen.Injected + seen.Missed; lost != 0 || seen.Sent == 0 || seen.Answered != seen.Sent {
		errs = append(errs, fmt.Errorf("the client lost requests: %+v", seen))
	}
	want, n := float64(share)/100, float64(seen.Answered)
	got := float64(seen.ByWorkload[primary]) / n
	if off := math.Abs(got - want); !(off <= 4*math.Sqrt(want*(1-want)/n)) {
		errs = append(errs, fmt.Errorf("the client saw a share of %.4f, which is no %.2f", got, want))
	}
	return errors.Join(errs...)
}

// judgeProxy asks for the same numbers from the proxy as from the client.
func judgeProxy(seen counts, before, after map[string]int64) error {
	want := map[string]int64{"retry " + primary: 0, "retry " + canary: 0}
	for _, t := range []string{primary, canary} {
		want["total "+t], want["completed "+t] = seen.ByWorkload[t], seen.ByWorkload[t]
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got := after[name] - before[name]; got != want[name] {
			errs = append(errs, fmt.Errorf("upstream_rq_%s rose by %d, the client says %d", name, got, want[name]))
		}
	}
	return errors.Join(errs...)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
