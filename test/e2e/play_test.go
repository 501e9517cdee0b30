//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// rps is the load of every scenario.
const rps = 200

// stage is one scenario's part of the cluster, with a client that sends, a
// shifter, and somebody who looks on.
type stage struct {
	t       *testing.T
	name    string // of the scenario, and of its release
	kind    routeKind
	ns, own string // namespaces of the scene and of shifter's records
	client  client
	seen    *history

	running atomic.Pointer[process]

	began, posted, over time.Time

	// What all saw, once it has ended.
	release release
	traffic traffic
	calls   []call
	retries float64
}

// play sets the stage: when it returns, traffic has flown for long enough that
// telemetry knows of it.
func play(t *testing.T, name string, kind routeKind, change ...func(t *testing.T, tracks string) string) *stage {
	t.Helper()
	return playIn(t, name, kind, func(ns string) { scene(t, ns, kind, change...) })
}

// playIn sets the stage in a scene of one's own.
func playIn(t *testing.T, name string, kind routeKind, scene func(ns string)) *stage {
	t.Helper()
	s := &stage{
		t: t, name: name, kind: kind, ns: "e2e-" + name, own: "shifter-" + name,
		client: client{"e2e-" + name}, began: time.Now(),
	}
	namespace(t, s.ns)
	namespace(t, s.own)
	t.Cleanup(s.tellIfFailed)
	scene(s.ns)
	s.client.send(t, rps)
	sending := time.Now()
	s.startShifter()
	s.seen = observe(t, s.ns, kind)
	const telemetry = 15 * time.Second
	if left := telemetry - time.Since(sending); left > 0 {
		pause(t, left)
	}
	return s
}

func (s *stage) startShifter() {
	s.t.Helper()
	s.running.Store(start(s.t, house{name: s.name, own: s.own, kubeconfig: suite.kubeconfig, prometheus: suite.prometheus}))
}

func (s *stage) shifter() *process { return s.running.Load() }

// post asks for the release, and has it looked at from then on.
func (s *stage) post() {
	s.t.Helper()
	s.postAs(s.kind.request(s.name))
}

// postAs asks for a release in other words.
func (s *stage) postAs(q request) {
	s.t.Helper()
	s.posted = time.Now()
	code, body, err := s.shifter().call(s.t.Context(), "POST", releasesOf(s.ns), q)
	if err != nil || code != http.StatusAccepted {
		s.t.Fatalf("POST of the release: %d %s %v", code, body, err)
	}
	s.seen.look(s.t, s.shifter, s.ns, s.name)
}

// abort asks for the end of the release, with the traffic back.
func (s *stage) abort(mode string) {
	s.t.Helper()
	wish := map[string]string{"traffic": "back", "mode": mode, "reason": "a test wants it"}
	code, body, err := s.shifter().call(s.t.Context(), "POST", releasesOf(s.ns)+"/"+s.name+"/abort", wish)
	if err != nil || code != http.StatusAccepted {
		s.t.Fatalf("POST of the abort: %d %s %v", code, body, err)
	}
}

// untilRelease waits until the release is as wanted; one that has ended will not
// become so.
func (s *stage) untilRelease(limit time.Duration, what string, is func(release) bool) {
	s.t.Helper()
	until(s.t, limit, what, func(context.Context) (bool, string) {
		r, trouble := s.seen.now()
		if is(r) {
			return true, ""
		}
		saw := fmt.Sprintf("%s (%s) %s %s", r.Status.Phase, r.Status.Reason, r.Status.Message, trouble)
		if r.Status.ended() {
			s.t.Fatalf("the release has ended while waiting for: %s; it is %s", what, saw)
		}
		if s.shifter().over() {
			s.t.Fatalf("shifter has ended while waiting for: %s", what)
		}
		return false, saw
	})
}

// untilShown waits until the data plane shows a step.
func (s *stage) untilShown(share float64) {
	s.t.Helper()
	s.untilRelease(5*time.Minute, fmt.Sprintf("step %g, shown", share), func(r release) bool {
		i := slices.IndexFunc(r.Steps, func(st step) bool { return st.Share == share })
		return i >= 0 && r.Steps[i].Shown != nil
	})
}

// untilDeclared waits until the API server has a share of the primary.
func (s *stage) untilDeclared(share int) {
	s.t.Helper()
	s.untilRelease(5*time.Minute, fmt.Sprintf("a weight of %d on the primary", share), func(release) bool { return s.seen.route().onPrimary == share })
}

// misbehave sets the faults of every pod that the primary has now.
func (s *stage) misbehave(faults map[string]any) {
	s.t.Helper()
	misbehave(s.t, s.ns, primary, faults)
}

// long has the client keep long requests in flight, beside the others.
func (s *stage) long(n, ms int) {
	s.t.Helper()
	if err := s.client.do(s.t.Context(), "POST", "/long", fmt.Sprintf(`{"n":%d,"ms":%d}`, n, ms), nil); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for the end of the release, gathers what everybody saw, and reports
// it. What holds for every release, however it ends, is checked here.
func (s *stage) end() {
	s.t.Helper()
	until(s.t, 8*time.Minute, "the end of the release", func(context.Context) (bool, string) {
		r, trouble := s.seen.now()
		if s.shifter().over() {
			s.t.Fatal("shifter has ended before the release")
		}
		return r.Status.ended(), fmt.Sprintf("%s (%s) %s %s", r.Status.Phase, r.Status.Reason, r.Status.Message, trouble)
	})
	s.release, _ = s.seen.now()
	s.over = time.Now()
	s.traffic = s.client.rest(s.t)
	s.seen.catchUp(s.t, s.ns, s.kind)
	s.calls = callsOf(s.t, s.posted, s.over, s.ns, s.own)
	s.retries = retriesOf(s.t, s.ns, time.Now())
	s.report()

	s.wantPodsForEveryShare()
	if s.retries != 0 {
		s.t.Errorf("the proxies sent %g requests again; want none", s.retries)
	}
	if n := len(s.seen.route().labels[progressLabel]); n > 0 {
		s.t.Errorf("the route still says that release %q is in progress", s.seen.route().labels[progressLabel])
	}
	if by := s.seen.route().annotations[releaseAnnotation]; by != s.ns+"/"+s.name {
		s.t.Errorf("the route's annotation %s is %q; want %s/%s", releaseAnnotation, by, s.ns, s.name)
	}
	if s.epoch() == 0 {
		s.t.Error("the route has no epoch, which would fence off an older shifter")
	}
}

// tellIfFailed prints what helps to understand a failure, while it is there.
func (s *stage) tellIfFailed() {
	if !s.t.Failed() {
		return
	}
	ctx, cancel := lately(s.t, time.Minute)
	defer cancel()
	if s.seen != nil {
		s.seen.mu.Lock()
		s.t.Logf("the release: %s\n%s", s.seen.raw, s.seen.trouble)
		s.seen.mu.Unlock()
	}
	if r, err := s.client.report(ctx); err == nil {
		for name, c := range map[string]counts{"paced": r.Paced, "long": r.Long} {
			c.Timeline = nil
			s.t.Logf("the client, %s: %s", name, jsonOf(c))
		}
	}
	for _, args := range [][]string{
		{"get", "pods,deployments,replicasets", "-o", "wide"},
		{"get", s.kind.resource, "checkout", "-o", "yaml"},
		{"get", "events", "--sort-by=.lastTimestamp"},
	} {
		out, err := suite.kube(ctx, "", append([]string{"-n", s.ns}, args...)...)
		s.t.Logf("kubectl %v: %v\n%s", args, err, out)
	}
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
