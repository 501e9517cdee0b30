package telemetry

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/shifter-dev/shifter/internal/release"
)

// benchMatrix is 20 pods with 3 codes and 13 buckets for each of them, by 10
// scrapes: 60 counters and 780 buckets.
func benchMatrix(now int64) (model.Matrix, [2][]string) {
	var m model.Matrix
	var pods [2][]string
	add := func(v int, labels ...string) {
		s := &model.SampleStream{Metric: model.Metric{"namespace": "demo", "job": "pods"}}
		for i := 0; i < len(labels); i += 2 {
			s.Metric[model.LabelName(labels[i])] = model.LabelValue(labels[i+1])
		}
		for n := range 10 {
			s.Values = append(s.Values, model.SamplePair{Timestamp: model.Time(now - int64(9-n)*15000), Value: model.SampleValue(v * n)})
		}
		m = append(m, s)
	}
	for p := range 20 {
		pod := fmt.Sprintf("echo-%d", p)
		pods[p%2] = append(pods[p%2], pod)
		instance := fmt.Sprintf("10.0.0.%d:8080", p)
		for _, code := range []string{"200", "404", "500"} {
			add(50, "__name__", "http_requests_total", "pod", pod, "instance", instance, "code", code)
			for i, le := range []string{"0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "30", "+Inf"} {
				add(4*i, "__name__", "http_request_duration_seconds_bucket", "pod", pod, "instance", instance, "code", code, "le", le)
			}
		}
	}
	return m, pods
}

// From parsed samples to windows.
func BenchmarkLook(b *testing.B) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m, pods := benchMatrix(now.UnixMilli())
	a := release.Ask{Since: now.Add(-time.Minute), Now: now, Pods: pods}
	a.Binding.Metrics.Source = "mesh"
	a.Binding.Tracks = [2]release.BoundTrack{{Namespace: "demo"}, {Namespace: "demo"}}
	e, err := New([]Source{{Name: "mesh", URL: "http://in-place", Provider: "app", Latency: true}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	s, p, err := e.find(a.Binding.Metrics)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := newLook(s, p, a)
		if err != nil {
			b.Fatal(err)
		}
		var r release.Reading
		l.sort(l.requests[0].families, m)
		if bad := l.read(&r); bad.is() || len(r.Windows) != 13 {
			b.Fatal(bad, len(r.Windows))
		}
	}
}
