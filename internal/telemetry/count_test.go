package telemetry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

// Worked counters, and the rules of reading in doc.go.
func TestCountersAreDifferencedPerSeries(t *testing.T) {
	quiet := ends("p1", "echo-v1", "200", "5 5 5 5 5 5 5 5")
	for name, c := range map[string]struct {
		world []string
		since float64 // in scrapes
		now   float64
		want  [2]analysis.Counts
		note  string
	}{
		"a restart counts its new value": {
			world: []string{ends("p1", "echo-v2", "200", "100 130 5 25"), quiet},
			now:   3.1, want: [2]analysis.Counts{{}, counts(55, 0)}, note: "began again from 0",
		},
		"two missed scrapes are repaid by the next": {
			world: []string{ends("p1", "echo-v2", "200", "100 - - 190"), ends("p1", "echo-v1", "200", "5 - - 7")},
			now:   3.1, want: [2]analysis.Counts{counts(2, 0), counts(90, 0)},
		},
		"a 5xx born on a known target counts from 0": {
			world: []string{ends("p1", "echo-v2", "500", "- 3 3 7"), ends("p1", "echo-v2", "200", "10 10 10 10"), quiet},
			now:   3.1, want: [2]analysis.Counts{{}, counts(7, 7)},
		},
		"a series born with its target does not count what it held": {
			world: []string{ends("p2", "echo-v2", "200", "- 300 310 320"), quiet},
			now:   3.1, want: [2]analysis.Counts{{}, counts(20, 0)}, note: "first seen with their target",
		},
		"a sibling on another target does not make a birth": {
			world: []string{ends("p2", "echo-v2", "500", "- 3 3 7"), quiet},
			now:   3.1, want: [2]analysis.Counts{{}, counts(4, 4)},
		},
		"a start counter is a sibling too": {
			world: []string{ends("p1", "echo-v2", "500", "- 3 3 7"), starts("p1", "echo-v1", "1 1 1 1")},
			now:   3.1, want: [2]analysis.Counts{{}, counts(7, 7)},
		},
		"a sibling that ended long ago does not make a birth": {
			world: []string{
				ends("p1", "echo-v2", "500", "- - - - - - - - 9 11"), ends("p1", "echo-v2", "200", "1 1 - - - - - - - -"),
				ends("p3", "echo-v1", "200", "5 5 5 5 5 5 5 5 5 5"),
			},
			now: 9.1, want: [2]analysis.Counts{{}, counts(2, 2)},
		},
		"pods are differenced before they are summed": {
			world: []string{ends("a", "echo-v2", "200", "100 160 160"), ends("b", "echo-v2", "200", "400 300 310")},
			now:   2.1, want: [2]analysis.Counts{{}, counts(370, 0)},
		},
		"errors are those of class 5, and requests are all": {
			world: []string{
				ends("p1", "echo-v2", "200", "0 10"), ends("p1", "echo-v2", "404", "0 20"), ends("p1", "echo-v2", "503", "0 3"),
				ends("p1", "echo-v2", "500", "0 4"), quiet,
			},
			now: 1.1, want: [2]analysis.Counts{{}, counts(37, 7)},
		},
		"no 5xx series is no errors": {
			world: []string{ends("p1", "echo-v2", "200", "0 10"), ends("p1", "echo-v1", "200", "0 90")},
			now:   1.1, want: [2]analysis.Counts{counts(90, 0), counts(10, 0)},
		},
		"an arm without series has no requests while the other has some": {
			world: []string{ends("p1", "echo-v1", "200", "0 90")},
			now:   1.1, want: [2]analysis.Counts{counts(90, 0), {}},
		},
		"started and not finished is no request yet": {
			world: []string{starts("p1", "echo-v1", "0 90"), starts("p1", "echo-v2", "0 10")},
			now:   1.1, note: "no request is known to have finished",
		},
		"counts begin at the newest sample at or before since": {
			world: []string{ends("p1", "echo-v2", "200", "1 2 4 8 16 32 64"), quiet},
			since: 2.9, now: 5.1, want: [2]analysis.Counts{{}, counts(28, 0)},
		},
		"NaN and infinity are not samples, and the next one repays": {
			world: []string{ends("p1", "echo-v2", "200", "10 NaN +Inf 40"), quiet},
			now:   3.1, want: [2]analysis.Counts{{}, counts(30, 0)}, note: "2 samples are not numbers",
		},
		"a negative counter is not a sample": {
			world: []string{ends("p1", "echo-v2", "200", "10 -5 20 40"), quiet},
			now:   3.1, want: [2]analysis.Counts{{}, counts(30, 0)}, note: "1 samples are not numbers",
		},
		"a counter beyond all requests is not a sample": {
			world: []string{ends("p1", "echo-v2", "200", "10 1e300 20 40"), quiet},
			now:   3.1, want: [2]analysis.Counts{{}, counts(30, 0)},
		},
		"fractions are kept": {
			world: []string{ends("p1", "echo-v2", "200", "0.5 2.75"), quiet},
			now:   1.1, want: [2]analysis.Counts{{}, counts(2.25, 0)},
		},
		"a series that ends is not repeated": {
			world: []string{ends("p1", "echo-v2", "200", "10 20 - - - - - -"), quiet},
			now:   7.1, want: [2]analysis.Counts{{}, counts(10, 0)},
		},
		"a pod that is made again under its name is a new target": {
			world: []string{
				`sandbox_proxy_requests_total{proxy="p1",backend="demo/echo-v2",code="200",job="j",instance="10.0.0.1:80"} 10 20 - - - -`,
				`sandbox_proxy_requests_total{proxy="p1",backend="demo/echo-v2",code="200",job="j",instance="10.0.0.2:80"} - - 7 9 9 9`,
			},
			now: 5.1, want: [2]analysis.Counts{{}, counts(12, 0)},
		},
		"a scrape job by another name does not bring its whole past": {
			world: []string{
				`sandbox_proxy_requests_total{proxy="p1",backend="demo/echo-v2",code="200",job="a",instance="10.0.0.1:80"} 1000 1010 - - - -`,
				`sandbox_proxy_requests_total{proxy="p1",backend="demo/echo-v2",code="200",job="b",instance="10.0.0.1:80"} - - 1020 1030 1040 1050`,
			},
			now: 5.1, want: [2]analysis.Counts{{}, counts(40, 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := look(t, eyesOn(t, newWorld(t, c.world...)), ask(tick(c.since), tick(c.now)))
			if r.Trouble != "" {
				t.Fatal(r.Trouble)
			}
			if got := total(r); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if !strings.Contains(strings.Join(r.Notes, "\n"), c.note) {
				t.Errorf("notes %q lack %q", r.Notes, c.note)
			}
		})
	}
}

func TestEveryProxyIsAStratumWithItsOwnBounds(t *testing.T) {
	w := newWorld(t,
		ends("p1", "echo-v1", "200", "@0 0 10 20 30"), ends("p1", "echo-v2", "200", "@0 0 1 2 3"),
		ends("p2", "echo-v1", "200", "@0.5 0 100 200 300"), ends("p2", "echo-v2", "200", "@0.5 0 10 20 30"), ends("p2", "echo-v2", "502", "@0.5 0 1 1 2"),
	)
	r := look(t, eyesOn(t, w), ask(tick(1), tick(3.6)))
	if len(r.Windows) != 2 {
		t.Fatalf("windows: %+v", r.Windows)
	}
	p1, p2 := r.Windows[0], r.Windows[1]
	if p1.Stratum != "p1" || !p1.From.Equal(tick(1)) || !p1.To.Equal(tick(3)) || p1.Counts != [2]analysis.Counts{counts(20, 0), counts(2, 0)} {
		t.Errorf("p1: %+v", p1)
	}
	// p2's scrape at 3.5 is beyond the horizon: p1's next one may come before.
	if p2.Stratum != "p2" || !p2.From.Equal(tick(0.5)) || !p2.To.Equal(tick(2.5)) || p2.Counts != [2]analysis.Counts{counts(200, 0), counts(21, 1)} {
		t.Errorf("p2: %+v", p2)
	}
	if p1.Metric != analysis.MetricErrors || !r.At.Equal(tick(3)) {
		t.Errorf("metric %q, at %v", p1.Metric, r.At)
	}
}

func TestOneWindowSpansSeveralScrapes(t *testing.T) {
	w := newWorld(t, ends("p1", "echo-v1", "200", "0 1 2 3 4 5 6"), ends("p1", "echo-v2", "200", "0 1 2 3 4 5 6"))
	r := look(t, eyesOn(t, w), ask(tick(1), tick(6.1)))
	if len(r.Windows) != 1 || !r.Windows[0].From.Equal(tick(1)) || !r.Windows[0].To.Equal(tick(6)) {
		t.Errorf("windows: %+v", r.Windows)
	}
}

func TestWithoutANewScrapeThereIsNoNews(t *testing.T) {
	w := newWorld(t, starts("p1", "echo-v1", "0 1 2"), ends("p1", "echo-v1", "200", "0 1 2"))
	r := look(t, eyesOn(t, w), ask(tick(2), tick(2.9)))
	if r.Trouble != "" || len(r.Windows) != 0 || len(r.Proxies) != 0 || !r.At.Equal(tick(2)) {
		t.Errorf("reading: %+v", r)
	}
}

// A look while the source is frozen: the time stands, nothing is made up.
func TestAFrozenSourceShowsAnOldTime(t *testing.T) {
	w := newWorld(t, starts("p1", "echo-v1", "0 1 2"), ends("p1", "echo-v1", "200", "0 1 2"), gauge("v1-a", "0 0 0"))
	a := ask(tick(2), tick(6.5))
	a.Pods[0] = []string{"v1-a"}
	r := look(t, eyesOn(t, w), a)
	if r.Trouble != "" || len(r.Windows) != 0 || !r.At.Equal(tick(2)) || !slices.Equal(r.Silent, []string{"p1"}) {
		t.Errorf("reading: %+v", r)
	}
	if !slices.Equal(r.Drain[0].Missing, []string{"v1-a"}) || r.Drain[0].At.After(tick(2)) {
		t.Errorf("drain: %+v", r.Drain[0])
	}
}

// A source that answers with an older view than before must not count twice.
func TestAnOlderViewThanBeforeCountsNothing(t *testing.T) {
	w := newWorld(t, ends("p1", "echo-v1", "200", "0 10 20 30 40"))
	for i := range w.series[0].samples[3:] {
		w.series[0].samples[3+i].visible = tick(9)
	}
	r := look(t, eyesOn(t, w), ask(tick(4), tick(4.5)))
	if r.Trouble != "" || len(r.Windows) != 0 || !r.At.Equal(tick(2)) {
		t.Errorf("reading: %+v", r)
	}
}

// A proxy that comes back with old samples is not a reason to go back.
func TestTheTimeDoesNotFallBehindSince(t *testing.T) {
	w := newWorld(t, ends("p1", "echo-v1", "200", "0 10 20 30 40"), ends("back", "echo-v1", "200", "@0.5 0 1 2 - -"))
	if r := look(t, eyesOn(t, w), ask(tick(4), tick(4.5))); !r.At.Equal(tick(4)) || len(r.Windows) != 0 {
		t.Errorf("reading: %+v", r)
	}
}

// A scrape becomes visible when it is over. What a slow proxy's scrape adds is
// not lost, though a quicker one was read beyond it.
func TestALateScrapeIsNotLost(t *testing.T) {
	w := newWorld(t,
		ends("quick", "echo-v1", "200", "@0.1 0 10 20 30 40"),
		ends("slow", "echo-v2", "200", "@0 0 1 2 3 4"))
	slow := w.series[1]
	slow.samples[2].visible = tick(2.6)
	e := eyesOn(t, w)
	first := look(t, e, ask(tick(0.1), tick(2.2)))
	second := look(t, e, ask(first.At, tick(4.3)))
	got := [2]analysis.Counts{}
	for i := range got {
		got[i] = total(first)[i].Add(total(second)[i])
	}
	// Up to the horizon at 4, which the quick proxy's scrape at 4.1 is beyond.
	if want := [2]analysis.Counts{counts(30, 0), counts(4, 0)}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Queries run side by side: one may miss a scrape that another sees.
func TestAScrapeIsUsedWhenAllFamiliesShowIt(t *testing.T) {
	w := newWorld(t, starts("p1", "echo-v1", "0 10 20"), ends("p1", "echo-v1", "200", "0 9 18"))
	w.series[1].samples[2].visible = tick(9)
	r := look(t, eyesOn(t, w), ask(tick(0), tick(2.1)))
	if !r.At.Equal(tick(1)) || total(r)[0].Requests != 9 || begun(r)[0] != 10 {
		t.Errorf("at %v, %v finished, %v begun", r.At, total(r), begun(r))
	}
}

func TestASilentProxyIsNamedAndNotWaitedFor(t *testing.T) {
	w := newWorld(t,
		ends("alive", "echo-v1", "200", "0 1 2 3 4 5 6"), ends("alive", "echo-v2", "200", "0 1 2 3 4 5 6"),
		ends("gone", "echo-v1", "200", "@0.2 0 7 9 - - - -"))
	e := eyesOn(t, w)
	r := look(t, e, ask(tick(1), tick(4.6)))
	if r.Silent != nil || !r.At.Equal(tick(2.2)) {
		t.Errorf("within 2.5 scrapes: silent %v, at %v", r.Silent, r.At)
	}
	r = look(t, e, ask(tick(1), tick(6.1)))
	if !slices.Equal(r.Silent, []string{"gone"}) || !r.At.Equal(tick(6)) {
		t.Errorf("after 2.5 scrapes: silent %v, at %v", r.Silent, r.At)
	}
	if got, want := total(r)[0], counts(5+9, 0); got != want {
		t.Errorf("what it counted before it fell silent: %v, want %v", got, want)
	}
}

func TestTheLagOfAPipelineIsNotSilence(t *testing.T) {
	w := newWorld(t, ends("p1", "echo-v1", "200", "0 1 2 3"))
	lag := func(s *telemetry.Source) { s.Lag = 30 * time.Second }
	if r := look(t, eyesOn(t, w, lag), ask(tick(1), tick(6.4))); r.Silent != nil || !r.At.Equal(tick(3)) {
		t.Errorf("reading: %+v", r)
	}
}

func TestNewRequestsAreCountedPerProxyAndTrack(t *testing.T) {
	w := newWorld(t,
		starts("p1", "echo-v1", "0 90 180"), starts("p1", "echo-v2", "- 10 20"),
		starts("p2", "echo-v1", "5 5 5"), ends("p2", "echo-v1", "200", "5 5 5"), ends("p1", "echo-v1", "200", "0 0 0"))
	r := look(t, eyesOn(t, w), ask(tick(0), tick(2.1)))
	if len(r.Proxies) != 2 || r.Proxies[0].Proxy != "p1" || r.Proxies[0].New != [2]float64{180, 20} || r.Proxies[1].New != [2]float64{0, 0} {
		t.Errorf("proxies: %+v", r.Proxies)
	}
	if p := r.Proxies[0]; !p.From.Equal(tick(0)) || !p.To.Equal(tick(2)) {
		t.Errorf("bounds: %+v", p)
	}
}

func TestWithoutStartCountersASplitIsNotShown(t *testing.T) {
	w := newWorld(t, ends("p1", "echo-v1", "200", "0 90 180"), ends("p1", "echo-v2", "200", "0 10 20"))
	r := look(t, eyesOn(t, w), ask(tick(0), tick(2.1)))
	if r.Proxies != nil || !strings.Contains(strings.Join(r.Notes, "\n"), "a split cannot be shown") {
		t.Errorf("proxies %+v, notes %q", r.Proxies, r.Notes)
	}
}

func TestALookStartsNoEarlierThanItMayRead(t *testing.T) {
	values := "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"
	w := newWorld(t, starts("p1", "echo-v1", values), ends("p1", "echo-v1", "200", values))
	reach := func(s *telemetry.Source) { s.Reach = 10 * scrape }
	for name, c := range map[string]struct {
		since time.Time
		want  float64
		note  string
	}{
		"no start":  {time.Time{}, 10, "no start was given: counts begin at 2026-03-01T12:02:30Z"},
		"too early": {tick(3), 10, "one look may read 2m30s"},
		"in reach":  {tick(12), 8, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := look(t, eyesOn(t, w, reach), ask(c.since, tick(20)))
			if got := total(r)[0].Requests; got != c.want {
				t.Errorf("counted %v, want %v", got, c.want)
			}
			if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, c.note) || (c.note == "") != (notes == "") {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
		})
	}
}

func TestARestartedProcessReadsTheSameCounts(t *testing.T) {
	w := newWorld(t, starts("p1", "echo-v1", "0 10 20 30"), ends("p1", "echo-v1", "200", "0 9 3 25"), ends("p1", "echo-v2", "500", "- 1 2 3"))
	a := ask(tick(1), tick(3.1))
	first, again := look(t, eyesOn(t, w), a), look(t, eyesOn(t, w), a)
	if string(mustJSON(t, first)) != string(mustJSON(t, again)) {
		t.Errorf("%+v\nand then\n%+v", first, again)
	}
}

func TestAnOtherScrapeIntervalThanConfiguredIsSaid(t *testing.T) {
	w := newWorld(t, ends("p1", "echo-v1", "200", "0 - 2 - 4 - 6 - 8"))
	r := look(t, eyesOn(t, w), ask(tick(2), tick(8.1)))
	if !strings.Contains(strings.Join(r.Notes, "\n"), "samples come every 30s, and the source is configured with 15s") {
		t.Errorf("notes: %q", r.Notes)
	}
}

func TestManyProxiesAreCountedTogether(t *testing.T) {
	for _, c := range []struct{ proxies, strata int }{{1, 1}, {12, 12}, {13, 1}, {60, 1}} {
		var world []string
		for i := range c.proxies {
			p := fmt.Sprintf("p%02d", i)
			world = append(world, ends(p, "echo-v1", "200", "0 10 20 30"), ends(p, "echo-v2", "200", "0 1 2 3"), ends(p, "echo-v2", "500", "0 0 1 1"))
		}
		e := eyesOn(t, newWorld(t, world...))
		var all [2]analysis.Counts
		var until time.Time
		for now := 1.1; now < 4; now++ { // look by look, as if nothing were pooled
			r := look(t, e, ask(tick(max(now-1.1, 0)), tick(now)))
			for track, n := range total(r) {
				all[track] = all[track].Add(n)
			}
			if len(r.Windows) != c.strata || len(r.Proxies) > c.proxies {
				t.Errorf("%d proxies: %d windows, want %d", c.proxies, len(r.Windows), c.strata)
			}
			if first := r.Windows[0]; first.From.Before(until) {
				t.Errorf("%d proxies: a window from %s after one until %s", c.proxies, first.From, until)
			}
			until = r.Windows[0].To
		}
		n := float64(c.proxies)
		if want := ([2]analysis.Counts{{Requests: 30 * n}, {Requests: 4 * n, Bad: n}}); all != want {
			t.Errorf("%d proxies: counted %v, want %v", c.proxies, all, want)
		}
	}
}
