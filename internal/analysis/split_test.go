package analysis_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// sent is what a proxy sent in the i-th five seconds after the write.
func sent(i int, in, out float64) analysis.ShareCount {
	return analysis.ShareCount{
		From: at(time.Duration(i) * 5 * time.Second), To: at(time.Duration(i+1) * 5 * time.Second),
		Incoming: in, Outgoing: out,
	}
}

func proxy(name string, counts ...analysis.ShareCount) analysis.ProxyCounts {
	return analysis.ProxyCounts{Proxy: name, Counts: counts}
}

func TestShownNeedIsWhatTellsTwoSharesApart(t *testing.T) {
	for _, tt := range []struct{ prev, target, want float64 }{
		{0, 10, 73}, // ln(0.0005)/ln(0.9): one request of the new share is sure to be seen
		{10, 25, 268},
		{25, 50, 159},
		{50, 25, 159},
		{50, 100, 11},
		{50, 0, 11},
		{0, 100, 1},
		{25, 25, 1},
		{math.NaN(), 10, 1},
	} {
		if got := analysis.ShownNeed(tt.prev, tt.target); got != tt.want {
			t.Errorf("from %v to %v: %v, want %v", tt.prev, tt.target, got, tt.want)
		}
	}
}

func TestJudgeShown(t *testing.T) {
	tests := []struct {
		name         string
		prev, target float64
		per          []analysis.ProxyCounts
		now          time.Duration
		want         analysis.ShownStatus
		check        func(analysis.Shown) bool
	}{
		{
			"a share in the interval of the target is shown",
			0, 10,
			[]analysis.ProxyCounts{proxy("gw", sent(0, 9, 91))},
			6 * time.Second,
			analysis.ShownYes,
			func(s analysis.Shown) bool {
				return s.Share == 9 && s.Requests == 100 && s.Need == 73 && s.At.Equal(at(5*time.Second))
			},
		},
		{
			"the previous share is not",
			0, 10,
			[]analysis.ProxyCounts{proxy("gw", sent(0, 0, 100))},
			6 * time.Second,
			analysis.ShownNo,
			func(s analysis.Shown) bool { return slices.Equal(s.Lagging, []string{"gw"}) },
		},
		{
			"too few requests say nothing",
			0, 10,
			[]analysis.ProxyCounts{proxy("gw", sent(0, 7, 63))},
			6 * time.Second,
			analysis.ShownUnknown,
			nil,
		},
		{
			"old counts age out when the newest are enough",
			10, 25,
			[]analysis.ProxyCounts{proxy("gw", sent(0, 40, 360), sent(1, 60, 340), sent(2, 100, 300))},
			16 * time.Second,
			analysis.ShownYes,
			func(s analysis.Shown) bool { return s.Requests == 400 && s.Share == 25 },
		},
		{
			"and count while they are needed",
			10, 25,
			[]analysis.ProxyCounts{proxy("gw", sent(0, 10, 90), sent(1, 25, 75), sent(2, 25, 75))},
			16 * time.Second,
			analysis.ShownYes,
			func(s analysis.Shown) bool { return s.Requests == 300 && s.Share == 20 },
		},
		{
			"counts that began before the write do not count",
			10, 25,
			[]analysis.ProxyCounts{proxy("gw", sent(-2, 500, 1500), sent(0, 25, 75))},
			6 * time.Second,
			analysis.ShownUnknown,
			func(s analysis.Shown) bool { return s.Requests == 100 },
		},
		{
			"one lagging proxy keeps the split from being shown, and is named",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 500, 500)), proxy("b", sent(0, 50, 150)), proxy("c", sent(0, 480, 520))},
			6 * time.Second,
			analysis.ShownNo,
			func(s analysis.Shown) bool { return slices.Equal(s.Lagging, []string{"b"}) },
		},
		{
			"a silent proxy makes it unknown, and is named",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 500, 500)), proxy("b")},
			6 * time.Second,
			analysis.ShownUnknown,
			func(s analysis.Shown) bool { return slices.Equal(s.Silent, []string{"b"}) && s.Share == 50 },
		},
		{
			"a proxy heard before the write only is silent",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 500, 500)), proxy("b", sent(-1, 500, 500))},
			6 * time.Second,
			analysis.ShownUnknown,
			func(s analysis.Shown) bool { return slices.Equal(s.Silent, []string{"b"}) },
		},
		{
			"a proxy not heard for long is silent",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 500, 500), sent(30, 500, 500)), proxy("b", sent(0, 500, 500))},
			156 * time.Second,
			analysis.ShownUnknown,
			func(s analysis.Shown) bool { return slices.Equal(s.Silent, []string{"b"}) },
		},
		{
			"a lagging proxy outweighs a silent one",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 100, 300)), proxy("b")},
			6 * time.Second,
			analysis.ShownNo,
			func(s analysis.Shown) bool { return len(s.Lagging) == 1 && len(s.Silent) == 1 },
		},
		{
			"small proxies are judged together",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 40, 50)), proxy("b", sent(0, 50, 40))},
			6 * time.Second,
			analysis.ShownYes,
			func(s analysis.Shown) bool { return s.Requests == 180 },
		},
		{
			"and named together when they lag",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 25, 75)), proxy("b", sent(0, 25, 75))},
			6 * time.Second,
			analysis.ShownNo,
			func(s analysis.Shown) bool { return slices.Equal(s.Lagging, []string{"a", "b"}) },
		},
		{
			"a pool too small to judge makes it unknown",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 500, 500)), proxy("b", sent(0, 10, 10))},
			6 * time.Second,
			analysis.ShownUnknown,
			nil,
		},
		{
			"unless it is less than a hundredth of all and fits",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 5000, 5000)), proxy("b", sent(0, 10, 10))},
			6 * time.Second,
			analysis.ShownYes,
			nil,
		},
		{
			"but not when it does not fit",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 5000, 5000)), proxy("b", sent(0, 0, 20))},
			6 * time.Second,
			analysis.ShownUnknown,
			nil,
		},
		{
			"a proxy that reports and sends nothing holds up nothing",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 500, 500)), proxy("b", sent(0, 0, 0))},
			6 * time.Second,
			analysis.ShownYes,
			nil,
		},
		{
			"no requests at all are unknown",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 0, 0))},
			6 * time.Second,
			analysis.ShownUnknown,
			nil,
		},
		{
			"no proxies are unknown",
			25, 50,
			nil,
			6 * time.Second,
			analysis.ShownUnknown,
			nil,
		},
		{
			"at 0 it is exact: no request at all",
			50, 0,
			[]analysis.ProxyCounts{proxy("a", sent(0, 0, 10000))},
			6 * time.Second,
			analysis.ShownYes,
			nil,
		},
		{
			"and one is too many",
			50, 0,
			[]analysis.ProxyCounts{proxy("a", sent(0, 1, 10000))},
			6 * time.Second,
			analysis.ShownNo,
			nil,
		},
		{
			"of a small proxy too",
			50, 0,
			[]analysis.ProxyCounts{proxy("a", sent(0, 0, 10000)), proxy("b", sent(0, 1, 2)), proxy("c", sent(0, 0, 2))},
			6 * time.Second,
			analysis.ShownNo,
			func(s analysis.Shown) bool { return slices.Equal(s.Lagging, []string{"b"}) },
		},
		{
			"at 100 it is exact as well",
			50, 100,
			[]analysis.ProxyCounts{proxy("a", sent(0, 10000, 1))},
			6 * time.Second,
			analysis.ShownNo,
			nil,
		},
		{
			"and shown when nothing goes elsewhere",
			50, 100,
			[]analysis.ProxyCounts{proxy("a", sent(0, 11, 0))},
			6 * time.Second,
			analysis.ShownYes,
			nil,
		},
		{
			"very many requests may be two points off",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 515000, 485000))},
			6 * time.Second,
			analysis.ShownYes,
			nil,
		},
		{
			"but not three",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, 530000, 470000))},
			6 * time.Second,
			analysis.ShownNo,
			nil,
		},
		{
			"nor as far as the previous share",
			0, 1,
			[]analysis.ProxyCounts{proxy("a", sent(0, 0, 100000))},
			6 * time.Second,
			analysis.ShownNo,
			nil,
		},
		{
			"even where that is near",
			10, 11,
			[]analysis.ProxyCounts{proxy("a", sent(0, 100000, 900000))},
			6 * time.Second,
			analysis.ShownNo,
			nil,
		},
		{
			"a share that has not changed is shown by what fits it",
			25, 25,
			[]analysis.ProxyCounts{proxy("a", sent(0, 3, 7))},
			6 * time.Second,
			analysis.ShownYes,
			nil,
		},
		{
			"and not by what does not",
			25, 25,
			[]analysis.ProxyCounts{proxy("a", sent(0, 60, 40))},
			6 * time.Second,
			analysis.ShownNo,
			nil,
		},
		{
			"counts that are not numbers are no report",
			25, 50,
			[]analysis.ProxyCounts{proxy("a", sent(0, math.NaN(), 100), sent(1, -1, 100), sent(2, math.Inf(1), 3))},
			16 * time.Second,
			analysis.ShownUnknown,
			func(s analysis.Shown) bool { return slices.Equal(s.Silent, []string{"a"}) },
		},
		{
			"a share that is none is unknown",
			25, math.NaN(),
			[]analysis.ProxyCounts{proxy("a", sent(0, 500, 500))},
			6 * time.Second,
			analysis.ShownUnknown,
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := analysis.JudgeShown(tt.prev, tt.target, tt.per, origin, at(tt.now))
			if got.Status != tt.want {
				t.Fatalf("got %+v, want %s", got, tt.want)
			}
			if tt.check != nil && !tt.check(got) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A data plane that serves the target is taken as such, and one that still
// serves the previous share never is.
func TestShownIsRarelyWrong(t *testing.T) {
	for _, tt := range [][2]float64{{0, 10}, {10, 25}, {25, 50}, {50, 25}, {50, 100}, {50, 0}} {
		const trials = 300
		refused, fooled := 0, 0
		for i := range trials {
			w := newWorld(uint64(i), 0, 0)
			n := int(analysis.ShownNeed(tt[0], tt[1]))
			draw := func(share float64) analysis.ProxyCounts {
				in := 0.0
				for range n {
					if w.rng.Float64() < share/100 {
						in++
					}
				}
				return proxy("a", sent(0, in, float64(n)-in))
			}
			judge := func(p analysis.ProxyCounts) analysis.ShownStatus {
				return analysis.JudgeShown(tt[0], tt[1], []analysis.ProxyCounts{p}, origin, at(6*time.Second)).Status
			}
			if judge(draw(tt[1])) != analysis.ShownYes {
				refused++
			}
			if judge(draw(tt[0])) == analysis.ShownYes {
				fooled++
			}
		}
		if refused > 3 || fooled > 3 {
			t.Errorf("from %v to %v: %d of %d refused, %d fooled", tt[0], tt[1], refused, trials, fooled)
		}
	}
}

func TestShownNeverSaysYesWithoutProof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SampledFrom([]float64{0, 1, 10, 25, 50, 99, 100})
		prev, target := shares.Draw(t, "prev"), shares.Draw(t, "target")
		var per []analysis.ProxyCounts
		silent := false
		for range rapid.IntRange(0, 4).Draw(t, "proxies") {
			p := proxy("p")
			for i := range rapid.IntRange(0, 3).Draw(t, "counts") {
				p.Counts = append(p.Counts, sent(i-1, rapid.SampledFrom([]float64{0, 1, 50, 1000}).Draw(t, "in"), rapid.SampledFrom([]float64{0, 1, 50, 1000}).Draw(t, "out")))
			}
			silent = silent || len(p.Counts) < 2 // the first began before the write
			per = append(per, p)
		}
		got := analysis.JudgeShown(prev, target, per, origin, at(11*time.Second))
		switch {
		case got.Status == analysis.ShownYes && (silent || got.Requests < got.Need || len(got.Lagging) > 0):
			t.Fatalf("yes on %+v", got)
		case got.Status == analysis.ShownYes && target == 0 && got.Share > 0:
			t.Fatalf("yes at 0 with a share of %v", got.Share)
		case got.Status == analysis.ShownYes && target == 100 && got.Share < 100:
			t.Fatalf("yes at 100 with a share of %v", got.Share)
		case got.Status == analysis.ShownNo && len(got.Lagging) == 0:
			t.Fatalf("no without a name: %+v", got)
		case silent && len(got.Silent) == 0:
			t.Fatalf("a silent proxy is not named: %+v", got)
		}
	})
}
