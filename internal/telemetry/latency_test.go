package telemetry_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

func latency(s *telemetry.Source) { s.Latency = true }

// bucket writes a bucket of Envoy's histogram, in milliseconds.
func bucket(service, le, values string) string {
	return fmt.Sprintf(`envoy_cluster_upstream_rq_time_bucket{namespace="edge",pod="gw",cluster_name="outbound|80||%s.demo.svc.cluster.local",le=%q} %s`, service, le, values)
}

func class(service, class, values string) string {
	return fmt.Sprintf(`envoy_cluster_upstream_rq{namespace="edge",pod="gw",cluster_name="outbound|80||%s.demo.svc.cluster.local",response_code_class=%q} %s`, service, class, values)
}

// slowOf is what a reading says of each bound.
func slowOf(t *testing.T, r release.Reading) map[float64][2]counted {
	t.Helper()
	out := map[float64][2]counted{}
	for _, w := range r.Windows {
		m, ok := analysis.MetricOf(w.Metric)
		if !ok {
			t.Errorf("the gate cannot judge %q", w.Metric)
		}
		if m.Kind != analysis.MetricLatency {
			continue
		}
		c := out[m.Bound]
		for i := range c {
			c[i] = c[i].Add(w.Counts[i])
		}
		out[m.Bound] = c
	}
	return out
}

func TestDurationsAreCountedPerBound(t *testing.T) {
	quiet := []string{class("echo-v1", "2xx", "0 100 200 300"), bucket("echo-v1", "100", "0 90 180 270"), bucket("echo-v1", "+Inf", "0 100 200 300")}
	primary := counts(300, 30)
	for name, c := range map[string]struct {
		world []string
		want  map[float64][2]counted
		note  string
	}{
		"requests above a bound are those that no bucket up to it holds": {
			world: []string{bucket("echo-v2", "100", "0 5 10 15"), bucket("echo-v2", "+Inf", "0 10 20 30")},
			want:  map[float64][2]counted{0.1: {primary, counts(30, 15)}},
		},
		"a track without a histogram has no say and no requests": {
			want: map[float64][2]counted{0.1: {primary, {}}},
		},
		"only bounds that both tracks have are told of": {
			world: []string{
				bucket("echo-v2", "100", "0 5 10 15"), bucket("echo-v2", "250", "0 9 19 29"), bucket("echo-v2", "+Inf", "0 10 20 30"),
				bucket("echo-v1", "50", "0 1 2 3"),
			},
			want: map[float64][2]counted{0.1: {primary, counts(30, 15)}},
		},
		"no common bound is no window": {
			world: []string{bucket("echo-v2", "200", "0 5 10 15"), bucket("echo-v2", "+Inf", "0 10 20 30")},
			want:  map[float64][2]counted{},
		},
		"a histogram that begins again does so in all its buckets": {
			world: []string{bucket("echo-v2", "100", "5 5 8 10"), bucket("echo-v2", "+Inf", "100 110 20 30")},
			want:  map[float64][2]counted{0.1: {primary, counts(40, 30)}},
		},
		"a histogram born on a known target counts whole": {
			world: []string{bucket("echo-v2", "100", "- - 8 10"), bucket("echo-v2", "+Inf", "- - 20 30")},
			want:  map[float64][2]counted{0.1: {primary, counts(30, 20)}},
		},
		"missed scrapes are repaid": {
			world: []string{bucket("echo-v2", "100", "0 - - 10"), bucket("echo-v2", "+Inf", "0 - - 30")},
			want:  map[float64][2]counted{0.1: {primary, counts(30, 20)}},
		},
		"a bucket that lacks a sample is left out, rather than seem slow": {
			world: []string{
				bucket("echo-v2", "100", "0 5 10 NaN"), bucket("echo-v2", "250", "0 9 18 27"), bucket("echo-v2", "+Inf", "0 10 20 30"),
				bucket("echo-v1", "250", "0 95 190 285"),
			},
			want: map[float64][2]counted{0.25: {counts(300, 15), counts(30, 3)}}, note: "1 samples are not numbers",
		},
		"several histograms of a track are added up": {
			world: []string{
				bucket("echo-v2", "100", "0 5 10 15"), bucket("echo-v2", "+Inf", "0 10 20 30"),
				strings.Replace(bucket("echo-v2", "100", "0 1 2 3"), "le=", `code="500",le=`, 1), strings.Replace(bucket("echo-v2", "+Inf", "0 1 2 3"), "le=", `code="500",le=`, 1),
			},
			want: map[float64][2]counted{0.1: {primary, counts(33, 15)}},
		},
		"a histogram with other bounds takes the bound away": {
			world: []string{
				bucket("echo-v2", "100", "0 5 10 15"), bucket("echo-v2", "+Inf", "0 10 20 30"),
				strings.Replace(bucket("echo-v2", "200", "0 1 2 3"), "le=", `code="500",le=`, 1), strings.Replace(bucket("echo-v2", "+Inf", "0 1 2 3"), "le=", `code="500",le=`, 1),
			},
			want: map[float64][2]counted{},
		},
		"buckets are forced to rise": {
			world: []string{
				bucket("echo-v2", "100", "0 5 10 15"), bucket("echo-v2", "250", "0 4 8 12"), bucket("echo-v2", "500", "0 20 40 60"), bucket("echo-v2", "+Inf", "0 10 20 30"),
				bucket("echo-v1", "250", "0 95 190 285"), bucket("echo-v1", "500", "0 99 198 297"),
			},
			want: map[float64][2]counted{
				0.1: {primary, counts(30, 15)}, 0.25: {counts(300, 15), counts(30, 15)}, 0.5: {counts(300, 3), counts(30, 0)},
			},
			note: "2 buckets held fewer requests than a smaller one",
		},
		"without the total there is nothing": {
			world: []string{bucket("echo-v2", "100", "0 5 10 15")},
			want:  map[float64][2]counted{0.1: {primary, {}}},
		},
		"a bound that is no number makes the histograms unused, not the errors": {
			world: []string{bucket("echo-v2", "fast", "0 5 10 15"), bucket("echo-v2", "+Inf", "0 10 20 30")},
			want:  map[float64][2]counted{}, note: "envoy_cluster_upstream_rq_time_bucket is not used: a bucket has no bound that is a number above 0",
		},
		"histograms that are scraped twice are not used": {
			world: []string{strings.Replace(bucket("echo-v1", "100", "0 90 180 270"), "le=", `job="b",le=`, 1)},
			want:  map[float64][2]counted{}, note: "counted twice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(slices.Clone(quiet), c.world...)...)
			r := look(t, eyesOn(t, newProm(w), with("envoy"), latency), ask(tick(0), tick(3.1)))
			if got := slowOf(t, r); !maps.Equal(got, c.want) {
				t.Errorf("got %v, want %v (%s)", got, c.want, r.Trouble)
			}
			if !strings.Contains(strings.Join(r.Notes, "\n"), c.note) {
				t.Errorf("notes %q lack %q", r.Notes, c.note)
			}
			if r.Windows[0].Metric != analysis.MetricErrors || r.Windows[0].Counts[0] != counts(300, 0) {
				t.Errorf("errors: %+v", r.Windows)
			}
		})
	}
}

func TestBoundsAreSeconds(t *testing.T) {
	for le, want := range map[string]float64{
		"0.5": 0.0005, "1": 0.001, "5": 0.005, "25": 0.025, "100": 0.1, "250": 0.25, "1000": 1, "2500.0": 2.5, "1e3": 1, "3600000": 3600, "0.1": 0.0001,
		"": 0, "0": 0, "-5": 0, "NaN": 0, "Inf": 0, "-Inf": 0, "0x10": 0, "1_0": 0, "1,5": 0, "1e999": 0, " 5": 0, "infinity": 0,
	} {
		t.Run(le, func(t *testing.T) {
			w := newWorld(t, class("echo-v1", "2xx", "0 8"), bucket("echo-v1", le, "0 5"), bucket("echo-v1", "+Inf", "0 8"))
			got := slowOf(t, look(t, eyesOn(t, w, with("envoy"), latency), ask(tick(0), tick(1.1))))
			if want == 0 && len(got) == 0 {
				return
			}
			if c, ok := got[want]; !ok || len(got) != 1 || c[0] != counts(8, 3) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestNotTooManyBoundsAreToldOf(t *testing.T) {
	w := newWorld(t, class("echo-v1", "2xx", "0 100"), bucket("echo-v1", "+Inf", "0 100"))
	for i := range 47 {
		w.add(bucket("echo-v1", fmt.Sprint(i+1), "0 50"))
	}
	got := slices.Sorted(maps.Keys(slowOf(t, look(t, eyesOn(t, w, with("envoy"), latency), ask(tick(0), tick(1.1))))))
	if len(got) != 20 || got[0] != 0.001 || got[19] != 0.047 {
		t.Fatalf("%d bounds: %v", len(got), got)
	}
	for i, b := range got[1:] {
		if gap := b - got[i]; gap < 0.0019 || gap > 0.0031 {
			t.Errorf("%v and %v are not evenly apart", got[i], b)
		}
	}
}

func TestLatencyIsReadOnlyWhereItIsSwitchedOn(t *testing.T) {
	w := newWorld(t, class("echo-v1", "2xx", "0 8"), bucket("echo-v1", "100", "0 5"), bucket("echo-v1", "+Inf", "0 8"))
	e := eyesOn(t, w, with("envoy"))
	if got := slowOf(t, look(t, e, ask(tick(0), tick(1.1)))); len(got) > 0 {
		t.Errorf("got %v", got)
	}
	for _, q := range w.asked {
		if strings.Contains(q, "bucket") {
			t.Errorf("asked %s", q)
		}
	}
	if s, err := e.Sees(release.MetricsRef{Source: "mesh"}); err != nil || s.Latency {
		t.Errorf("sees %+v, %v", s, err)
	}
	on := eyesOn(t, w, with("envoy"), latency)
	if s, err := on.Sees(release.MetricsRef{Source: "mesh"}); err != nil || !s.Latency || !strings.Contains(strings.Join(s.Cannot, "\n"), "one flush") {
		t.Errorf("sees %+v, %v", s, err)
	}
}

// What a source says with latency on is what it says without it, and more.
func TestLatencyChangesNothingElse(t *testing.T) {
	for name, s := range shapes() {
		t.Run(name, func(t *testing.T) {
			a := ask(tick(0), tick(5.1))
			a.Pods = [2][]string{{"v1-0", "v1-1"}, {"v2-0"}}
			if s.change != nil {
				s.change(&a)
			}
			w := newWorld(t, append(s.script(), gauge("v1-0", "1 1 1 1 1 1"), gauge("v2-0", "2 2 2 2 2 2"))...)
			off, on := look(t, eyesOn(t, newProm(w), with(s.provider)), a), look(t, eyesOn(t, newProm(w), with(s.provider), latency), a)
			on.Windows = slices.DeleteFunc(on.Windows, func(w release.TrackWindow) bool { return w.Metric != analysis.MetricErrors })
			off.Notes, on.Notes = nil, nil
			if got, want := string(mustJSON(t, on)), string(mustJSON(t, off)); got != want {
				t.Errorf("with latency:\n%s\nwithout:\n%s", got, want)
			}
		})
	}
}

func podBucket(pod, le, values string) string {
	return fmt.Sprintf(`http_request_duration_seconds_bucket{namespace="demo",pod=%q,le=%q} %s`, pod, le, values)
}

// The sandbox's proxies count errors and its pods durations. Pods that are
// scraped later than proxies do not hold the errors back, and nothing of theirs
// is lost: they are read one scrape late.
func TestDurationsOfOtherTargetsAreReadOneScrapeLate(t *testing.T) {
	w := newWorld(t,
		ends("p1", "echo-v1", "200", "0 10 20 30 40 50 60"), ends("p1", "echo-v2", "200", "0 1 2 3 4 5 6"),
		podBucket("v1-a", "0.1", "@0.9 0 9 18 27 36 45"), podBucket("v1-a", "+Inf", "@0.9 0 10 20 30 40 50"),
		podBucket("v2-a", "0.1", "@0.3 0 0 0 0 0 0"), podBucket("v2-a", "+Inf", "@0.3 0 1 2 3 4 5"))
	e := eyesOn(t, w, latency)
	var sum [2]counted
	at := tick(1)
	for _, now := range []float64{2.1, 3.1, 4.1, 5.1, 6.1} {
		a := ask(at, tick(now))
		a.Pods = [2][]string{{"v1-a"}, {"v2-a"}}
		r := look(t, e, a)
		if !r.At.Equal(tick(math.Floor(now))) {
			t.Fatalf("the errors are held back at %v", r.At)
		}
		for i, c := range slowOf(t, r)[0.1] {
			sum[i] = sum[i].Add(c)
		}
		at = r.At
	}
	// From 0 to 5 scrapes: the pods' samples up to 4.9 and 4.3.
	if sum != [2]counted{counts(40, 4), counts(4, 4)} {
		t.Errorf("counted %v", sum)
	}
}

// Whatever comes late, begins again or is missed: looks over durations of other
// targets add up to one look over all.
func TestLateDurationsAddUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const n = 12
		values := "0"
		for i := range n + 2 {
			values += fmt.Sprintf(" %d", 10*(i+1))
		}
		w := newWorld(t, ends("p1", "echo-v1", "200", values))
		for _, pod := range []string{"v1-a", "v1-b"} {
			offset := rapid.Float64Range(-1, 0).Draw(rt, "offset")
			restart := rapid.IntRange(1, 3*n).Draw(rt, "restart")
			quick, all, small, total, missed := "", "", 500, 1000, false
			for i := range n + 3 {
				if i == restart {
					small, total = 0, 0
				}
				fast := rapid.IntRange(0, 9).Draw(rt, "fast")
				small, total = small+fast, total+fast+rapid.IntRange(0, 9).Draw(rt, "slow")
				if missed = !missed && i > 1 && i < n && rapid.IntRange(0, 5).Draw(rt, "miss") == 0; missed {
					quick, all = quick+" -", all+" -"
					continue
				}
				quick, all = quick+fmt.Sprintf(" %d", small), all+fmt.Sprintf(" %d", total)
			}
			w.add(podBucket(pod, "0.1", fmt.Sprintf("@%g%s", offset, quick)))
			w.add(podBucket(pod, "+Inf", fmt.Sprintf("@%g%s", offset, all)))
			late := rapid.SliceOfN(rapid.Float64Range(0, 0.6), n+3, n+3).Draw(rt, "late")
			for _, s := range w.series[len(w.series)-2:] {
				for i := range s.samples {
					s.samples[i].visible = s.samples[i].at.Add(tick(late[i]).Sub(epoch))
				}
			}
		}
		eyes := eyesOn(t, w, latency, func(s *telemetry.Source) { s.Client = direct{w} })
		question := func(since, now time.Time) release.Ask {
			a := ask(since, now)
			a.Pods[0] = []string{"v1-a", "v1-b"}
			return a
		}
		end := tick(n + 0.7)
		whole := slowOf(t, look(t, eyes, question(tick(2), end)))[0.1]
		var sum [2]counted
		for at, now := tick(2), 2.0; now < n+0.7; {
			now = min(now+rapid.Float64Range(0.4, 4).Draw(rt, "wait"), n+0.7)
			r := look(t, eyes, question(at, tick(now)))
			for i, c := range slowOf(t, r)[0.1] {
				sum[i] = sum[i].Add(c)
			}
			at = r.At
		}
		if sum != whole {
			rt.Fatalf("looks sum to %v, one look to %v\n%s", sum, whole, w)
		}
	})
}

// One query for all reads gauges as far back as counters; they count as far as
// they did.
func TestGaugesAreNoOlderWithLatency(t *testing.T) {
	const cluster = `cluster_name="outbound|80||echo-v2.demo.svc.cluster.local"`
	rising := "0 1 2 3 4 5 6 7 8 9 10 11 12"
	w := newWorld(t,
		`envoy_cluster_upstream_rq_total{namespace="edge",pod="gw",`+cluster+`} `+rising,
		`envoy_cluster_upstream_rq_active{namespace="edge",pod="gw",`+cluster+`} 0 0 0 0 0 0 0 0 0 0 0 0 1`,
		`envoy_cluster_upstream_rq_total{namespace="edge",pod="gone",`+cluster+`} 0 1 2 - - - - - - - - - -`,
		`envoy_cluster_upstream_rq_active{namespace="edge",pod="gone",`+cluster+`} 9 9 9 - - - - - - - - - -`)
	a := ask(tick(1), tick(12.1))
	off, on := look(t, eyesOn(t, newProm(w), with("envoy")), a), look(t, eyesOn(t, newProm(w), with("envoy"), latency), a)
	if got, want := string(mustJSON(t, on.Drain)), string(mustJSON(t, off.Drain)); got != want {
		t.Errorf("with latency:\n%s\nwithout:\n%s", got, want)
	}
}
