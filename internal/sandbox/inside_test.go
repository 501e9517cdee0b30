package sandbox

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"pgregory.net/rapid"

	"github.com/shifter-dev/shifter/internal/release"
)

// hangUp closes the connection, without a word, on every second request: what a
// process does that ends badly.
func hangUp(requests *atomic.Int64) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%2 == 1 {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			conn.Close()
		}
	}))
}

// proxyTo is a proxy that sends everything to a canary at an address.
func proxyTo(url string) *proxy {
	ends := [2]*lagged[[]endpoint]{
		newLagged[[]endpoint](0, nil),
		newLagged(0, []endpoint{{pod: "p", addr: strings.TrimPrefix(url, "http://")}}),
	}
	return newProxy(Defaults(), slog.New(slog.DiscardHandler), newLagged(0, release.Pair{Canary: 100}), ends)
}

func wantMetrics(t *testing.T, p *proxy, lines ...string) {
	t.Helper()
	rec := httptest.NewRecorder()
	p.metrics.handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range lines {
		if !strings.Contains(rec.Body.String(), line+"\n") {
			t.Errorf("the proxy's metrics do not have %s:\n%s", line, rec.Body)
		}
	}
}

func TestTheProxySendsARequestAtMostOnce(t *testing.T) {
	var requests atomic.Int64
	upstream := hangUp(&requests)
	defer upstream.Close()
	p := proxyTo(upstream.URL)
	defer p.close()
	var codes []int
	for range 4 {
		rec := httptest.NewRecorder()
		p.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
		codes = append(codes, rec.Code)
	}
	if want := []int{200, 503, 200, 503}; !slices.Equal(codes, want) || requests.Load() != 4 {
		t.Errorf("4 requests became %d, answered %v; want each once, answered %v", requests.Load(), codes, want)
	}
	wantMetrics(t, p,
		`sandbox_proxy_requests_started_total{backend="demo/checkout-canary"} 4`,
		`sandbox_proxy_requests_total{backend="demo/checkout-canary",code="503"} 2`,
		`sandbox_proxy_requests_active{backend="demo/checkout-canary"} 0`,
		`sandbox_proxy_requests_started_total{backend="demo/checkout"} 0`,
	)
}

func TestNoEndpointIs503AndABrokenAnswerIsAFailure(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
	}))
	defer upstream.Close()
	p := proxyTo(upstream.URL)
	defer p.close()
	front := httptest.NewServer(p)
	defer front.Close()
	l := newLoad(Defaults())
	defer l.finish(t.Context())
	l.url = front.URL

	if o := l.send("/work"); o.err == nil || !o.failed() {
		t.Errorf("of a broken answer the client saw %+v", o)
	}
	p.weights.set(release.Pair{Primary: 100})
	if o := l.send("/work"); o.code != http.StatusServiceUnavailable || o.track != "primary" || !o.failed() {
		t.Errorf("without an endpoint the client saw %+v", o)
	}
	front.Close() // waits for the handlers
	wantMetrics(t, p,
		`sandbox_proxy_requests_total{backend="demo/checkout-canary",code="502"} 1`,
		`sandbox_proxy_requests_total{backend="demo/checkout",code="503"} 1`,
	)
}

func TestTheLoadGeneratorSendsARequestAtMostOnce(t *testing.T) {
	var requests atomic.Int64
	upstream := hangUp(&requests)
	defer upstream.Close()
	l := newLoad(Defaults())
	defer l.finish(t.Context())
	l.url = upstream.URL
	failed := 0
	for range 4 {
		if l.send("/work").failed() {
			failed++
		}
	}
	if failed != 2 || requests.Load() != 4 {
		t.Errorf("of 4 requests %d failed and %d arrived, want 2 and 4", failed, requests.Load())
	}
}

func TestTheTallyKeepsSecondsInOrder(t *testing.T) {
	ty := newTally()
	began := time.Unix(1000, 0)
	for _, sec := range []int{0, 1, 2, 1, 5} { // answers come late
		at := began.Add(time.Duration(sec)*time.Second + 300*time.Millisecond)
		ty.sent(at)
		ty.answered(at, outcome{code: 200, track: map[bool]string{true: "primary", false: "canary"}[sec == 1]})
	}
	r := ty.report()
	var secs []int
	for _, s := range r.Timeline {
		secs = append(secs, int(s.At.Sub(began).Seconds()))
	}
	if !slices.Equal(secs, []int{0, 1, 2, 5}) || r.Timeline[1].Sent != 2 || r.Timeline[1].ByTrack[release.Primary] != 2 {
		t.Errorf("the timeline is %+v", r.Timeline)
	}
	if share, n := r.Share(release.Primary, began.Add(time.Second), began.Add(3*time.Second)); n != 3 || share < 66 || share > 67 {
		t.Errorf("2 of 3 answers are %v %% of %d", share, n)
	}
	if _, n := r.Share(release.Primary, began.Add(100*time.Millisecond), began.Add(900*time.Millisecond)); n != 0 {
		t.Errorf("parts of seconds count %d answers", n)
	}
}

func TestALaggedValueIsSeenLater(t *testing.T) {
	l := newLagged(50*time.Millisecond, 0)
	l.set(1)
	l.set(2)
	began := time.Now()
	if l.get() != 0 {
		t.Error("a value was seen at once")
	}
	for l.get() != 2 {
		if time.Since(began) > 5*time.Second {
			t.Fatal("a value was never seen")
		}
		time.Sleep(time.Millisecond)
	}
	if took := time.Since(began); took < 45*time.Millisecond {
		t.Errorf("a value was seen after %v", took)
	}
}

func TestOutagesAlternate(t *testing.T) {
	began := time.Unix(1000, 0)
	a := &promAPI{faults: Telemetry{Outage: 10 * time.Second, Every: 30 * time.Second}, began: began}
	for sec, want := range map[int]string{
		0: "well", 19: "well", 20: "down since 20", 29: "down since 20", 30: "well", 49: "well",
		50: "stale since 50", 59: "stale since 50", 60: "well", 80: "down since 80", 110: "stale since 110",
	} {
		down, stale, since := a.outage(began.Add(time.Duration(sec) * time.Second))
		got := "well"
		if down != stale {
			got = map[bool]string{true: "down", false: "stale"}[down] + fmt.Sprintf(" since %d", int(since.Sub(began).Seconds()))
		}
		if got != want || down && stale {
			t.Errorf("after %d s the API is %s, want %s", sec, got, want)
		}
	}
}

func TestTemplatesAreNamedByWhatTheySay(t *testing.T) {
	seen := map[string]string{}
	for _, tr := range []release.Track{release.Primary, release.Canary} {
		for _, v := range []string{"v1", "v2"} {
			h := newTemplate(tr, v).hash()
			if other := seen[h]; other != "" || h == "" {
				t.Errorf("%s %s and %s have the hash %q", tr, v, other, h)
			}
			seen[h] = tr.String() + " " + v
			if h != newTemplate(tr, v).hash() {
				t.Errorf("the hash of %s %s is not always the same", tr, v)
			}
		}
	}
}

// The controller is played against random pods: it keeps its bounds at every
// step and arrives.
func TestTheRollingUpdateKeepsItsBoundsAndArrives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := BothNew.deployment(release.Primary)
		d.replicas = rapid.IntRange(0, 5).Draw(t, "replicas")
		number := 0
		settle(d, &number)
		for _, p := range d.pods {
			p.ready = true
		}
		d.template = newTemplate(release.Primary, rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(t, "version"))
		d.replicas = rapid.IntRange(0, 5).Draw(t, "replicas after")
		bound := max(d.replicas, len(d.pods)) + maxSurge
		for range 200 {
			ready := readyPods(d)
			settle(d, &number)
			if n := readyPods(d); n < min(ready, d.replicas) {
				t.Fatalf("the controller took ready pods away: %d -> %d, wanted are %d", ready, n, d.replicas)
			}
			if n := len(d.pods); n > bound {
				t.Fatalf("%d pods, the bound is %d", n, bound)
			}
			unready := slices.DeleteFunc(slices.Clone(d.pods), func(p *pod) bool { return p.ready })
			if len(unready) == 0 {
				break
			}
			rapid.SampledFrom(unready).Draw(t, "gets ready").ready = true
		}
		live := d.live()
		if len(d.pods) != d.replicas || len(d.of(live)) != d.replicas {
			t.Fatalf("%d pods, %d of the live template, wanted are %d", len(d.pods), len(d.of(live)), d.replicas)
		}
	})
}

// settle does what cluster.reconcile does, without processes; pods that are
// removed are gone at once.
func settle(d *deployment, number *int) {
	for more := true; more; {
		more = d.roll()
		for _, s := range d.sets {
			for len(d.of(s)) < s.desired {
				*number++
				d.pods = append(d.pods, newPod(d, s, *number))
			}
			for _, p := range d.victims(s) {
				d.pods = slices.DeleteFunc(d.pods, func(q *pod) bool { return q == p })
			}
		}
	}
}

func readyPods(d *deployment) int {
	n := 0
	for _, p := range d.pods {
		if p.ready {
			n++
		}
	}
	return n
}

func TestPodsGoInOrder(t *testing.T) {
	d := BothNew.deployment(release.Canary)
	s := d.live()
	for i, ready := range []bool{true, true, false, true, true} {
		p := newPod(d, s, i)
		p.name, p.ready = fmt.Sprint(i), ready
		d.pods = append(d.pods, p)
	}
	d.spare = map[string]bool{"4": true, "2": true}
	var names []string
	for _, p := range d.victims(s) { // it wants none
		names = append(names, p.name)
	}
	if want := []string{"2", "3", "1", "0", "4"}; !slices.Equal(names, want) {
		t.Errorf("pods go as %v, want the unready, the newest, and the spare last: %v", names, want)
	}
}

func TestOldSamplesAreDropped(t *testing.T) {
	s := newStore()
	sm := newSample(withLabels(model.Metric{model.MetricNameLabel: "up", "job": "own"}, map[string]string{"job": "x"}), 1)
	if got := sm.labels.String(); got != `{__name__="up", exported_job="own", job="x"}` {
		t.Errorf("the labels are %s", got)
	}
	began := time.Unix(1_000_000, 0)
	for i := range 2000 {
		s.add(began.Add(time.Duration(i)*time.Second), []sample{sm})
	}
	points := s.byKey[sm.key].points
	oldest := began.Add(1999 * time.Second).Add(-retention * 11 / 10).UnixMilli()
	if len(points) < 900 || points[0].T < oldest-1000 {
		t.Errorf("%d points are kept, the oldest is %d s old", len(points), (points[len(points)-1].T-points[0].T)/1000)
	}
	s.add(began, []sample{sm}) // older than the series
	if n := len(s.byKey[sm.key].points); n != len(points) {
		t.Errorf("a sample out of order was kept")
	}
	s.dropDead(began.Add(3000 * time.Second))
	if len(s.byKey) != 0 || len(s.byName["up"]) != 0 {
		t.Error("a dead series was kept")
	}
}
