package sandbox_test

import (
	"context"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/sandbox"
)

func TestTheClientSeesWrittenWeightsAfterThePropagation(t *testing.T) {
	cfg := quick()
	cfg.RPS = 2 * rate // shares need numbers
	w := start(t, cfg)

	eventually(t, "the load runs", func() bool { return w.Report().Answered > 30 })
	if r := w.Report(); r.ByTrack[release.Primary] != 0 {
		t.Fatalf("at weight 0 the primary answered %d requests", r.ByTrack[release.Primary])
	}

	written := time.Now()
	split(t, w, 25)
	eventually(t, "the primary is shown", func() bool { return w.Report().ByTrack[release.Primary] > 0 })
	if took := time.Since(written); took < cfg.Propagation {
		t.Errorf("the weight was shown %v after it was written, the propagation takes %v", took, cfg.Propagation)
	}
	from := w.Report()
	eventually(t, "160 answers at 25 %", func() bool { return w.Report().Answered >= from.Answered+160 })
	to := w.Report()
	n := to.Answered - from.Answered
	share := 100 * float64(to.ByTrack[release.Primary]-from.ByTrack[release.Primary]) / float64(n)
	if within := 4 * 100 * math.Sqrt(0.25*0.75/float64(n)); math.Abs(share-25) > within {
		t.Errorf("the client saw %.1f %% on the primary over %d answers, want 25 within %.1f", share, n, within)
	}

	split(t, w, 100)
	shown := time.Now().Add(cfg.Propagation + 100*time.Millisecond)
	eventually(t, "a whole second at 100 %", func() bool {
		_, n := w.Report().Share(release.Primary, shown, time.Now().Add(-200*time.Millisecond))
		return n > 0
	})
	r := quiet(t, w)
	if share, n := r.Share(release.Primary, shown, time.Now()); share != 100 {
		t.Errorf("at 100 the client saw %.2f %% on the primary over %d answers", share, n)
	}
	nothingLost(t, r)
	if r.ByVersion["v2"] != r.Answered || r.ByTrack[0]+r.ByTrack[1] != r.Answered {
		t.Errorf("answers by version %v and by track %v do not add up to %d", r.ByVersion, r.ByTrack, r.Answered)
	}
}

func TestScaleDownUnderLoadLosesNothing(t *testing.T) {
	cfg := quick()
	cfg.RPS, cfg.Paths, cfg.Replicas = rate, []string{"/work?ms=60"}, 3
	w := start(t, cfg)
	eventually(t, "the load runs", func() bool { return w.Report().Answered > 30 })
	scale(t, w, release.Canary, 1)
	eventually(t, "two pods are gone", func() bool { return len(w.Endings()) == 2 })
	before := w.Report().Answered
	eventually(t, "the last pod serves alone", func() bool { return w.Report().Answered > before+30 })
	nothingLost(t, quiet(t, w))
	for _, e := range w.Endings() {
		if e.Killed || e.Took < cfg.LameDuck {
			t.Errorf("pod %s went within %v, killed: %v; the lame duck alone is %v", e.Pod, e.Took, e.Killed, cfg.LameDuck)
		}
	}
}

// Without a lame duck the same scale-down loses requests: the test above can
// fail, and nothing in this world hides a loss.
func TestScaleDownWithoutALameDuckIsSeenByTheClient(t *testing.T) {
	cfg := quick()
	cfg.RPS, cfg.Replicas = rate, 3
	cfg.LameDuck, cfg.EndpointLag = 0, time.Second
	w := start(t, cfg)
	eventually(t, "the load runs", func() bool { return w.Report().Answered > 30 })
	scale(t, w, release.Canary, 1)
	eventually(t, "requests are lost", func() bool { return w.Report().Lost() > 0 })
	r := quiet(t, w)
	if r.ByCode[http.StatusServiceUnavailable] != r.Lost() || len(r.Failures) == 0 || r.Failures[0].Pod == "" {
		t.Errorf("closed ports went unseen: %+v", r)
	}
}

func TestRollingUpdateUnderLoadLosesNothing(t *testing.T) {
	cfg := quick()
	cfg.RPS = rate
	w := start(t, cfg)
	split(t, w, 100)
	eventually(t, "the primary serves", func() bool { return w.Report().ByTrack[release.Primary] > 20 })

	b := bind(t, w).Tracks[release.Primary]
	undo(t, w)
	eventually(t, "the primary is all v1", func() bool {
		s := track(t, w, release.Primary)
		if s.Ready.Val < cfg.Replicas {
			t.Fatalf("%d pods are ready in the rolling update, none of %d may be unavailable", s.Ready.Val, cfg.Replicas)
		}
		if n := len(s.Pods.Val) - s.Leaving.Val; n > cfg.Replicas+1 {
			t.Fatalf("%d pods in the rolling update, the surge is 1 over %d", n, cfg.Replicas)
		}
		return s.Stale.Val == 0 && s.Leaving.Val == 0 && s.Ready.Val == cfg.Replicas
	})
	before := w.Report().ByVersion["v1"]
	eventually(t, "v1 serves", func() bool { return w.Report().ByVersion["v1"] > before+30 })
	nothingLost(t, quiet(t, w))

	h := track(t, w, release.Primary).History
	if len(h) != 2 || h[0].Hash != b.UndoTo.Hash || h[0].Revision != 3 || h[1].Revision != 2 || h[0].Images["app"] != "checkout:v1" {
		t.Errorf("after the undo the history is %+v", h)
	}
}

func TestAProcessThatIgnoresSIGTERMIsKilledAfterTheGrace(t *testing.T) {
	cfg := quick()
	cfg.Faults.StuckAt.Share = 50
	cfg.Grace = 2 * time.Second
	w := start(t, cfg)
	split(t, w, 50)
	scale(t, w, release.Canary, 0) // in the same breath, as the engine does
	eventually(t, "a primary pod is not ready", func() bool { return track(t, w, release.Primary).Ready.Val == 1 })
	s := track(t, w, release.Primary)
	if len(s.Trouble) != 1 || s.Trouble[0].Reason != "Unhealthy" || s.Trouble[0].Template != s.Template.Val.Hash || s.Endpoints.Val != 1 {
		t.Errorf("a pod that is not ready reads as %+v", s)
	}

	eventually(t, "both canary pods are gone", func() bool { return len(w.Endings()) == 2 })
	killed := 0
	for _, e := range w.Endings() {
		if e.Killed {
			killed++
		}
		if e.Killed != (e.Took >= cfg.Grace) || e.Killed != strings.Contains(e.Exit, "killed") {
			t.Errorf("pod %s went after %v: %s; killed: %v, the grace is %v", e.Pod, e.Took, e.Exit, e.Killed, cfg.Grace)
		}
	}
	if killed != 1 {
		t.Errorf("%d pods were killed, want 1", killed)
	}
	if n := track(t, w, release.Primary).Ready.Val; n != 1 {
		t.Errorf("%d primary pods are ready, one is to stay unready", n)
	}

	// The pod that is never ready is the first to go.
	scale(t, w, release.Primary, 1)
	eventually(t, "the well pod is left", func() bool {
		s := track(t, w, release.Primary)
		return len(s.Pods.Val) == 1 && s.Ready.Val == 1 && len(s.Trouble) == 0
	})
}

func TestInjectedErrorsAreCountedOnBothSides(t *testing.T) {
	cfg := quick()
	cfg.RPS = rate
	cfg.Faults.ErrorsFrom = sandbox.ErrorsFrom{Share: 50, Rate: 0.3}
	w := start(t, cfg)

	split(t, w, 25)
	eventually(t, "the primary serves", func() bool { return w.Report().ByTrack[release.Primary] > 10 })
	if r := w.Report(); r.Injected != 0 {
		t.Fatalf("%d errors before the share for them", r.Injected)
	}
	split(t, w, 50)
	eventually(t, "errors come", func() bool { return w.Report().Injected > 10 })

	// A pod that comes later is bad too; one that goes takes its count along.
	scale(t, w, release.Primary, 3)
	eventually(t, "three pods", func() bool { return track(t, w, release.Primary).Ready.Val == 3 })
	scale(t, w, release.Primary, 1)
	eventually(t, "one pod", func() bool { return len(track(t, w, release.Primary).Pods.Val) == 1 })
	before := quiet(t, w)
	sameInjected(t, w, before)

	// v1 is well.
	undo(t, w)
	eventually(t, "the primary is v1", func() bool {
		s := track(t, w, release.Primary)
		return s.Stale.Val == 0 && len(s.Pods.Val) == 1
	})
	noErr(t, w.SetRate(cfg.RPS))
	eventually(t, "v1 serves", func() bool { return w.Report().ByVersion["v1"] > 20 })
	after := quiet(t, w)
	if after.Injected != before.Injected {
		t.Errorf("v1 made %d errors", after.Injected-before.Injected)
	}
	sameInjected(t, w, after)
	nothingLost(t, after)
}

func TestThePrimaryAnswersLaterFromAShareOn(t *testing.T) {
	cfg := quick()
	cfg.RPS = rate
	cfg.Faults.SlowFrom = sandbox.SlowFrom{Share: 50, By: 150 * time.Millisecond}
	w := start(t, cfg)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	// The quickest of some answers: a busy machine makes single ones slow.
	took := func(tr release.Track) time.Duration {
		quickest := time.Hour
		for n := 0; n < 5; {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.ProxyURL()+"/work?ms=1", nil)
			noErr(t, err)
			began := time.Now()
			resp, err := client.Do(req)
			noErr(t, err)
			noErr(t, resp.Body.Close())
			if resp.Header.Get("X-Track") == tr.String() {
				quickest = min(quickest, time.Since(began))
				n++
			}
		}
		return quickest
	}
	split(t, w, 25)
	eventually(t, "the primary serves", func() bool { return w.Report().ByTrack[release.Primary] > 5 })
	if d := took(release.Primary); d >= cfg.Faults.SlowFrom.By {
		t.Fatalf("before the share for it an answer took %s", d)
	}
	split(t, w, 50)
	eventually(t, "the primary is slow", func() bool { return took(release.Primary) >= cfg.Faults.SlowFrom.By })
	if d := took(release.Canary); d >= cfg.Faults.SlowFrom.By {
		t.Errorf("an answer of the canary took %s", d)
	}
	nothingLost(t, quiet(t, w))
}

func sameInjected(t *testing.T, w *sandbox.World, r sandbox.Report) {
	t.Helper()
	if n := w.Injected(t.Context()); n != r.Injected || n == 0 {
		t.Errorf("the apps count %d errors, the client %d", n, r.Injected)
	}
	if r.Failed != r.Injected {
		t.Errorf("%d failed, %d of them on purpose: %+v", r.Failed, r.Injected, r.Failures)
	}
}

func TestTheLoadStopsAtAShare(t *testing.T) {
	cfg := quick()
	cfg.RPS = rate
	cfg.Faults.LoadStopsAt.Share = 25
	w := start(t, cfg)
	split(t, w, 10)
	eventually(t, "the load runs", func() bool { return w.Report().ByTrack[release.Primary] > 3 })
	split(t, w, 25)
	written := time.Now()
	eventually(t, "the load stops", func() bool {
		r := w.Report()
		last := r.Timeline[len(r.Timeline)-1].At.Add(time.Second)
		return r.InFlight == 0 && time.Since(last) > 100*time.Millisecond
	})
	if took := time.Since(written); took > 10*time.Second {
		t.Errorf("the load stopped %v after the share was written", took)
	}
	nothingLost(t, w.Report())
}

func TestACrashedProcessComesBackInTheSamePod(t *testing.T) {
	w := start(t, quick())
	victim := w.Pods()[0]
	noErr(t, syscall.Kill(victim.PID, syscall.SIGKILL))
	eventually(t, "the pod is down", func() bool { return !w.Pods()[0].Ready })
	eventually(t, "the pod is back", func() bool {
		p := w.Pods()[0]
		return p.Ready && p.PID != victim.PID && p.Name == victim.Name
	})
	if s := track(t, w, release.Primary); len(s.Trouble) != 0 {
		t.Errorf("a pod that is back is still in trouble: %+v", s.Trouble)
	}
}

func TestAnotherWriterDeploys(t *testing.T) {
	w := start(t, quick())
	b := bind(t, w).Tracks[release.Primary]
	w.Deploy(release.Primary, "v3")
	eventually(t, "the primary is v3", func() bool {
		s := track(t, w, release.Primary)
		return s.Stale.Val == 0 && s.Ready.Val == 2 && s.Template.Val.Images["app"] == "checkout:v3" && s.Template.Val.Revision == 3
	})
	if undo := bind(t, w).Tracks[release.Primary].UndoTo; undo == nil || undo.Hash != b.Template.Hash {
		t.Errorf("the undo of v3 leads to %+v, want v2", undo)
	}
	if undo := bind(t, w).Tracks[release.Canary].UndoTo; undo != nil {
		t.Errorf("the canary has no history, its undo leads to %+v", undo)
	}
}

func TestStopEndsAWorldUnderLoad(t *testing.T) {
	cfg := quick()
	cfg.RPS, cfg.Paths = rate, []string{"/work?ms=30000"}
	w := start(t, cfg)
	eventually(t, "requests hang", func() bool { return w.Report().InFlight > 20 })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	w.Stop(ctx)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Stop took %v", took)
	}
	if r := w.Report(); r.InFlight != 0 || r.Failed != r.Sent || r.Unsent != 0 {
		t.Errorf("hanging requests that were cut must count as failed: %+v", r)
	}
	w.Stop(ctx) // may be called again
	if err := w.Start(t.Context()); err == nil {
		t.Error("a stopped world was started")
	}
	if err := w.Workloads().Scale(t.Context(), release.Scale{}); err == nil {
		t.Error("a stopped world was scaled")
	}
}

func TestBadConfigurationIsExplained(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		change func(*sandbox.Config)
		want   []string
	}{
		"no app":        {func(c *sandbox.Config) { c.App = "" }, []string{"no app", "go build"}},
		"missing app":   {func(c *sandbox.Config) { c.App = filepath.Join(dir, "go-api") }, []string{dir, "does not exist", "go build"}},
		"not a program": {func(c *sandbox.Config) { c.App = dir }, []string{dir, "not an executable"}},
		"rps":           {func(c *sandbox.Config) { c.RPS = math.NaN() }, []string{"NaN", "0 to 5000"}},
		"replicas":      {func(c *sandbox.Config) { c.Replicas = 0 }, []string{"Replicas", "1 to 50"}},
		"scrape":        {func(c *sandbox.Config) { c.Scrape = 0 }, []string{"Scrape", "at least"}},
		"lame duck":     {func(c *sandbox.Config) { c.LameDuck = c.EndpointLag }, []string{"LameDuck", "EndpointLag"}},
		"grace":         {func(c *sandbox.Config) { c.Grace = c.LameDuck }, []string{"Grace", "LameDuck"}},
		"rate of errors": {
			func(c *sandbox.Config) { c.Faults.ErrorsFrom = sandbox.ErrorsFrom{Share: 50, Rate: 5} },
			[]string{"error rate", "0 to 1"},
		},
		"slowness": {
			func(c *sandbox.Config) { c.Faults.SlowFrom = sandbox.SlowFrom{Share: 50, By: time.Minute} },
			[]string{"1m0s", "0 to 5s"},
		},
		"paths":            {func(c *sandbox.Config) { c.Paths = nil }, []string{"Paths"}},
		"share of a fault": {func(c *sandbox.Config) { c.Faults.StuckAt.Share = 101 }, []string{"101", "0 to 100"}},
		"outage": {
			func(c *sandbox.Config) { c.Faults.Telemetry = sandbox.Telemetry{Outage: time.Second} },
			[]string{"outage", "shorter"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := quick()
			tc.change(&cfg)
			_, err := sandbox.New(cfg)
			wantText(t, err, tc.want...)
		})
	}
}

func TestABusyPortIsExplained(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	defer taken.Close()
	cfg := quick()
	cfg.ListenProm = taken.Addr().String()
	w, err := sandbox.New(cfg)
	noErr(t, err)
	wantText(t, w.Start(t.Context()), "Prometheus API", cfg.ListenProm, "ListenProm", "port 0")
	stop(t, w)
}

func TestAnAppThatDoesNotListenIsExplained(t *testing.T) {
	cfg := quick()
	cfg.App = "/bin/false"
	w, err := sandbox.New(cfg)
	noErr(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	wantText(t, w.Start(ctx), "0 of 4 pods are ready", "CrashLoopBackOff", "exit status 1")
	stop(t, w)
}

func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func TestAnyClientMayUseTheProxy(t *testing.T) {
	w := start(t, quick())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(w.ProxyURL()+"/", "text/plain", strings.NewReader("a body"))
	noErr(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Track") != "canary" || resp.Header.Get("X-Version") != "v2" || resp.Header.Get("X-Pod") == "" {
		t.Errorf("POST / was answered %s with %v", resp.Status, resp.Header)
	}
}
