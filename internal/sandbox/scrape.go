package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// target is something that has metrics. The labels are added to every series.
type target struct {
	name   string // unique for its life
	addr   string
	labels map[string]string
}

// scraper reads the metrics of all targets again and again, as Prometheus does.
type scraper struct {
	every   time.Duration
	log     *slog.Logger
	store   *store
	client  *http.Client
	targets func() []target
	// last has the samples of each target's last scrape. Only run uses it.
	last map[string][]sample
}

// run scrapes until ctx ends.
func (s *scraper) run(ctx context.Context) {
	s.last = map[string][]sample{}
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for n := 0; ; n++ {
		s.round(ctx)
		if n%256 == 0 {
			s.store.dropDead(time.Now())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// round scrapes every target once, side by side.
func (s *scraper) round(ctx context.Context) {
	at := time.Now()
	targets := s.targets()
	results := make([][]sample, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets {
		wg.Go(func() { results[i] = s.scrape(ctx, t) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return // a target that was asked in vain is not down
	}
	seen := map[string]bool{}
	for i, t := range targets {
		seen[t.name] = true
		s.keep(at, t.name, results[i])
	}
	for name := range s.last {
		if !seen[name] {
			s.keep(at, name, nil)
			delete(s.last, name)
		}
	}
}

// keep stores a target's samples, and ends the series that it no longer has.
func (s *scraper) keep(at time.Time, name string, now []sample) {
	have := make(map[string]bool, len(now))
	for _, sm := range now {
		have[sm.key] = true
	}
	batch := now
	for _, sm := range s.last[name] {
		if !have[sm.key] {
			batch = append(batch, sample{labels: sm.labels, key: sm.key, value: staleMarker})
		}
	}
	s.store.add(at, batch)
	s.last[name] = now
}

// scrape reads one target. One that does not answer has only up, at 0.
func (s *scraper) scrape(ctx context.Context, t target) []sample {
	// Not less than a second: a busy machine is not a dead target.
	ctx, cancel := context.WithTimeout(ctx, max(s.every, time.Second))
	defer cancel()
	samples, err := s.read(ctx, t)
	up := 1.0
	if err != nil {
		s.log.Debug("a target did not answer the scraper", "target", t.name, "error", err.Error())
		samples, up = nil, 0
	}
	return append(samples, newSample(withLabels(model.Metric{model.MetricNameLabel: "up"}, t.labels), up))
}

func (s *scraper) read(ctx context.Context, t target) ([]sample, error) {
	var out []sample
	err := readMetrics(ctx, s.client, t.addr, func(m *model.Sample) {
		if wanted(string(m.Metric[model.MetricNameLabel])) {
			out = append(out, newSample(withLabels(m.Metric, t.labels), float64(m.Value)))
		}
	})
	return out, err
}

// wanted drops what nobody here asks for, to keep the store small: the
// runtime's own numbers.
func wanted(name string) bool {
	return !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_")
}

// readMetrics GETs /metrics and passes on every sample.
func readMetrics(ctx context.Context, client *http.Client, addr string, each func(*model.Sample)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", req.URL, resp.Status)
	}
	dec := expfmt.SampleDecoder{
		Dec:  expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header)),
		Opts: &expfmt.DecodeOptions{},
	}
	for {
		var v model.Vector
		if err := dec.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("GET %s: %w", req.URL, err)
		}
		for _, m := range v {
			each(m)
		}
	}
}

// withLabels adds the target's labels. Where a metric has one of its own by the
// same name, that one is kept as exported_..., as Prometheus does.
func withLabels(m model.Metric, add map[string]string) labels.Labels {
	all := make(map[string]string, len(m)+len(add))
	for k, v := range m {
		if _, taken := add[string(k)]; taken {
			k = "exported_" + k
		}
		all[string(k)] = string(v)
	}
	for k, v := range add {
		all[k] = v
	}
	return labels.FromMap(all)
}
