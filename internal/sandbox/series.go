package sandbox

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// retention is how long a sample is kept.
const retention = 15 * time.Minute

// store keeps the scraped samples in memory.
type store struct {
	mu     sync.RWMutex
	byKey  map[string]*series
	byName map[string][]*series
}

type series struct {
	key    string
	labels labels.Labels
	points []promql.FPoint // by rising time
}

func newStore() *store {
	return &store{byKey: map[string]*series{}, byName: map[string][]*series{}}
}

// sample is one value to be kept. The key is unique to the labels.
type sample struct {
	labels labels.Labels
	key    string
	value  float64
}

func newSample(l labels.Labels, v float64) sample {
	return sample{labels: l, key: string(l.Bytes(nil)), value: v}
}

// staleMarker ends a series, as Prometheus writes it.
var staleMarker = math.Float64frombits(value.StaleNaN)

// add appends the samples of one scrape. A sample that is not newer than its
// series is dropped.
func (s *store) add(at time.Time, samples []sample) {
	t := at.UnixMilli()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sm := range samples {
		sr := s.byKey[sm.key]
		if sr == nil {
			sr = s.create(sm)
		}
		if n := len(sr.points); n > 0 && sr.points[n-1].T >= t {
			continue
		}
		sr.points = append(dropOld(sr.points, t), promql.FPoint{T: t, F: sm.value})
	}
}

func (s *store) create(sm sample) *series {
	sr := &series{key: sm.key, labels: sm.labels}
	name := sm.labels.Get(model.MetricNameLabel)
	s.byKey[sm.key] = sr
	s.byName[name] = append(s.byName[name], sr)
	return sr
}

// dropOld moves the points rarely: only when a tenth of the retention is over.
func dropOld(points []promql.FPoint, now int64) []promql.FPoint {
	oldest := now - retention.Milliseconds()
	if len(points) == 0 || points[0].T >= oldest-retention.Milliseconds()/10 {
		return points
	}
	i := sort.Search(len(points), func(i int) bool { return points[i].T >= oldest })
	return slices.Delete(points, 0, i)
}

// dropDead forgets the series whose last sample is past the retention.
func (s *store) dropDead(now time.Time) {
	oldest := now.Add(-retention).UnixMilli()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, sr := range s.byKey {
		if n := len(sr.points); n > 0 && sr.points[n-1].T >= oldest {
			continue
		}
		name := sr.labels.Get(model.MetricNameLabel)
		delete(s.byKey, key)
		s.byName[name] = slices.DeleteFunc(s.byName[name], func(o *series) bool { return o == sr })
	}
}

// until returns what a reader can see when nothing newer than a time is visible.
func (s *store) until(newest time.Time) storage.Queryable {
	return storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		return &querier{store: s, mint: mint, maxt: min(maxt, newest.UnixMilli())}, nil
	})
}

// querier implements storage.Querier over one time range.
type querier struct {
	store      *store
	mint, maxt int64
}

// Select implements storage.Querier.
func (q *querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	q.store.mu.RLock()
	defer q.store.mu.RUnlock()
	var out []storage.Series
	for _, sr := range q.store.candidates(ms) {
		if !matches(sr.labels, ms) {
			continue
		}
		if points := q.within(sr.points); len(points) > 0 {
			out = append(out, promql.NewStorageSeries(promql.Series{Metric: sr.labels, Floats: points}))
		}
	}
	slices.SortFunc(out, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return &seriesSet{list: out, at: -1}
}

// within copies the points of the range, since the originals move.
func (q *querier) within(points []promql.FPoint) []promql.FPoint {
	from, _ := slices.BinarySearchFunc(points, q.mint, comparePoint)
	to, found := slices.BinarySearchFunc(points, q.maxt, comparePoint)
	if found {
		to++
	}
	if from >= to {
		return nil
	}
	return slices.Clone(points[from:to])
}

func comparePoint(p promql.FPoint, t int64) int { return cmp.Compare(p.T, t) }

// candidates are the series with the name that is asked for, or all.
func (s *store) candidates(ms []*labels.Matcher) []*series {
	for _, m := range ms {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return s.byName[m.Value]
		}
	}
	all := make([]*series, 0, len(s.byKey))
	for _, sr := range s.byKey {
		all = append(all, sr)
	}
	return all
}

func matches(l labels.Labels, ms []*labels.Matcher) bool {
	for _, m := range ms {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

// LabelValues implements storage.Querier. Instant queries do not ask.
func (*querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames implements storage.Querier. Instant queries do not ask.
func (*querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close implements storage.Querier.
func (*querier) Close() error { return nil }

// seriesSet implements storage.SeriesSet over a list.
type seriesSet struct {
	list []storage.Series
	at   int
}

// Next implements storage.SeriesSet.
func (s *seriesSet) Next() bool {
	s.at++
	return s.at < len(s.list)
}

// At implements storage.SeriesSet.
func (s *seriesSet) At() storage.Series { return s.list[s.at] }

// Err implements storage.SeriesSet.
func (*seriesSet) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (*seriesSet) Warnings() annotations.Annotations { return nil }
