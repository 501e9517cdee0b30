package analysis_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

func TestDefaultsAreThoseOfTheReference(t *testing.T) {
	want := analysis.Settings{
		Alpha: .01, AlphaPass: .05, MaxErrorRateDelta: .005, MaxErrorRateRatio: 1.5, Mode: "both",
		MinRequests: 300, MinBaselineRequests: 100, MinScrapes: 4, MaxErrorRate: .25, EqualHarm: true,
		Soak: 5 * time.Minute, MaxWindow: 30 * time.Minute, TelemetryGrace: 2 * time.Minute,
		MaxSlowShareDelta: .01, MaxSlowShareRatio: 1.5, MaxCPURatio: 1.3, MaxMemoryRatio: 1.3,
	}
	if got := analysis.Defaults(); got != want {
		t.Errorf("got %+v", got)
	}
	if bad := analysis.Defaults().Validate(); len(bad) > 0 {
		t.Errorf("the defaults cannot be used: %v", bad)
	}
}

func TestValidateNamesEveryBadField(t *testing.T) {
	tests := []struct {
		name   string
		change func(*analysis.Settings)
		want   string // fields
	}{
		{"no margin at all", func(s *analysis.Settings) { s.MaxErrorRateDelta, s.MaxErrorRateRatio = 0, 0 }, "maxErrorRateDelta"},
		{"one margin is enough", func(s *analysis.Settings) { s.MaxErrorRateDelta = 0 }, ""},
		{"the other is too", func(s *analysis.Settings) { s.MaxErrorRateRatio = 0 }, ""},
		{"percent instead of a share", func(s *analysis.Settings) { s.MaxErrorRateDelta, s.MaxErrorRate = 5, 25 }, "maxErrorRateDelta maxErrorRate"},
		{"a ratio below one", func(s *analysis.Settings) { s.MaxErrorRateRatio = .5 }, "maxErrorRateRatio"},
		{"no alpha", func(s *analysis.Settings) { s.Alpha, s.AlphaPass = 0, 1 }, "alpha alphaPass"},
		{"not a number", func(s *analysis.Settings) { s.Alpha, s.MinRequests = math.NaN(), math.NaN() }, "alpha minRequests"},
		{"an unknown mode", func(s *analysis.Settings) { s.Mode = "any" }, "mode"},
		{"no minima", func(s *analysis.Settings) { s.MinRequests, s.MinBaselineRequests, s.MinScrapes = 0, 0, 0 }, "minRequests minBaselineRequests minScrapes"},
		{"a soak that outlasts the window", func(s *analysis.Settings) { s.Soak = time.Hour }, "soak"},
		{"negative times", func(s *analysis.Settings) { s.Soak, s.MaxWindow, s.TelemetryGrace = -1, -1, -1 }, "soak maxWindow telemetryGrace"},
		{"a guarantee in between", func(s *analysis.Settings) { s.ToleranceGuarantee = .3 }, "toleranceGuarantee"},
		{"a guarantee of a margin that is not set", func(s *analysis.Settings) { s.ToleranceGuarantee, s.MaxErrorRateDelta = 1, 0 }, "toleranceGuarantee"},
		{
			"nothing set at all",
			func(s *analysis.Settings) { *s = analysis.Settings{} },
			"alpha alphaPass maxErrorRateDelta mode minRequests minBaselineRequests minScrapes maxErrorRate maxWindow telemetryGrace",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := analysis.Defaults()
			tt.change(&s)
			var fields []string
			for _, e := range s.Validate() {
				fields = append(fields, e.Field)
				if e.Problem == "" || !strings.HasPrefix(e.Error(), e.Field+": ") {
					t.Errorf("%q says nothing", e.Error())
				}
			}
			if got := strings.Join(fields, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMarginWidensWhereLittleHarmIsDone(t *testing.T) {
	s := analysis.Defaults()
	for share, want := range map[float64]float64{.1: .025, .25: .01, .5: .005, .9: .005, 0: .005, .001: .25} {
		if got := s.Margin(share); math.Abs(got-want) > 1e-12 {
			t.Errorf("at %v it is %v, want %v", share, got, want)
		}
	}
	s.EqualHarm = false
	if got := s.Margin(.1); got != .005 {
		t.Errorf("without equal harm it is %v", got)
	}
}

func TestExpectedRequestsAreThoseOfTheReference(t *testing.T) {
	s := analysis.Defaults()
	s.MinRequests, s.MinBaselineRequests = 1, 1
	for rate, want := range map[float64][3]float64{
		.0005: {230, 630, 1444},
		.001:  {244, 708, 1776},
		.005:  {334, 1264, 4689},
		.02:   {626, 3339, 6490},
		.05:   {1194, 1614, 2596},
	} {
		for i, share := range []float64{10, 25, 50} {
			if got := analysis.Expect(s, share, 100, rate).Requests; math.Round(got) != want[i] {
				t.Errorf("%v %% bad at %v %%: %v requests, want %v", 100*rate, share, got, want[i])
			}
		}
	}
}

func TestExpect(t *testing.T) {
	tests := []struct {
		name             string
		change           func(*analysis.Settings)
		share, rps, rate float64
		check            func(analysis.Expectation) bool
	}{
		{"a busy service waits for the soak", nil, 10, 100, .005, func(e analysis.Expectation) bool {
			return e.Time == 5*time.Minute && e.Certifiable
		}},
		{"without it the proof decides", noSoak, 50, 100, .005, func(e analysis.Expectation) bool {
			return math.Abs(e.Time.Seconds()-4689/50.) < 1 && e.Certifiable
		}},
		{"the minimum is a floor", noSoak, 10, 100, .0005, func(e analysis.Expectation) bool {
			return e.Requests == 300 && e.Time == 30*time.Second
		}},
		{"so is the baseline's", noSoak, 99, 100, 0, func(e analysis.Expectation) bool {
			return math.Abs(e.Requests-9900) < 1e-6
		}},
		{"five requests a second do not certify 50 %", nil, 50, 5, .005, func(e analysis.Expectation) bool {
			// The way out: a margin at which it works.
			return !e.Certifiable && e.Time > 30*time.Minute && e.Margin > .005 && e.Margin < .01
		}},
		{"and the margin named is one that does", func(s *analysis.Settings) {
			s.MaxErrorRateDelta = analysis.Expect(analysis.Defaults(), 50, 5, .005).Margin
		}, 50, 5, .005, func(e analysis.Expectation) bool { return e.Certifiable && e.Time > 29*time.Minute }},
		{"a longer window is another", func(s *analysis.Settings) { s.MaxWindow = time.Hour }, 50, 5, .005, func(e analysis.Expectation) bool {
			return e.Certifiable
		}},
		{"many errors certify by the ratio alone", nil, 50, 100, .05, func(e analysis.Expectation) bool {
			return e.Certifiable && e.Margin == 0
		}},
		{"no traffic certifies nothing", nil, 10, 0, .005, func(e analysis.Expectation) bool {
			return !e.Certifiable && e.Margin == 1 && e.Time == 30*24*time.Hour && e.Requests == 0
		}},
		{"a ratio says nothing about a service without errors", func(s *analysis.Settings) { s.MaxErrorRateDelta = 0 }, 50, 100, 0, func(e analysis.Expectation) bool {
			return !e.Certifiable && e.Requests == 0 && e.Margin > 0 && e.Margin < .001
		}},
		{"nor can mode either do without it", func(s *analysis.Settings) { s.Mode = analysis.ModeEither }, 50, 100, 0, func(e analysis.Expectation) bool {
			return !e.Certifiable && e.Margin == 1
		}},
		{"at 100 the soak and the minimum are all", nil, 100, 100, .005, func(e analysis.Expectation) bool {
			return e.Time == 5*time.Minute && e.Certifiable && e.Requests == 300
		}},
		{"at 100 with next to no traffic the minimum does not come", nil, 100, .1, .005, func(e analysis.Expectation) bool {
			return e.Time == 50*time.Minute && !e.Certifiable
		}},
		{"a rate that is none is no expectation", nil, 10, 100, math.NaN(), func(e analysis.Expectation) bool { return !e.Certifiable }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := analysis.Defaults()
			if tt.change != nil {
				tt.change(&s)
			}
			if got := analysis.Expect(s, tt.share, tt.rps, tt.rate); !tt.check(got) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
