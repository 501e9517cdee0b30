package release

import (
	"slices"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
)

func TestTheLongestRequestIsTheRoutesTimeoutWhereAllHaveOne(t *testing.T) {
	for name, c := range map[string]struct {
		timeouts []time.Duration
		want     time.Duration
	}{
		"no route":          {nil, time.Minute},
		"one with":          {[]time.Duration{5 * time.Second}, 5 * time.Second},
		"the longer of two": {[]time.Duration{5 * time.Second, 7 * time.Second}, 7 * time.Second},
		"one without":       {[]time.Duration{5 * time.Second, 0}, time.Minute},
	} {
		r := Release{Spec: soundSpec()}
		for _, d := range c.timeouts {
			r.Binding.Routes = append(r.Binding.Routes, BoundRoute{Timeout: d})
		}
		if got := r.maxRequest(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestADrainIsBlindOnlyWhenTheTelemetryWasThereAndIsLost(t *testing.T) {
	s := told(t, toRetreat+"apply\nafter 1s\nturn\nafter 1s\nshown yes\nturn\n")
	shown := s.r.Shown
	waited := s.r.Spec.Deadlines.Settle + s.r.maxRequest()
	for name, c := range map[string]struct {
		fresh time.Time
		now   time.Time
		blind bool
	}{
		"right after a start nothing is lost":     {time.Time{}, shown.Add(time.Hour), false},
		"fresh":                                   {shown.Add(time.Hour), shown.Add(time.Hour), false},
		"lost, but the longest request may run":   {shown.Add(-time.Hour), shown.Add(waited - time.Second), false},
		"lost, and the longest request has run":   {shown.Add(-time.Hour), shown.Add(waited), true},
		"silent within its grace is not lost yet": {shown.Add(waited - time.Minute), shown.Add(waited), false},
	} {
		p := s.r.drainPolicy(Looks{fresh: c.fresh, scrape: 15 * time.Second}, Primary, c.now)
		if blind := p.Left == 0; blind != c.blind {
			t.Errorf("%s: %s are left", name, p.Left)
		}
	}
	r := s.r
	r.Work.Left = 3 * time.Second
	if p := r.drainPolicy(Looks{}, Primary, shown); p.Left != 3*time.Second {
		t.Errorf("draining has %s left, the judge is told %s", r.Work.Left, p.Left)
	}
	if r.Phase = Undoing; r.drainPolicy(Looks{}, Primary, shown).Left != r.Spec.Deadlines.Drain {
		t.Error("the budget of another phase is not the drain's")
	}
}

func TestASignalThatSaysNothingOfALivePodIsNotWhole(t *testing.T) {
	seen := drain.Signals{Source: drain.SourceApp, Pods: []drain.PodSignal{{Pod: "a"}}, Missing: []string{"c"}}
	client := drain.Signals{Source: drain.SourceClient}
	for name, c := range map[string]struct {
		pods Fact[[]string]
		s    drain.Signals
		want []string
	}{
		"every pod is seen, or named already":      {Known([]string{"a", "c"}, time.Unix(1, 0)), seen, []string{"c"}},
		"one is not seen":                          {Known([]string{"a", "b"}, time.Unix(1, 0)), seen, []string{"c", "b"}},
		"the client's count is of no pod":          {Known([]string{"a", "b"}, time.Unix(1, 0)), client, nil},
		"without knowing the pods it is not whole": {Unseen[[]string]("away"), client, []string{"(the live pods are not known)"}},
	} {
		if got := missingPods(c.pods, c.s); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestALookThatIsTakenAgainReplacesTheOneBefore(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	rd := func(from, to int, n float64) Reading {
		return Reading{
			At:      at(to),
			Proxies: []ProxyLook{{Proxy: "gw", From: at(from), To: at(to), New: [2]float64{n, n}}},
			Drain:   [2]drain.Signals{{From: at(from), At: at(to), New: n}},
		}
	}
	l := Looks{}.Add(Observation{}, rd(0, 10, 1)).Add(Observation{}, rd(10, 20, 2)).Add(Observation{}, rd(10, 30, 5))
	if p := l.proxies["gw"]; len(p) != 2 || p[1].New[0] != 5 {
		t.Errorf("proxies: %+v", p)
	}
	if d := l.drain[Primary]; len(d) != 2 || d[1].New != 5 {
		t.Errorf("signals: %+v", d)
	}
	if l = l.Add(Observation{}, rd(0, 5, 1)); l.fresh != at(30) {
		t.Errorf("an old reading makes the telemetry as old as %s", l.fresh)
	}
}

func TestAProxyThatIsSilentIsNotOneThatSentNothing(t *testing.T) {
	s := told(t, toGating)
	l := Looks{
		proxies: map[string][]ProxyLook{"a": {{Proxy: "a", New: [2]float64{1, 9}}}, "b": {{Proxy: "b", New: [2]float64{1, 9}}}},
		silent:  []string{"b", "c"},
	}
	got := map[string]int{}
	for _, p := range l.proxyCounts(s.r) {
		got[p.Proxy] = len(p.Counts)
	}
	if len(got) != 3 || got["a"] != 1 || got["b"] != 0 || got["c"] != 0 {
		t.Errorf("%v", got)
	}
}

func TestCountsThatMayMixTwoSplitsAreWarmUp(t *testing.T) {
	s := told(t, toGating)
	shown := s.r.Shown
	l := Looks{}
	for _, from := range []time.Time{shown.Add(-5 * time.Second), shown, shown.Add(5 * time.Second)} {
		l.windows = append(l.windows, TrackWindow{From: from, To: from.Add(5 * time.Second), Counts: [2]analysis.Counts{{Requests: 1}, {Requests: 9}}})
	}
	for i, want := range []bool{true, false, false} {
		if w := s.r.windows(l)[i]; w.WarmUp != want || w.Candidate.Requests != 1 || w.Baseline.Requests != 9 {
			t.Errorf("window %d: %+v", i, w)
		}
	}
	s.r.Shown = time.Time{}
	for i, w := range s.r.windows(l) {
		if !w.WarmUp {
			t.Errorf("window %d counts, and nothing is shown", i)
		}
	}
}

func TestTheRateIsCountedSinceTheShareWasShown(t *testing.T) {
	s := told(t, toGating)
	shown := s.r.Shown
	look := func(from time.Time, p, c float64) ProxyLook {
		return ProxyLook{Proxy: "gw", From: from, To: from.Add(10 * time.Second), New: [2]float64{p, c}}
	}
	l := Looks{proxies: map[string][]ProxyLook{"gw": {look(shown.Add(-10*time.Second), 0, 500), look(shown, 10, 90)}}}
	if got := l.rates(s.r); got != [2]float64{1, 9} {
		t.Errorf("%v", got)
	}
	s.r.Target, s.r.Rate = 100, [2]float64{3, 7}
	if got := l.rates(s.r); got != [2]float64{1, 7} {
		t.Errorf("a track without share keeps its rate: %v", got)
	}
}

func TestOnlyATrackWithoutShareIsAskedForItsDrain(t *testing.T) {
	s := told(t, toDraining)
	_, o := Assess(s.r, Looks{}, Observation{Now: s.o.Now})
	if !o.Drain[Canary].Ok() || o.Drain[Primary].Ok() {
		t.Errorf("%+v", o.Drain)
	}
	s.r.Shown = time.Time{}
	if _, o = Assess(s.r, Looks{}, Observation{Now: s.o.Now}); o.Drain[Canary].Ok() {
		t.Error("nothing is shown, and the drain is judged")
	}
}
