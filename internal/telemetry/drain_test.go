package telemetry_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/shifter-dev/shifter/internal/drain"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

func TestInFlightIsReadFromTheBestSignal(t *testing.T) {
	counters := []string{
		starts("p1", "echo-v1", "0 90 180"), starts("p1", "echo-v2", "0 12 20"),
		ends("p1", "echo-v1", "200", "0 88 175"), ends("p1", "echo-v2", "200", "0 10 17"),
	}
	for name, c := range map[string]struct {
		world    []string
		provider string
		want     drain.Source
		inFlight float64
		missing  []string
		unknown  bool
		note     string
	}{
		"the pods' own gauges come first": {
			world:    append(counters, gauge("v2-a", "9 9 2"), gauge("v2-b", "9 9 1"), active("p1", "echo-v2", "9 9 9")),
			want:     drain.SourceApp,
			inFlight: 3,
		},
		"only live pods are counted": {
			world: append(counters, gauge("v2-a", "9 9 2"), gauge("v2-b", "9 9 1"), gauge("v2-gone", "9 9 7")),
			want:  drain.SourceApp, inFlight: 3,
		},
		"a live pod without the gauge is missing": {
			world: append(counters, gauge("v2-a", "9 9 2")),
			want:  drain.SourceApp, inFlight: 2, missing: []string{"v2-b"},
		},
		"a live pod whose gauge is old is missing": {
			world: append(counters, gauge("v2-a", "9 9 2"), gauge("v2-b", "@-3 0 0 0")),
			want:  drain.SourceApp, inFlight: 2, missing: []string{"v2-b"},
		},
		"a gauge from before the interval is missing, though fresh": {
			world: append(counters, gauge("v2-a", "9 9 2"), gauge("v2-b", "@-0.3 0")),
			want:  drain.SourceApp, inFlight: 2, missing: []string{"v2-b"},
		},
		"a gauge of NaN is missing, not 0 and not what it was": {
			world: append(counters, gauge("v2-a", "9 9 2"), gauge("v2-b", "0 0 NaN")),
			want:  drain.SourceApp, inFlight: 2, missing: []string{"v2-b"},
		},
		"a gauge that was never a number is missing": {
			world: append(counters, gauge("v2-a", "NaN NaN NaN"), gauge("v2-b", "+Inf +Inf -1")),
			want:  drain.SourceApp, missing: []string{"v2-a", "v2-b"}, note: "6 samples are not numbers",
		},
		"a pod is missing when one of its series is no number": {
			world: append(counters, gauge("v2-a", "9 9 2"),
				`http_requests_in_flight{namespace="demo",pod="v2-b",method="get"} 0 0 0`, `http_requests_in_flight{namespace="demo",pod="v2-b",method="post"} 0 0 NaN`),
			want: drain.SourceApp, inFlight: 2, missing: []string{"v2-b"},
		},
		"several series of a pod are added up": {
			world: append(counters, gauge("v2-a", "9 9 2"),
				`http_requests_in_flight{namespace="demo",pod="v2-b",method="get"} 0 0 3`, `http_requests_in_flight{namespace="demo",pod="v2-b",method="post"} 0 0 4`),
			want: drain.SourceApp, inFlight: 9,
		},
		"a gauge that is scraped twice is not used": {
			world: append(counters, active("p1", "echo-v2", "9 9 5"),
				`http_requests_in_flight{namespace="demo",pod="v2-b",job="a"} 0 0 3`, `http_requests_in_flight{namespace="demo",pod="v2-b",job="b"} 0 0 3`),
			want: drain.SourceClient, inFlight: 5, note: `http_requests_in_flight is not used: demo/v2-b is counted twice: two series differ only in job ("a", "b")`,
		},
		"the proxies' gauges come next": {
			world: append(counters, active("p1", "echo-v1", "9 9 9"), active("p1", "echo-v2", "9 9 4")),
			want:  drain.SourceClient, inFlight: 4,
		},
		"a proxy without a gauge for the track makes the sum useless": {
			world: append(counters, active("p1", "echo-v2", "9 9 4"), starts("p2", "echo-v2", "1 1 2"), ends("p2", "echo-v2", "200", "1 1 1")),
			want:  drain.SourceDifference, inFlight: 4,
		},
		"a proxy that does not know the track is no hindrance": {
			world: append(counters, active("p1", "echo-v2", "9 9 4"), starts("p2", "echo-v1", "1 1 2")),
			want:  drain.SourceClient, inFlight: 4,
		},
		"a proxy's gauge of NaN makes it unknown": {
			world: append(counters, active("p1", "echo-v2", "0 0 NaN")),
			want:  drain.SourceClient, unknown: true,
		},
		"a proxy's gauge that is old makes it unknown": {
			world: append(counters, active("p1", "echo-v2", "@-1 0 - -")),
			want:  drain.SourceClient, unknown: true,
		},
		"begun minus finished comes last": {
			world: counters,
			want:  drain.SourceDifference, inFlight: 3,
		},
		"finished above begun is none in flight": {
			world: []string{starts("p1", "echo-v2", "0 5 8"), ends("p1", "echo-v2", "200", "0 5 9")},
			want:  drain.SourceDifference,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := ask(tick(0), tick(2.1))
			a.Pods = [2][]string{nil, {"v2-b", "v2-a"}}
			d := look(t, eyesOn(t, newWorld(t, c.world...)), a)
			s := d.Drain[release.Canary]
			if s.Source != c.want || s.InFlight != c.inFlight || !slices.Equal(s.Missing, c.missing) || s.At.IsZero() != c.unknown {
				t.Errorf("signals: %+v", s)
			}
			if !strings.Contains(strings.Join(d.Notes, "\n"), c.note) {
				t.Errorf("notes %q lack %q", d.Notes, c.note)
			}
		})
	}
}

// Without any fresh proxy the gauges say nothing, and no lesser signal does.
func TestASignalThatIsNotFreshMakesTheLookUnknown(t *testing.T) {
	for want, world := range map[drain.Source][]string{
		drain.SourceClient:     {starts("p1", "echo-v2", "5 5 5"), active("p1", "echo-v2", "0 0 0")},
		drain.SourceDifference: {starts("p1", "echo-v2", "5 5 5"), ends("p1", "echo-v2", "200", "5 5 5")},
	} {
		r := look(t, eyesOn(t, newWorld(t, world...)), ask(tick(0), tick(5)))
		if s := r.Drain[release.Canary]; s.Source != want || !s.At.IsZero() || !r.At.Equal(tick(2)) {
			t.Errorf("%s: %+v", want, s)
		}
	}
}

func TestAGaugeWithoutSamplesIsMissing(t *testing.T) {
	w := newWorld(t, starts("p1", "echo-v2", "5 5 5"))
	w.edit = func(q string, rw http.ResponseWriter) bool {
		if strings.Contains(q, "in_flight") {
			_, _ = io.WriteString(rw, matrix(`{"metric":{"namespace":"demo","pod":"v2-a"},"values":[]}`))
			return true
		}
		return false
	}
	a := ask(tick(0), tick(2.1))
	a.Pods[1] = []string{"v2-a"}
	if s := look(t, eyesOn(t, w), a).Drain[1]; s.Source != drain.SourceApp || !slices.Equal(s.Missing, []string{"v2-a"}) {
		t.Errorf("signals: %+v", s)
	}
}

// Two namespaces and two pod names match four pods; two of them are not ours.
func TestPodsOfTwoNamespacesAreNotMixedUp(t *testing.T) {
	w := newWorld(t, starts("p1", "echo-v1", "5 5 5"), gauge("a-0", "1 1 1"), gauge("b-0", "10 10 10"),
		`http_requests_in_flight{namespace="next",pod="a-0"} 100 100 100`, `http_requests_in_flight{namespace="next",pod="b-0"} 3 3 3`)
	a := ask(tick(0), tick(2.1))
	a.Binding.Tracks[1].Namespace = "next"
	a.Pods = [2][]string{{"a-0"}, {"b-0"}}
	r := look(t, eyesOn(t, w), a)
	if r.Drain[0].InFlight != 1 || r.Drain[1].InFlight != 3 || r.Drain[0].Source != drain.SourceApp {
		t.Errorf("drain: %+v", r.Drain)
	}
}

func TestEnvoysCountersGiveNoDifference(t *testing.T) {
	w := newWorld(t, `envoy_cluster_upstream_rq_total{cluster_name="outbound|80||echo-v2.demo.svc.cluster.local",pod="gw",namespace="demo"} 1 2 3`)
	r := look(t, eyesOn(t, w, with("envoy")), ask(tick(0), tick(2.1)))
	if s := r.Drain[release.Canary]; s.Source != drain.SourceNone || s.InFlight != 0 || s.New != 2 || !s.At.Equal(tick(2)) {
		t.Errorf("signals: %+v", s)
	}
}

func TestArrivalsNameTheirSendersAndMeetingBounds(t *testing.T) {
	w := newWorld(t,
		starts("p1", "echo-v1", "0 90 180 200 200"), starts("p1", "echo-v2", "0 0 0 5 5"),
		starts("p2", "echo-v1", "@0.5 0 90 180 190"), starts("p2", "echo-v2", "@0.5 0 3 3 3"))
	e := eyesOn(t, w)
	first := look(t, e, ask(tick(0.5), tick(3.1)))
	d := first.Drain[release.Canary]
	// p1 up to 2, p2 up to 2.5: the time up to which both were seen is 2.
	if d.New != 3 || !slices.Equal(d.Senders, []string{"p2"}) || !d.From.Equal(tick(0)) || !d.At.Equal(tick(2)) {
		t.Errorf("canary: %+v", d)
	}
	second := look(t, e, ask(first.At, tick(4.1)))
	if d := second.Drain[release.Canary]; d.New != 5 || !slices.Equal(d.Senders, []string{"p1"}) || !d.From.Equal(first.Drain[release.Canary].At) {
		t.Errorf("canary, next: %+v", d)
	}
}

func TestNoArrivalIsZeroOnlyWhereProxiesWereSeen(t *testing.T) {
	w := newWorld(t, starts("p1", "echo-v1", "0 90 180"))
	r := look(t, eyesOn(t, w), ask(tick(0), tick(2.1)))
	if d := r.Drain[release.Canary]; d.New != 0 || !d.At.Equal(tick(2)) || !d.From.Equal(tick(0)) {
		t.Errorf("a track that gets nothing: %+v", d)
	}
}

func TestASenderThatFallsSilentHoldsTheTime(t *testing.T) {
	w := newWorld(t,
		starts("alive", "echo-v1", "0 9 18 27 36 45 54"), starts("alive", "echo-v2", "0 0 0 0 0 0 0"),
		starts("silent", "echo-v1", "0 9 18 - - - -"), starts("silent", "echo-v2", "0 4 8 - - - -"),
		starts("gone", "echo-v1", "7 7 - - - - -"), starts("gone", "echo-v2", "7 7 - - - - -"))
	r := look(t, eyesOn(t, w), ask(tick(5), tick(6.1)))
	if d := r.Drain[release.Canary]; !d.At.Equal(tick(2)) {
		t.Errorf("the canary is seen up to %v, but the silent proxy only up to 2 scrapes", d.At)
	}
	if !slices.Equal(r.Silent, []string{"gone", "silent"}) || !r.At.Equal(tick(6)) {
		t.Errorf("silent %v, at %v", r.Silent, r.At)
	}
	// Once its last scrapes are out of the range, it is taken for gone.
	w2 := newWorld(t, starts("alive", "echo-v2", "0 0 0 0 0 0 0 0 0"), starts("silent", "echo-v2", "0 4 8 - - - - - -"))
	if d := look(t, eyesOn(t, w2), ask(tick(7), tick(8.1))).Drain[release.Canary]; !d.At.Equal(tick(8)) {
		t.Errorf("the canary is seen up to %v", d.At)
	}
}

func TestWhatASilentProxyHadInFlightIsKept(t *testing.T) {
	w := newWorld(t,
		starts("alive", "echo-v2", "5 5 5 5 5 5"), active("alive", "echo-v2", "0 0 0 0 0 0"),
		starts("silent", "echo-v2", "8 8 - - - -"), active("silent", "echo-v2", "6 6 - - - -"))
	if d := look(t, eyesOn(t, w), ask(tick(4), tick(5.1))).Drain[release.Canary]; d.Source != drain.SourceClient || d.InFlight != 6 {
		t.Errorf("signals: %+v", d)
	}
}

func TestTheAppProviderSeesPodsAndNoSplit(t *testing.T) {
	req := func(pod, code, values string) string {
		return `http_requests_total{namespace="demo",method="get",pod="` + pod + `",code="` + code + `"} ` + values
	}
	w := newWorld(t,
		req("v1-a", "200", "0 50 90"), req("v1-a", "500", "0 0 1"), req("v1-b", "200", "@0.5 0 30 60"),
		req("v2-a", "200", "0 5 10"), req("v2-a", "500", "- 1 2"), req("other", "500", "0 9 99"),
		gauge("v1-a", "1 1 1"), gauge("v1-b", "@0.5 2 2 2"), gauge("v2-a", "3 3 3"))
	e := eyesOn(t, w, with("app"))
	a := ask(tick(0), tick(2.6))
	a.Pods = [2][]string{{"v1-a", "v1-b"}, {"v2-a", "v2-new"}}
	r := look(t, e, a)
	if len(r.Windows) != 1 || r.Windows[0].Stratum != "pods" {
		t.Fatalf("windows: %+v", r.Windows)
	}
	next := look(t, e, func() release.Ask { b := a; b.Since, b.Now = r.At, tick(3.1); return b }())
	if first := r.Windows[0]; !first.From.Equal(tick(0.5)) || !first.To.Equal(r.At) || (len(next.Windows) > 0 && next.Windows[0].From.Before(r.At)) {
		t.Errorf("windows do not meet: %+v, %+v", first, next.Windows)
	}
	if got := r.Windows[0].Counts; got[0] != counts(91+30, 1) || got[1] != counts(12, 2) {
		t.Errorf("counts: %+v", got)
	}
	if r.Proxies != nil || r.Silent != nil || !strings.Contains(strings.Join(r.Notes, "\n"), "a split cannot be shown") {
		t.Errorf("reading: %+v", r)
	}
	if d := r.Drain[1]; d.Source != drain.SourceApp || d.New != 12 || d.InFlight != 3 || !slices.Equal(d.Missing, []string{"v2-new"}) || d.At.IsZero() {
		t.Errorf("canary: %+v", d)
	}
	a.Pods[1] = []string{"v2-new"}
	if d := look(t, e, a).Drain[1]; !d.At.IsZero() {
		t.Errorf("a track of which no pod was seen: %+v", d)
	}
	if r = look(t, e, ask(tick(0), tick(2.6))); !strings.Contains(r.Trouble, "no live pod is known") {
		t.Errorf("without pods: %+v", r)
	}
	s, err := e.Sees(release.MetricsRef{Source: "mesh"})
	if err != nil || s.Starts || !s.Errors || !slices.Equal(s.InFlight, []drain.Source{drain.SourceApp}) || len(s.Cannot) == 0 {
		t.Errorf("sees %+v, %v", s, err)
	}
	_ = telemetry.Providers()
}
