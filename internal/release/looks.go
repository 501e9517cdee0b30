package release

import (
	"maps"
	"slices"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
)

// looksMax bounds how many looks are kept of each kind; older ones age out.
const looksMax = 240

// Looks is the evidence that need not survive a restart: what each proxy sent
// where since the weights were written, and what was in flight. It is a value.
type Looks struct {
	proxies map[string][]ProxyLook
	silent  []string
	drain   [2][]drain.Signals
	windows []TrackWindow // of the last reading only
	fresh   time.Time
	scrape  time.Duration
	trouble string
	notes   []string
}

// Add takes in one reading.
func (l Looks) Add(o Observation, rd Reading) Looks {
	l.windows, l.trouble, l.notes = rd.Windows, rd.Trouble, rd.Notes
	if rd.Scrape > 0 {
		l.scrape = rd.Scrape
	}
	if rd.At.IsZero() {
		return l
	}
	if rd.At.After(l.fresh) {
		l.fresh = rd.At
	}
	l.silent = rd.Silent
	l.proxies = maps.Clone(l.proxies)
	if l.proxies == nil {
		l.proxies = map[string][]ProxyLook{}
	}
	for _, p := range rd.Proxies {
		l.proxies[p.Proxy] = appendLook(l.proxies[p.Proxy], p)
	}
	for t := range rd.Drain {
		if s := rd.Drain[t]; !s.At.IsZero() {
			s.Missing = missingPods(o.Tracks[t].Pods, s)
			l.drain[t] = appendSignal(l.drain[t], s)
		}
	}
	return l
}

// appendLook adds a look; one that covers what an earlier look covered replaces
// it, since a reading without windows is asked again from the same moment.
func appendLook(ls []ProxyLook, p ProxyLook) []ProxyLook {
	ls = slices.DeleteFunc(slices.Clone(ls), func(q ProxyLook) bool { return !q.From.Before(p.From) })
	if len(ls) >= looksMax {
		ls = ls[len(ls)-looksMax+1:]
	}
	return append(ls, p)
}

func appendSignal(ls []drain.Signals, s drain.Signals) []drain.Signals {
	ls = slices.DeleteFunc(slices.Clone(ls), func(q drain.Signals) bool { return !q.From.Before(s.From) })
	if len(ls) >= looksMax {
		ls = ls[len(ls)-looksMax+1:]
	}
	return append(ls, s)
}

// missingPods names the live pods that the signals say nothing about. Without
// knowing which pods live, nothing can be called complete.
func missingPods(pods Fact[[]string], s drain.Signals) []string {
	if !pods.Ok() {
		return append(slices.Clone(s.Missing), "(the live pods are not known)")
	}
	if s.Source != drain.SourceApp && s.Source != drain.SourceInbound {
		return s.Missing
	}
	seen := map[string]bool{}
	for _, p := range s.Pods {
		seen[p.Pod] = true
	}
	missing := slices.Clone(s.Missing)
	for _, p := range pods.Val {
		if !seen[p] && !slices.Contains(missing, p) {
			missing = append(missing, p)
		}
	}
	return missing
}

// Assess folds the last reading into the release's running judgement and asks
// the judges: is the split shown, is the suspect well, is the track without
// share quiet. It returns both with the answers filled in.
func Assess(r Release, l Looks, o Observation) (Release, Observation) {
	if r.Phase.Terminal() {
		return r, o
	}
	o.Trouble = l.trouble
	r.Gate = r.Gate.Add(r.Spec.Gate, r.windows(l))
	h := analysis.Health{Fresh: l.fresh, Scrape: l.scrape, Trouble: l.trouble}
	o.Verdict = Known(r.Gate.Verdict(r.Spec.Gate, h, o.Now), o.Now)
	if !r.Declared.IsZero() {
		o.Shown = Known(analysis.JudgeShown(r.Last, r.Target, l.proxyCounts(r), r.Declared, o.Now), o.Now)
	}
	r.Rate = l.rates(r)
	for t := Primary; t <= Canary; t++ {
		if r.shareOf(t) == 0 && !r.Shown.IsZero() {
			o.Drain[t] = Known(drain.Judge(r.drainPolicy(l, t, o.Now), l.drain[t], r.Shown, o.Now), o.Now)
		}
	}
	return r, o
}

// windows gives the reading's counts the roles of the stage. Counts that may
// mix two splits are warm-up.
func (r Release) windows(l Looks) []analysis.Window {
	in := r.Incoming()
	out := make([]analysis.Window, 0, len(l.windows))
	for _, w := range l.windows {
		out = append(out, analysis.Window{
			Metric:    w.Metric,
			Stratum:   w.Stratum,
			From:      w.From,
			To:        w.To,
			Candidate: w.Counts[in],
			Baseline:  w.Counts[in.Other()],
			WarmUp:    r.Shown.IsZero() || w.From.Before(r.Shown),
		})
	}
	return out
}

func (l Looks) proxyCounts(r Release) []analysis.ProxyCounts {
	in := r.Incoming()
	var out []analysis.ProxyCounts
	for _, name := range slices.Sorted(maps.Keys(l.proxies)) {
		pc := analysis.ProxyCounts{Proxy: name}
		if !slices.Contains(l.silent, name) {
			for _, p := range l.proxies[name] {
				pc.Counts = append(pc.Counts, analysis.ShareCount{From: p.From, To: p.To, Incoming: p.New[in], Outgoing: p.New[in.Other()]})
			}
		}
		out = append(out, pc)
	}
	for _, name := range l.silent {
		if _, ok := l.proxies[name]; !ok {
			out = append(out, analysis.ProxyCounts{Proxy: name})
		}
	}
	return out
}

// rates updates each track's rate of new requests while it has a shown share,
// over what was counted since then. A track without share keeps the last one.
func (l Looks) rates(r Release) [2]float64 {
	if r.Shown.IsZero() {
		return r.Rate
	}
	var n [2]float64
	var span time.Duration
	for _, ls := range l.proxies {
		var own time.Duration
		for _, p := range ls {
			if p.From.Before(r.Shown) {
				continue
			}
			own += p.To.Sub(p.From)
			n[Primary] += p.New[Primary]
			n[Canary] += p.New[Canary]
		}
		span = max(span, own)
	}
	out := r.Rate
	for t := Primary; t <= Canary; t++ {
		if r.shareOf(t) > 0 && span > 0 {
			out[t] = n[t] / span.Seconds()
		}
	}
	return out
}

// drainPolicy bounds the drain of a track. When the telemetry has been silent
// beyond its grace, waiting out the longest request is all that is left.
func (r Release) drainPolicy(l Looks, t Track, now time.Time) drain.Policy {
	d := r.Spec.Deadlines
	p := drain.Policy{OldRate: r.Rate[t], Settle: d.Settle, MaxRequest: r.maxRequest(), Left: d.Drain}
	if r.Phase == Draining {
		p.Left = r.Work.Left
	}
	// Right after a start nothing has been seen yet; that is not a loss.
	lost := !l.fresh.IsZero() && now.Sub(l.fresh) > max(r.Spec.Gate.TelemetryGrace, 8*l.scrape)
	if lost && now.Sub(r.Shown) >= p.Settle+p.MaxRequest {
		p.Left = 0
	}
	return p
}

// maxRequest is the longest that a request may run: the longest timeout of the
// routes where all have one, else the request's own deadline.
func (r Release) maxRequest() time.Duration {
	var longest time.Duration
	for _, b := range r.Binding.Routes {
		if b.Timeout == 0 {
			return r.Spec.Deadlines.Request
		}
		longest = max(longest, b.Timeout)
	}
	if longest == 0 {
		return r.Spec.Deadlines.Request
	}
	return longest
}

// shareOf is the track's share by the present target.
func (r Release) shareOf(t Track) float64 {
	if t == r.Incoming() {
		return r.Target
	}
	return 100 - r.Target
}
