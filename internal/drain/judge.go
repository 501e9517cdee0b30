package drain

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What stands in for a policy's zero, and how the looks are read.
const (
	defaultSettle     = 30 * time.Second
	defaultMaxRequest = time.Minute
	// jitter is how far two looks may lie apart and still follow each other.
	jitter = time.Second
	// staleAfter is how old the newest look may be, or three times its length
	// if that is longer.
	staleAfter = time.Minute
	// skew is how far a look may be ahead of the clock.
	skew = 5 * time.Second
)

// Judge says how far the drain of a track has come that has had no share since
// the given time. Looks come in any order; those that begin before since, and
// those that saw nothing, do not count.
//
// [Drained] needs all of: no new requests over the quiet window (the time in
// which the old rate would have brought [MinExpected]; the settle time where
// that is longer or the rate unknown), nothing in flight on the two newest
// looks, and no live pod missing from either. Where no signal tells what is in
// flight, the longest request is waited out in quiet: [Assumed]. When the
// budget is spent (Left), a quiet track with requests in flight is [Forced];
// one that still gets new requests is not, ever: it stays [Draining] with the
// senders named. Looks that ceased are no zeros: [Unknown], and at the deadline
// Assumed only if settle time and longest request have passed.
func Judge(p Policy, looks []Signals, since, now time.Time) State {
	p = p.withDefaults()
	v := read(p, looks, since, now)
	s := State{
		Since: since, At: now, Took: max(now.Sub(since), 0),
		Window: p.window(), Quiet: v.quiet, New: v.recent, Senders: v.senders,
	}
	if v.last != nil {
		s.Source, s.Pods, s.Missing = v.last.Source, slices.Clone(v.last.Pods), slices.Clone(v.last.Missing)
		if tells(*v.last) {
			s.InFlight = inFlight(*v.last)
		}
	}
	if v.last == nil || stale(*v.last, now) {
		return blind(s, p, v)
	}
	return seeing(s, p, v)
}

func (p Policy) withDefaults() Policy {
	if p.Settle <= 0 {
		p.Settle = defaultSettle
	}
	if p.MaxRequest <= 0 {
		p.MaxRequest = defaultMaxRequest
	}
	return p
}

// window is how long no new request must arrive.
func (p Policy) window() time.Duration {
	seconds := MinExpected / p.OldRate
	if !(p.OldRate > 0) || !(seconds < p.Settle.Seconds()) {
		return p.Settle
	}
	return max(time.Duration(math.Ceil(seconds*float64(time.Second))), time.Millisecond)
}

// seeing concludes from fresh looks.
func seeing(s State, p Policy, v view) State {
	over := p.Left <= 0
	s.Status = Draining
	switch {
	case v.arriving:
		s.Why = fmt.Sprintf("%s new requests arrived in the last %s%s", number(s.New), round(s.Window), from(s.Senders))
		if s.New == 0 {
			s.Why = "the count of new requests makes no sense, so it is not taken for zero" + from(s.Senders)
		}
		if over {
			s.Why += "; the time is over, and a track that still gets requests is not cut"
		}
	case v.quiet < s.Window && over && s.waitedOut(p, v):
		return late(s, p, v)
	case v.quiet < s.Window:
		s.Why = fmt.Sprintf("no new request for %s of %s", round(v.quiet), round(s.Window))
	case v.idle >= 2:
		s.Status = Drained
		s.Why = fmt.Sprintf("no new request for %s, and nothing in flight on two looks", round(v.quiet))
	case !tells(*v.last) && v.quiet >= p.MaxRequest:
		return s.assume("nothing tells what is in flight", p, v)
	case over:
		return late(s, p, v)
	case !tells(*v.last):
		s.Why = fmt.Sprintf("nothing tells what is in flight, so the longest request is waited out: %s of %s", round(v.quiet), round(p.MaxRequest))
	case len(s.Missing) > 0:
		s.Why = "it is not known what is in flight on " + list(s.Missing)
	case v.idle == 1:
		s.Why = "nothing was in flight on one look; a second one must agree"
	default:
		s.Why = fmt.Sprintf("%s requests are in flight", number(s.InFlight))
	}
	return s
}

// late ends a drain whose time is over and to which nothing new was sent.
func late(s State, p Policy, v view) State {
	unknown := "what is in flight is not known"
	if len(s.Missing) > 0 {
		unknown += " on " + list(s.Missing)
	}
	switch {
	case s.InFlight > 0 && len(s.Missing) > 0:
		s.Status, s.Cut = Forced, s.InFlight
		s.Why = fmt.Sprintf("the time is over: at least %s requests in flight will be cut; %s", number(s.Cut), unknown)
	case s.InFlight > 0:
		s.Status, s.Cut = Forced, s.InFlight
		s.Why = fmt.Sprintf("the time is over: %s requests in flight will be cut", number(s.Cut))
	case v.idle >= 1 && v.quiet >= s.Window:
		s.Status = Forced
		s.Why = "the time is over: nothing was in flight, but only one look has seen it"
	case s.waitedOut(p, v):
		return s.assume(unknown, p, v)
	default:
		s.Status = Unknown
		s.Why = fmt.Sprintf("the time is over and %s; the longest request is waited out: %s of %s", unknown, round(v.quiet), round(p.MaxRequest))
	}
	return s
}

// waitedOut says whether whatever was running has had the time to end: the
// longest request in measured quiet, or settle time and longest request since
// the last new one that was seen.
func (s State) waitedOut(p Policy, v view) bool {
	return v.quiet >= max(s.Window, p.MaxRequest) || s.At.Sub(v.lastNew) >= p.Settle+p.MaxRequest
}

func (s State) assume(why string, p Policy, v view) State {
	s.Status = Assumed
	s.Why = fmt.Sprintf("%s; no new request was seen for %s, and none may run longer than %s", why, round(max(v.quiet, s.At.Sub(v.lastNew))), round(p.MaxRequest))
	return s
}

// blind concludes without fresh looks.
func blind(s State, p Policy, v view) State {
	s.Status, s.Why = Unknown, "nothing has been seen of the track since it has no share"
	if v.last != nil {
		s.Why = fmt.Sprintf("the newest look is %s old", round(s.At.Sub(v.last.At)))
	}
	if p.Left > 0 {
		return s
	}
	if !s.waitedOut(p, view{lastNew: v.lastNew}) {
		s.Why += fmt.Sprintf("; %s of %s are waited out", round(s.At.Sub(v.lastNew)), round(p.Settle+p.MaxRequest))
		return s
	}
	return s.assume(s.Why, p, view{lastNew: v.lastNew})
}

// view is what the looks add up to.
type view struct {
	last *Signals // the newest that counts
	// quiet is how long, up to the newest look, no request arrived; looks must
	// follow each other, since an unseen time proves nothing.
	quiet time.Duration
	// idle is how many of the newest looks in a row saw nothing in flight and
	// every live pod.
	idle int
	// arriving says that a look within the window saw new requests, recent how
	// many, and senders who sent them.
	arriving bool
	recent   float64
	senders  []string
	lastNew  time.Time // end of the newest look with new requests, else since
}

// read goes back through the looks that count.
func read(p Policy, looks []Signals, since, now time.Time) view {
	looks = counting(looks, since, now)
	v := view{lastNew: since}
	if len(looks) == 0 {
		return v
	}
	v.last = &looks[len(looks)-1]
	v.quiet = quiet(looks)
	for i := len(looks) - 1; i >= 0 && idle(looks[i]); i-- {
		v.idle++
	}
	begin := v.last.At.Add(-p.window())
	for _, l := range looks {
		if l.New == 0 {
			continue
		}
		v.lastNew = l.At
		if !l.At.After(begin) {
			continue
		}
		v.arriving = true
		if l.New > 0 && !math.IsInf(l.New, 1) {
			v.recent += l.New
		}
		v.senders = append(v.senders, l.Senders...)
	}
	slices.Sort(v.senders)
	v.senders = slices.Compact(v.senders)
	return v
}

// counting returns the looks that count, oldest first and one for each time.
func counting(looks []Signals, since, now time.Time) []Signals {
	var in, out []Signals
	for _, l := range looks {
		if !l.At.IsZero() && !l.From.IsZero() && !l.From.Before(since) && l.At.After(l.From) && !l.At.After(now.Add(skew)) {
			in = append(in, plain(l))
		}
	}
	slices.SortStableFunc(in, func(a, b Signals) int { return a.At.Compare(b.At) })
	for _, l := range in {
		if n := len(out); n > 0 && out[n-1].At.Equal(l.At) {
			out[n-1] = join(out[n-1], l)
			continue
		}
		out = append(out, l)
	}
	return out
}

// plain returns a look without numbers that mean nothing: what is not a number
// or negative is not known, so its pod is missing.
func plain(l Signals) Signals {
	missing := slices.Clone(l.Missing)
	var pods []PodSignal
	for _, p := range l.Pods {
		if known(p.InFlight) {
			pods = append(pods, p)
		} else {
			missing = append(missing, p.Pod)
		}
	}
	if tells(l) && !known(l.InFlight) {
		l.InFlight = 0
		missing = append(missing, "the track as a whole")
	}
	l.Pods, l.Missing = pods, missing
	return l
}

func known(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }

// join makes one look of two that were taken at the same time, each time the
// less quiet part.
func join(a, b Signals) Signals {
	if a.New != 0 {
		b.New, b.From, b.Senders = a.New, a.From, a.Senders
	}
	if !idle(a) {
		b.Source, b.InFlight, b.Pods, b.Missing = a.Source, a.InFlight, a.Pods, a.Missing
	}
	return b
}

// quiet walks back from the newest look while nothing new was counted and each
// look follows the one before.
func quiet(looks []Signals) time.Duration {
	last := looks[len(looks)-1].At
	start := last
	for i := len(looks) - 1; i >= 0; i-- {
		l := looks[i]
		if l.New != 0 || start.Sub(l.At) > jitter {
			break
		}
		if l.From.Before(start) {
			start = l.From
		}
	}
	return last.Sub(start)
}

// tells says whether a look knows of requests in flight.
func tells(l Signals) bool { return l.Source != SourceNone && l.Source != "" }

// idle says whether a look saw that nothing is in flight on any live pod.
func idle(l Signals) bool {
	if !tells(l) || len(l.Missing) > 0 || l.InFlight != 0 {
		return false
	}
	return !slices.ContainsFunc(l.Pods, func(p PodSignal) bool { return p.InFlight != 0 })
}

// inFlight is a look's sum, or what its pods report if that is more.
func inFlight(l Signals) float64 {
	sum := 0.0
	for _, p := range l.Pods {
		sum += math.Max(p.InFlight, 0)
	}
	return math.Max(l.InFlight, sum)
}

func stale(l Signals, now time.Time) bool {
	return now.Sub(l.At) > max(staleAfter, 3*l.At.Sub(l.From))
}

func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// round keeps sentences readable.
func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

func from(senders []string) string {
	if len(senders) == 0 {
		return ""
	}
	return " from " + list(senders)
}

// list names the first few.
func list(names []string) string {
	const few = 5
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
