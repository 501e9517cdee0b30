package analysis

import (
	"math"
	"slices"
	"time"
)

const (
	// shownTail is what the two-sided 99.9 % interval leaves on each side.
	shownTail = 0.0005
	// shownClose is how near a share must be where very many requests make the
	// interval narrower than the data plane's own precision.
	shownClose = 0.02
	// shownDust is the part of all requests below which proxies that cannot be
	// judged even together do not hold up the answer.
	shownDust = 0.01
	// shownStale is how old the newest count of a proxy may be, or three times
	// its length if that is longer.
	shownStale = 2 * time.Minute
	// shownSkew is how far a count may be ahead of the clock.
	shownSkew = 5 * time.Second
)

// JudgeShown says whether the data plane serves the target share (percent of
// the incoming side), when it served prev before the weight was written.
//
// Each proxy is judged by its newest counts, walking back only until there are
// enough, so that counts of the time in which the change was still on its way
// age out; counts that begin before written do not count. Enough is
// [ShownNeed]. A proxy shows the target when its share lies in the two-sided
// exact 99.9 % binomial interval of the target, or within 2 percentage points;
// at 0 and 100 it must be exact. Proxies with too few requests are pooled. If
// even the pool has too few, it is passed over when it is less than 1 % of all
// requests and agrees with the target, and else the answer is unknown.
func JudgeShown(prev, target float64, per []ProxyCounts, written, now time.Time) Shown {
	if !within(prev, 0, 100) || !within(target, 0, 100) {
		return Shown{Status: ShownUnknown}
	}
	j := splitJudge{prev: prev / 100, target: target / 100, need: ShownNeed(prev, target)}
	for _, p := range per {
		counts, ok := usable(p.Counts, written, now)
		if !ok {
			j.silent = append(j.silent, p.Proxy)
			continue
		}
		if part, at := newest(counts, j.need); part.total() >= j.need {
			j.take(part, at)
			if !j.agrees(part) {
				j.lagging = append(j.lagging, p.Proxy)
			}
			continue
		}
		j.small = append(j.small, ProxyCounts{p.Proxy, counts})
	}
	return j.answer()
}

// splitJudge gathers what the proxies say.
type splitJudge struct {
	prev, target, need float64 // shares between 0 and 1, requests
	sum                sent
	at                 time.Time
	small              []ProxyCounts
	lagging, silent    []string
}

// sent is how many requests went to each side.
type sent struct{ in, out float64 }

func (s sent) total() float64   { return s.in + s.out }
func (s sent) add(o sent) sent  { return sent{s.in + o.in, s.out + o.out} }
func (c ShareCount) sent() sent { return sent{c.Incoming, c.Outgoing} }

func (j *splitJudge) take(part sent, at time.Time) {
	j.sum = j.sum.add(part)
	if at.After(j.at) {
		j.at = at
	}
}

// answer joins the pool of small proxies and concludes.
func (j *splitJudge) answer() Shown {
	enough := j.pool()
	out := Shown{Requests: j.sum.total(), Need: j.need, At: j.at, Lagging: j.lagging, Silent: j.silent}
	if n := j.sum.total(); n > 0 {
		out.Share = 100 * j.sum.in / n
	}
	switch {
	case len(j.lagging) > 0:
		out.Status = ShownNo
	case len(j.silent) > 0 || !enough:
		out.Status = ShownUnknown
	default:
		out.Status = ShownYes
	}
	return out
}

// pool judges the small proxies together and says whether the requests are
// enough for an answer.
func (j *splitJudge) pool() bool {
	if len(j.small) == 0 {
		return j.sum.total() > 0
	}
	var all []ShareCount
	for _, p := range j.small {
		all = append(all, p.Counts...)
	}
	slices.SortStableFunc(all, func(a, b ShareCount) int { return a.To.Compare(b.To) })
	part, at := newest(all, j.need)
	rest := j.sum.total()
	j.take(part, at)
	if part.total() > 0 && !j.agrees(part) && (part.total() >= j.need || j.exact()) {
		j.lagging = append(j.lagging, j.strays()...)
	}
	return part.total() >= j.need || rest > 0 && part.total() < shownDust*rest && j.agrees(part)
}

// strays names the pooled proxies, at 0 and 100 only those with a request on
// the wrong side.
func (j *splitJudge) strays() []string {
	var names []string
	for _, p := range j.small {
		part, _ := newest(p.Counts, math.Inf(1))
		if !j.exact() || !j.agrees(part) {
			names = append(names, p.Proxy)
		}
	}
	return names
}

func (j *splitJudge) exact() bool { return j.target <= 0 || j.target >= 1 }

// agrees says whether counts fit the target.
func (j *splitJudge) agrees(s sent) bool {
	n := s.total()
	switch {
	case n <= 0:
		return true
	case j.target <= 0:
		return s.in < dust
	case j.target >= 1:
		return s.out < dust
	}
	if math.Abs(s.in/n-j.target) <= j.near() {
		return true
	}
	return atMost(s.in, n, j.target) >= shownTail && atLeast(s.in, n, j.target) > shownTail
}

// near is how far a share may be off however many requests there are: 2 pp,
// but never half the way to the previous share or to nothing.
func (j *splitJudge) near() float64 {
	near := min(shownClose, j.target/2, (1-j.target)/2)
	if j.prev != j.target {
		near = min(near, math.Abs(j.target-j.prev)/2)
	}
	return near
}

// usable returns the counts that began after the write, oldest first, and
// whether the proxy reported at all and not too long ago.
func usable(counts []ShareCount, written, now time.Time) ([]ShareCount, bool) {
	var out []ShareCount
	for _, c := range counts {
		fine := within(c.Incoming, 0, maxCount) && within(c.Outgoing, 0, maxCount)
		if fine && !c.From.Before(written) && c.To.After(c.From) && !c.To.After(now.Add(shownSkew)) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, false
	}
	slices.SortStableFunc(out, func(a, b ShareCount) int { return a.To.Compare(b.To) })
	last := out[len(out)-1]
	return out, now.Sub(last.To) <= max(shownStale, 3*last.To.Sub(last.From))
}

// newest adds counts from the newest back until there are enough, whole
// moments at a time, and returns the end of the newest one.
func newest(counts []ShareCount, need float64) (sent, time.Time) {
	var sum sent
	var at time.Time
	for i := len(counts) - 1; i >= 0; i-- {
		if sum.total() >= need && !counts[i].To.Equal(counts[i+1].To) {
			break
		}
		sum = sum.add(counts[i].sent())
		if at.IsZero() {
			at = counts[i].To
		}
	}
	return sum, at
}

// ShownNeed returns how many requests tell the target share from the previous
// one (percent): the first number at which the two-sided exact 99.9 % binomial
// intervals of both do not overlap. It is 73, 268 and 159 for 0 to 10, 10 to 25
// and 25 to 50. Beyond 1,000 it is found to within a percent. Where both
// shares are the same, one request is enough to see that something is served.
func ShownNeed(prev, target float64) float64 {
	low, high := min(prev, target)/100, max(prev, target)/100
	switch {
	case !(low >= 0 && high <= 1 && high > low):
		return 1
	case low == 0 && high == 1:
		return 1
	case low == 0: // a request of the higher share must be sure to be seen
		return math.Floor(math.Log(shownTail)/math.Log1p(-high)) + 1
	case high == 1:
		return math.Floor(math.Log(shownTail)/math.Log(low)) + 1
	}
	// The normal approximation is near; the search begins well below it.
	const z = 3.2905267314919255 // of the two-sided 99.9 %
	d := z * (math.Sqrt(low*(1-low)) + math.Sqrt(high*(1-high))) / (high - low)
	for n := math.Max(1, math.Floor(0.8*d*d)); ; n += math.Max(1, math.Floor(n/500)) {
		if apart(low, high, n) {
			return n
		}
	}
}

// apart says whether the intervals of two shares lie apart at n requests: the
// largest count in the interval of the lower share is too small for the higher.
func apart(low, high, n float64) bool {
	a, b := -1.0, n // P(X > a) > tail >= P(X > b)
	for b-a > 1 {
		mid := math.Floor((a + b) / 2)
		if atLeast(mid+1, n, low) > shownTail {
			a = mid
		} else {
			b = mid
		}
	}
	return atMost(b, n, high) < shownTail
}
