package telemetry_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shifter-dev/shifter/internal/telemetry"
)

// Splitting an interval into looks sums to the same counts as one look, with
// restarts, births, gaps of up to four scrapes, proxies at different offsets,
// scrapes that become visible late, and repeated looks.
func TestLooksAddUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const scrapes = 12
		w := newWorld(t)
		proxies := rapid.IntRange(1, 3).Draw(rt, "proxies")
		for p := range proxies {
			drawProxy(rt, w, fmt.Sprintf("p%d", p), scrapes)
		}
		eyes := eyesOn(t, w, func(s *telemetry.Source) { s.Client = direct{w} })
		end := float64(scrapes) + 0.7 // all is visible
		since := rapid.Float64Range(0, 4).Draw(rt, "since")
		whole := look(t, eyes, ask(tick(since), tick(end)))

		var sum [2]counted
		var started [2]float64
		at := tick(since)
		for now := since; now < end; {
			now = min(now+rapid.Float64Range(0.4, 4).Draw(rt, "wait"), end)
			r := look(t, eyes, ask(at, tick(now)))
			if r.Trouble != "" {
				continue
			}
			for i, c := range total(r) {
				sum[i] = sum[i].Add(c)
				started[i] += begun(r)[i]
			}
			if r.At.After(at) {
				at = r.At
			}
		}
		if want := total(whole); sum != want {
			rt.Fatalf("looks sum to %v, one look to %v\n%s", sum, want, w)
		}
		if want := begun(whole); started != want {
			rt.Fatalf("looks begin %v, one look %v\n%s", started, want, w)
		}
		if !at.Equal(whole.At) {
			rt.Fatalf("looks end at %v, one look at %v", at, whole.At)
		}
	})
}

// drawProxy adds the counters of a proxy. All of them are scraped together; the
// first scrape is always there, so that the proxy is known when looks begin.
func drawProxy(rt *rapid.T, w *world, name string, scrapes int) {
	offset := rapid.Float64Range(-1, 0).Draw(rt, "offset")
	late := rapid.SliceOfN(rapid.Float64Range(0, 0.6), scrapes+2, scrapes+2).Draw(rt, "late")
	missed := make([]bool, scrapes+2)
	for i, run := 2, 0; i < len(missed)-2; i++ { // the last ones are there, so that all proxies keep pace
		if run < 1 && rapid.IntRange(0, 5).Draw(rt, "miss") == 0 {
			missed[i] = true
			run++
		} else {
			run = 0
		}
	}
	restart := rapid.IntRange(1, 3*scrapes).Draw(rt, "restart")
	for _, service := range []string{"echo-v1", "echo-v2"} {
		for _, code := range []string{"started", "200", "500"} {
			birth := rapid.IntRange(0, scrapes).Draw(rt, "birth")
			if service == "echo-v1" && code != "500" {
				birth = 0
			}
			var b strings.Builder
			v := rapid.IntRange(0, 1000).Draw(rt, "v")
			for i := range missed {
				if i == restart {
					v = 0
				}
				v += rapid.IntRange(0, 20).Draw(rt, "inc")
				if missed[i] || i < birth {
					b.WriteString("- ")
				} else {
					fmt.Fprintf(&b, "%d ", v)
				}
			}
			line := ends(name, service, code, fmt.Sprintf("@%g %s", offset, b.String()))
			if code == "started" {
				line = starts(name, service, fmt.Sprintf("@%g %s", offset, b.String()))
			}
			w.add(line)
			s := w.series[len(w.series)-1]
			for i := range s.samples {
				s.samples[i].visible = s.samples[i].at.Add(tick(late[i]).Sub(epoch))
			}
		}
	}
}

func (w *world) String() string {
	var b strings.Builder
	for _, s := range w.series {
		fmt.Fprintf(&b, "%s", s.labels)
		for _, v := range s.samples {
			if !v.missed() {
				fmt.Fprintf(&b, " %.2f:%g", v.at.Sub(epoch).Seconds()/scrape.Seconds(), v.value)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
