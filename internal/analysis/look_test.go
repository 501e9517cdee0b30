package analysis_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// look makes what one look brings: of each of 20 pods the errors, gathered from
// 3 codes, and 13 buckets of latency.
func look(k int) []analysis.Window {
	w := newSlowWorld(uint64(k))
	w.ticks = k
	var out []analysis.Window
	from, to := at(time.Duration(k)*scrape), at(time.Duration(k+1)*scrape)
	for pod := range 20 {
		ws := slowWindows(from, to, fmt.Sprintf("pod-%02d", pod), w.buckets(75, 1, 0), w.buckets(75, 1, 0))
		for _, bad := range []float64{w.poisson(.2), w.poisson(.1), w.poisson(.1)} {
			ws[0].Candidate.Bad += bad
		}
		ws[0].Baseline.Bad = w.poisson(.4)
		out = append(out, ws...)
	}
	return out
}

// lateGate is a gate in its third step with all of its copies.
func lateGate() (analysis.Gate, analysis.Settings, int) {
	s := analysis.Defaults()
	watch, _ := analysis.Bounds(histogram(), analysis.Percentiles()...)
	watch.Usage = []string{analysis.MetricCPU, analysis.MetricMemory}
	var g analysis.Gate
	k := 0
	for i, share := range []float64{10, 25, 50} {
		st := stepAt(i, share, k)
		st.Watch = watch
		g = g.StartStep(st)
		for range 8 {
			g = g.Add(s, look(k))
			k++
		}
	}
	return g, s, k
}

// BenchmarkLook is the judging of one look: fold what came, and answer.
func BenchmarkLook(b *testing.B) {
	g, s, k := lateGate()
	ws := look(k)
	h := analysis.Health{Scrape: scrape}
	now := at(time.Duration(k+1) * scrape)
	b.ReportAllocs()
	for b.Loop() {
		if v := g.Add(s, ws).Verdict(s, h, now); v.Outcome == "" {
			b.Fatal("no verdict")
		}
	}
}

// What is saved after every look must stay small.
func TestGateOfManyPodsStaysSmall(t *testing.T) {
	g, s, k := lateGate()
	text, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(text))
	if len(text) > 64<<10 {
		t.Errorf("a gate of 20 pods has %d bytes", len(text))
	}
	v, err := json.Marshal(g.Verdict(s, analysis.Health{Scrape: scrape}, at(time.Duration(k)*scrape)))
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("a verdict has %d bytes", len(v)); len(v) > 8<<10 {
		t.Errorf("a verdict has %d bytes", len(v))
	}
}
