package drain_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shifter-dev/shifter/internal/drain"
)

var since = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return since.Add(d) }

const scrape = 15 * time.Second

// look is the i-th scrape since the share was 0, with an app gauge on two pods.
func look(i int, fresh, inFlight float64) drain.Signals {
	return drain.Signals{
		From: at(time.Duration(i) * scrape), At: at(time.Duration(i+1) * scrape),
		New: fresh, Source: drain.SourceApp, InFlight: inFlight,
		Pods: []drain.PodSignal{{Pod: "a", InFlight: inFlight}, {Pod: "b"}},
	}
}

func none(i int, fresh float64) drain.Signals {
	return drain.Signals{
		From: at(time.Duration(i) * scrape), At: at(time.Duration(i+1) * scrape),
		New: fresh, Source: drain.SourceNone,
	}
}

func with(l drain.Signals, change func(*drain.Signals)) drain.Signals {
	change(&l)
	return l
}

func missing(l drain.Signals) drain.Signals {
	return with(l, func(l *drain.Signals) { l.Missing = []string{"c"} })
}

func sentBy(l drain.Signals, names ...string) drain.Signals {
	return with(l, func(l *drain.Signals) { l.Senders = names })
}

// usual has a quiet window of 25 s: five requests at 0.2 a second.
var usual = drain.Policy{OldRate: 0.2, Settle: 30 * time.Second, MaxRequest: time.Minute, Left: 5 * time.Minute}

func leftOver(p drain.Policy) drain.Policy { p.Left = 0; return p }

func TestJudge(t *testing.T) {
	tests := []struct {
		name   string
		policy drain.Policy
		looks  []drain.Signals
		now    time.Duration
		want   drain.Status
		check  func(drain.State) bool
	}{
		{
			"a quiet track with nothing in flight on two looks is drained",
			usual,
			[]drain.Signals{look(0, 3, 2), look(1, 0, 0), look(2, 0, 0)},
			46 * time.Second,
			drain.Drained,
			func(s drain.State) bool {
				return s.Quiet == 30*time.Second && s.Window == 25*time.Second && s.Took == 46*time.Second
			},
		},
		{
			"looks may come in any order and twice",
			usual,
			[]drain.Signals{look(2, 0, 0), look(1, 0, 0), look(0, 3, 2), look(1, 0, 0)},
			46 * time.Second,
			drain.Drained,
			nil,
		},
		{
			"one look at nothing in flight is not enough",
			usual,
			[]drain.Signals{look(0, 0, 0), look(1, 0, 1), look(2, 0, 0)},
			46 * time.Second,
			drain.Draining,
			func(s drain.State) bool { return strings.Contains(s.Why, "second") },
		},
		{
			"the same look read twice is one look",
			usual,
			[]drain.Signals{look(0, 0, 1), look(1, 0, 0), look(1, 0, 0)},
			31 * time.Second,
			drain.Draining,
			nil,
		},
		{
			"a pod in flight contradicts a sum of nothing",
			usual,
			[]drain.Signals{look(0, 0, 0), look(1, 0, 0), with(look(2, 0, 0), func(l *drain.Signals) { l.Pods[0].InFlight = 1 })},
			46 * time.Second,
			drain.Draining,
			func(s drain.State) bool { return s.InFlight == 1 },
		},
		{
			"a missing pod keeps it draining",
			usual,
			[]drain.Signals{look(0, 0, 0), missing(look(1, 0, 0)), look(2, 0, 0)},
			46 * time.Second,
			drain.Draining,
			nil,
		},
		{
			"the pod missing now is named",
			usual,
			[]drain.Signals{look(0, 0, 0), look(1, 0, 0), missing(look(2, 0, 0))},
			46 * time.Second,
			drain.Draining,
			func(s drain.State) bool { return strings.Contains(s.Why, "c") && s.Missing[0] == "c" },
		},
		{
			"quiet must last for the window",
			usual,
			[]drain.Signals{look(0, 1, 0), look(1, 0, 0)},
			31 * time.Second,
			drain.Draining,
			func(s drain.State) bool { return s.Quiet == 15*time.Second },
		},
		{
			"new requests keep it draining and name their senders",
			usual,
			[]drain.Signals{look(0, 0, 0), look(1, 0, 0), sentBy(look(2, 4, 0), "gateway", "web"), sentBy(look(3, 1, 0), "web")},
			61 * time.Second,
			drain.Draining,
			func(s drain.State) bool {
				return s.New == 5 && reflect.DeepEqual(s.Senders, []string{"gateway", "web"}) && strings.Contains(s.Why, "gateway, web")
			},
		},
		{
			"a time without looks between two of them proves nothing",
			usual,
			[]drain.Signals{look(0, 0, 0), look(3, 0, 0)},
			61 * time.Second,
			drain.Draining,
			func(s drain.State) bool { return s.Quiet == 15*time.Second },
		},
		{
			"an unknown old rate takes the settle time",
			drain.Policy{Settle: 40 * time.Second, Left: time.Minute},
			[]drain.Signals{look(0, 0, 0), look(1, 0, 0)},
			31 * time.Second,
			drain.Draining,
			func(s drain.State) bool { return s.Window == 40*time.Second },
		},
		{
			"so does a rate too small to bring five requests in it",
			drain.Policy{OldRate: 0.01, Settle: 30 * time.Second, Left: time.Minute},
			[]drain.Signals{look(0, 0, 0), look(1, 0, 0)},
			31 * time.Second,
			drain.Drained,
			func(s drain.State) bool { return s.Window == 30*time.Second },
		},
		{
			"a busy track is quiet soon",
			drain.Policy{OldRate: 1000, Settle: 30 * time.Second, Left: time.Minute},
			[]drain.Signals{look(0, 9, 4), look(1, 0, 0), look(2, 0, 0)},
			46 * time.Second,
			drain.Drained,
			func(s drain.State) bool { return s.Window == 5*time.Millisecond },
		},
		{
			"looks that begin before the share was 0 do not count",
			usual,
			[]drain.Signals{look(-2, 0, 0), look(-1, 0, 0), with(look(0, 0, 0), func(l *drain.Signals) { l.From = at(-time.Second) })},
			16 * time.Second,
			drain.Unknown,
			nil,
		},
		{
			"no looks say nothing",
			usual,
			nil,
			time.Minute,
			drain.Unknown,
			func(s drain.State) bool { return s.Why != "" },
		},
		{
			"looks that saw nothing say nothing",
			usual,
			[]drain.Signals{{}, {Source: drain.SourceApp}},
			time.Minute,
			drain.Unknown,
			nil,
		},
		{
			"stale looks say nothing, however quiet they were",
			usual,
			[]drain.Signals{look(0, 0, 0), look(1, 0, 0), look(2, 0, 0)},
			2 * time.Minute,
			drain.Unknown,
			func(s drain.State) bool { return strings.Contains(s.Why, "old") },
		},
		{
			"counts that are not numbers are not zero",
			usual,
			[]drain.Signals{look(0, 0, 0), look(1, 0, math.NaN()), look(2, 0, math.NaN())},
			46 * time.Second,
			drain.Draining,
			func(s drain.State) bool { return len(s.Missing) > 0 && s.InFlight == 0 },
		},
		{
			"new requests that are not a number are not none",
			usual,
			[]drain.Signals{look(0, 0, 0), look(1, 0, 0), look(2, math.NaN(), 0)},
			46 * time.Second,
			drain.Draining,
			nil,
		},
		{
			"a negative difference is not zero",
			usual,
			[]drain.Signals{look(0, 0, 0), look(1, 0, -1), look(2, 0, -1)},
			46 * time.Second,
			drain.Draining,
			nil,
		},
		{
			"without an in-flight signal the longest request is waited out",
			usual,
			[]drain.Signals{none(0, 0), none(1, 0), none(2, 0)},
			46 * time.Second,
			drain.Draining,
			func(s drain.State) bool { return strings.Contains(s.Why, "waited out") },
		},
		{
			"and then the drain is assumed",
			usual,
			[]drain.Signals{none(0, 0), none(1, 0), none(2, 0), none(3, 0)},
			61 * time.Second,
			drain.Assumed,
			nil,
		},
		{
			"the wait begins with the last new request",
			usual,
			[]drain.Signals{none(0, 0), none(1, 2), none(2, 0), none(3, 0), none(4, 0)},
			76 * time.Second,
			drain.Draining,
			nil,
		},
		{
			"at the deadline a quiet track with requests in flight is forced, and they are counted",
			leftOver(usual),
			[]drain.Signals{look(0, 0, 2), look(1, 0, 2), look(2, 0, 2)},
			46 * time.Second,
			drain.Forced,
			func(s drain.State) bool {
				return s.Cut == 2 && len(s.Pods) == 2 && s.Pods[0] == drain.PodSignal{Pod: "a", InFlight: 2}
			},
		},
		{
			"at the deadline a track that gets new requests is never forced",
			leftOver(usual),
			[]drain.Signals{look(0, 0, 2), look(1, 0, 2), sentBy(look(2, 1, 2), "old-gateway")},
			46 * time.Second,
			drain.Draining,
			func(s drain.State) bool { return s.Cut == 0 && s.Senders[0] == "old-gateway" },
		},
		{
			"at the deadline a pod that is missing is not taken for quiet",
			leftOver(usual),
			[]drain.Signals{look(0, 0, 0), missing(look(1, 0, 0)), missing(look(2, 0, 0))},
			46 * time.Second,
			drain.Unknown,
			nil,
		},
		{
			"but it is waited out",
			leftOver(usual),
			[]drain.Signals{missing(look(0, 0, 0)), missing(look(1, 0, 0)), missing(look(2, 0, 0)), missing(look(3, 0, 0))},
			61 * time.Second,
			drain.Assumed,
			func(s drain.State) bool { return strings.Contains(s.Why, "c") },
		},
		{
			"at the deadline the requests known are cut, and the pod that is missing is named",
			leftOver(usual),
			[]drain.Signals{look(0, 0, 2), look(1, 0, 2), missing(look(2, 0, 2))},
			46 * time.Second,
			drain.Forced,
			func(s drain.State) bool {
				return s.Cut == 2 && strings.Contains(s.Why, "at least 2") && strings.Contains(s.Why, "c")
			},
		},
		{
			"at the deadline one look at nothing in flight ends it with nothing cut",
			leftOver(usual),
			[]drain.Signals{look(0, 0, 1), look(1, 0, 0)},
			31 * time.Second,
			drain.Forced,
			func(s drain.State) bool { return s.Cut == 0 },
		},
		{
			"at the deadline measured quiet still counts as drained",
			leftOver(usual),
			[]drain.Signals{look(0, 0, 0), look(1, 0, 0)},
			31 * time.Second,
			drain.Drained,
			nil,
		},
		{
			"at the deadline without any signal it is unknown at first",
			leftOver(usual),
			nil,
			89 * time.Second,
			drain.Unknown,
			nil,
		},
		{
			"and assumed when settle time and longest request have passed",
			leftOver(usual),
			nil,
			90 * time.Second,
			drain.Assumed,
			nil,
		},
		{
			"signals that ceased while requests came are waited out from there",
			leftOver(usual),
			[]drain.Signals{look(0, 0, 0), look(1, 5, 3)},
			110 * time.Second,
			drain.Unknown,
			nil,
		},
		{
			"and then assumed",
			leftOver(usual),
			[]drain.Signals{look(0, 0, 0), look(1, 5, 3)},
			120 * time.Second,
			drain.Assumed,
			nil,
		},
		{
			"at the deadline looks with holes between them end in what is known",
			leftOver(usual),
			[]drain.Signals{look(0, 0, 1), look(3, 0, 1), look(6, 0, 1)},
			106 * time.Second,
			drain.Forced,
			func(s drain.State) bool { return s.Cut == 1 },
		},
		{
			"and nothing in flight there is assumed, not seen",
			leftOver(usual),
			[]drain.Signals{look(0, 0, 0), look(3, 0, 0), look(6, 0, 0)},
			106 * time.Second,
			drain.Assumed,
			nil,
		},
		{
			"of two looks at one time the one with new requests counts",
			usual,
			[]drain.Signals{look(0, 0, 0), look(1, 0, 0), sentBy(look(2, 3, 0), "web"), look(2, 0, 0)},
			46 * time.Second,
			drain.Draining,
			func(s drain.State) bool { return s.New == 3 && s.Senders[0] == "web" },
		},
		{
			"and the one with requests in flight",
			usual,
			[]drain.Signals{look(0, 0, 0), look(1, 0, 0), look(2, 0, 4), look(2, 0, 0)},
			46 * time.Second,
			drain.Draining,
			func(s drain.State) bool { return s.InFlight == 4 },
		},
		{
			"no pods are no requests in flight",
			usual,
			[]drain.Signals{
				with(look(0, 0, 0), func(l *drain.Signals) { l.Pods = nil }),
				with(look(1, 0, 0), func(l *drain.Signals) { l.Pods = nil }),
			},
			31 * time.Second,
			drain.Drained,
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := drain.Judge(tt.policy, tt.looks, since, at(tt.now))
			if got.Status != tt.want {
				t.Fatalf("got %s (%s), want %s", got.Status, got.Why, tt.want)
			}
			if got.Why == "" || strings.Count(got.Why, "\n") > 0 {
				t.Errorf("why is %q, want one sentence", got.Why)
			}
			if tt.check != nil && !tt.check(got) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func anyLooks() *rapid.Generator[[]drain.Signals] {
	return rapid.Custom(func(t *rapid.T) []drain.Signals {
		var out []drain.Signals
		small := rapid.SampledFrom([]float64{0, 0, 0, 0, 1, 2.5, -1, math.NaN(), math.Inf(1)})
		for i := range rapid.IntRange(0, 8).Draw(t, "looks") {
			from := time.Duration(i)*scrape + time.Duration(rapid.IntRange(-20, 3).Draw(t, "early"))*time.Second
			l := drain.Signals{
				From: at(from), At: at(time.Duration(i+1) * scrape),
				New: small.Draw(t, "new"), InFlight: small.Draw(t, "in flight"),
				Source: rapid.SampledFrom([]drain.Source{"", drain.SourceApp, drain.SourceNone}).Draw(t, "source"),
			}
			if rapid.IntRange(0, 5).Draw(t, "is missing") == 0 {
				l.Missing = []string{"c"}
			}
			if rapid.Bool().Draw(t, "with pods") {
				l.Pods = []drain.PodSignal{{Pod: "a", InFlight: small.Draw(t, "pod")}}
			}
			if rapid.IntRange(0, 5).Draw(t, "unseen") == 0 {
				l.At = time.Time{}
			}
			out = append(out, l)
		}
		return out
	})
}

func anyPolicy() *rapid.Generator[drain.Policy] {
	return rapid.Custom(func(t *rapid.T) drain.Policy {
		return drain.Policy{
			OldRate:    rapid.SampledFrom([]float64{0, 0.1, 0.5, 100, math.Inf(1), math.NaN(), -1}).Draw(t, "rate"),
			Settle:     time.Duration(rapid.IntRange(0, 60).Draw(t, "settle")) * time.Second,
			MaxRequest: time.Duration(rapid.IntRange(0, 90).Draw(t, "request")) * time.Second,
			Left:       time.Duration(rapid.IntRange(-1, 1).Draw(t, "left")) * time.Minute,
		}
	})
}

func newest(looks []drain.Signals, now time.Time) (drain.Signals, bool) {
	var last drain.Signals
	for _, l := range looks {
		if l.At.After(last.At) && !l.From.Before(since) && !l.At.After(now.Add(5*time.Second)) {
			last = l
		}
	}
	return last, !last.At.IsZero()
}

func TestWhatIsNotSeenIsNeverQuiet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		looks, p := anyLooks().Draw(t, "looks"), anyPolicy().Draw(t, "policy")
		now := at(time.Duration(rapid.IntRange(0, 300).Draw(t, "now")) * time.Second)
		kept := append([]drain.Signals(nil), looks...)
		got := drain.Judge(p, looks, since, now)

		last, seen := newest(looks, now)
		busy := last.InFlight != 0 || len(last.Pods) > 0 && last.Pods[0].InFlight != 0
		unseen := len(last.Missing) > 0 || last.Source == drain.SourceNone || last.Source == ""
		switch {
		case got.Status == drain.Drained && (!seen || busy || unseen || last.New != 0):
			t.Fatalf("drained on %+v", last)
		case got.Status == drain.Forced && (!seen || p.Left > 0 || last.New != 0 || got.Cut != got.InFlight):
			t.Fatalf("forced %+v on %+v with %s left", got, last, p.Left)
		case got.Status == drain.Assumed && now.Sub(since) < p.MaxRequest-5*time.Second:
			t.Fatalf("assumed after %s", now.Sub(since))
		case got.Status == drain.Assumed && seen && last.New != 0 && now.Sub(last.At) < p.MaxRequest-5*time.Second:
			t.Fatalf("assumed though %v new requests came at %s", last.New, last.At)
		case got.Status == "" || got.Why == "":
			t.Fatalf("no answer: %+v", got)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatalf("the state cannot be written: %v", err)
		}
		if len(kept) > 0 && !sameLooks(kept, looks) {
			t.Fatal("the looks were changed")
		}
	})
}

func sameLooks(a, b []drain.Signals) bool {
	for i := range a {
		if !a[i].At.Equal(b[i].At) || !a[i].From.Equal(b[i].From) || len(a[i].Missing) != len(b[i].Missing) || len(a[i].Pods) != len(b[i].Pods) {
			return false
		}
	}
	return len(a) == len(b)
}

func TestEveryDrainWithoutNewRequestsEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		looks, p := anyLooks().Draw(t, "looks"), leftOver(anyPolicy().Draw(t, "policy"))
		for i := range looks {
			looks[i].New = 0
		}
		now := at(150*time.Second + time.Duration(rapid.IntRange(0, 300).Draw(t, "now"))*time.Second)
		if got := drain.Judge(p, looks, since, now); !got.Status.Over() {
			t.Fatalf("%s after everything was waited out: %s", got.Status, got.Why)
		}
	})
}
