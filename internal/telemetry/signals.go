package telemetry

import (
	"math"
	"slices"
	"time"

	"github.com/shifter-dev/shifter/internal/drain"
	"github.com/shifter-dev/shifter/internal/release"
)

// drains are the signals of quiet for both tracks.
func (l *look) drains(t *tally) [2]drain.Signals {
	var out [2]drain.Signals
	for _, f := range l.families {
		if f.problem != "" { // of a gauge; counters would have been trouble
			l.note("%s is not used: %s", f.metric, f.problem)
		}
	}
	for track := range out {
		s := l.arrivals(t, release.Track(track))
		l.inFlight(&s, t, release.Track(track))
		out[track] = s
	}
	return out
}

// arrivals are the new requests of a track. At is the time up to which every
// proxy was seen, From the time from which on: looks that follow each other
// have bounds that meet. Where starts are not counted, finished requests stand
// in for them: each of them did begin, and those that have not finished are in
// flight.
func (l *look) arrivals(t *tally, track release.Track) drain.Signals {
	s := drain.Signals{Source: drain.SourceNone}
	from, until := int64(math.MaxInt64), int64(math.MaxInt64)
	// Where pods count for themselves, those of the other track say nothing
	// about this one.
	own := l.p.perPod() && len(l.ask.Pods[track]) > 0
	for _, u := range t.units {
		if own && !u.any[track] {
			continue
		}
		n := u.begun[track]
		if !t.sawStarts {
			n = u.ended[track].Requests
		}
		// A proxy that sent and fell silent may still be sending, so the time
		// stands still while it is in the range. Others that are silent are
		// mostly gone for good, and there are always some in a large mesh.
		if u.to < u.from || (u.silentBefore(t.horizon-l.pace) && !u.sent[track]) {
			continue
		}
		from, until = min(from, u.from), min(until, u.to)
		s.New += n
		if n > 0 {
			s.Senders = append(s.Senders, u.name)
		}
	}
	if until == math.MaxInt64 {
		return s
	}
	s.From, s.At = at(from), at(until)
	return s
}

// inFlight fills in the best signal that there is. A signal that is there but
// not fresh makes the look unknown: a lesser one must not take its place.
func (l *look) inFlight(s *drain.Signals, t *tally, track release.Track) {
	switch {
	case l.byApp(s, track):
		s.Source = drain.SourceApp
	case l.byClients(s, t, track):
		s.Source = drain.SourceClient
	case l.byDifference(s, t, track):
		s.Source = drain.SourceDifference
	}
}

// recent reports whether a gauge's sample says something about the interval: it
// is fresh and, where the interval has a length, not from before it. Else the
// gauge could be from before the last new request.
func (l *look) recent(s *drain.Signals, sample int64) bool {
	return sample >= l.fresh && (!s.At.After(s.From) || sample >= s.From.UnixMilli())
}

// byApp reads the pods' own gauges. It answers for the track when any of its
// live pods has the gauge; the others are then missing.
func (l *look) byApp(s *drain.Signals, track release.Track) bool {
	f := l.family(roleApp)
	if f.problem != "" {
		return false
	}
	sums, broken, has := map[string]float64{}, map[string]bool{}, false
	for _, g := range f.series {
		if g.track != track {
			continue
		}
		has = true
		if g.odd || !l.recent(s, g.last()) {
			broken[g.unit] = broken[g.unit] || g.odd
			continue
		}
		sums[g.unit] += g.v[len(g.v)-1]
	}
	if !has {
		return false
	}
	ns := l.ask.Binding.Tracks[track].Namespace
	pods := slices.Clone(l.ask.Pods[track])
	slices.Sort(pods)
	for _, pod := range slices.Compact(pods) {
		n, ok := sums[ns+"/"+pod]
		if !ok || broken[ns+"/"+pod] {
			s.Missing = append(s.Missing, pod)
			continue
		}
		s.Pods = append(s.Pods, drain.PodSignal{Pod: pod, InFlight: n})
		s.InFlight += n
	}
	return true
}

// byClients adds up the proxies' gauges. It answers only when every proxy that
// has counters for the track has the gauge too.
func (l *look) byClients(s *drain.Signals, t *tally, track release.Track) bool {
	f := l.family(roleActive)
	if f.problem != "" || len(f.series) == 0 {
		return false
	}
	gauges := map[string][]series{}
	for _, g := range f.series {
		if g.track == track {
			gauges[g.unit] = append(gauges[g.unit], g)
		}
	}
	sum, known := 0.0, false
	for _, u := range t.units {
		has := gauges[u.name]
		if u.any[track] && len(has) == 0 {
			return false
		}
		known = known || !u.silentBefore(l.fresh)
		for _, g := range has {
			// What a silent proxy last had in flight is kept while it is in the
			// range: it may still be there.
			if g.odd || (!u.silentBefore(l.fresh) && !l.recent(s, g.last())) {
				return l.unknown(s)
			}
			sum += g.v[len(g.v)-1]
		}
	}
	if !known {
		return l.unknown(s)
	}
	s.InFlight = sum
	return true
}

// byDifference takes begun minus finished at each proxy's newest scrape.
func (l *look) byDifference(s *drain.Signals, t *tally, track release.Track) bool {
	if !l.p.difference || !t.sawStarts {
		return false
	}
	begun := l.valuesAt(t, roleStarts, track)
	ended := l.valuesAt(t, roleEnds, track)
	sum, known := 0.0, false
	for _, u := range t.units {
		known = known || !u.silentBefore(l.fresh)
		// Within one scrape the two are read one after the other, so that the
		// difference may be below 0.
		sum += max(begun[u.name]-ended[u.name], 0)
	}
	if !known {
		return l.unknown(s)
	}
	s.InFlight = sum
	return true
}

// unknown marks a signal that is there and says nothing at this time.
func (l *look) unknown(s *drain.Signals) bool {
	s.At = time.Time{}
	return true
}

// valuesAt sums the counters of a track as they were at each unit's newest
// scrape.
func (l *look) valuesAt(t *tally, r role, track release.Track) map[string]float64 {
	newest := map[string]int64{}
	for _, u := range t.units {
		newest[u.name] = u.newest
	}
	out := map[string]float64{}
	for _, s := range l.family(r).series {
		if s.track != track {
			continue
		}
		if i, ok := slices.BinarySearch(s.t, newest[s.unit]); ok {
			out[s.unit] += s.v[i]
		}
	}
	return out
}
