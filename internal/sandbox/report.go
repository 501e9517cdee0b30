package sandbox

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// Report is what the load generator saw, from the client's side only.
type Report struct {
	Sent     int // requests that were sent
	Answered int // whole answers, of any code
	Failed   int // no whole answer, or a code of 500 and above
	Injected int // of those failed, answers that say they were made on purpose
	InFlight int // sent and neither answered nor failed yet
	// Unsent counts requests that were due when no slot was free. It is 0 as
	// long as the rate is not raised far above the configured one.
	Unsent int

	ByTrack   [2]int         // answers, as the proxy signed them
	ByVersion map[string]int // answers, as the app signed them
	ByCode    map[int]int
	// Failures are the first ones that were not injected.
	Failures []Failure
	// Timeline has an entry for every second in which a request was sent, by
	// the time of sending.
	Timeline []Second
}

// Lost is the number of failures that nobody ordered.
func (r Report) Lost() int { return r.Failed - r.Injected + r.Unsent }

// Failure is one request that failed.
type Failure struct {
	At    time.Time
	Code  int // 0 without an answer
	Why   string
	Track string
	Pod   string
}

// Second is what became of the requests that were sent in one second.
type Second struct {
	At       time.Time
	Sent     int
	Failed   int
	Injected int
	ByTrack  [2]int
}

// Share returns the track's percent of the answers to requests that were sent
// in the whole seconds from From to To, and how many answers those were.
func (r Report) Share(t release.Track, from, to time.Time) (percent float64, answers int) {
	var by [2]int
	for _, s := range r.Timeline {
		if s.At.Before(from) || s.At.Add(time.Second).After(to) {
			continue
		}
		by[release.Primary] += s.ByTrack[release.Primary]
		by[release.Canary] += s.ByTrack[release.Canary]
	}
	answers = by[release.Primary] + by[release.Canary]
	if answers == 0 {
		return 0, 0
	}
	return 100 * float64(by[t]) / float64(answers), answers
}

const (
	maxSeconds  = 3600
	maxFailures = 20
)

// tally collects a Report.
type tally struct {
	mu sync.Mutex
	r  Report
}

func newTally() *tally {
	return &tally{r: Report{ByVersion: map[string]int{}, ByCode: map[int]int{}}}
}

func (t *tally) report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.r
	r.ByVersion, r.ByCode = maps.Clone(r.ByVersion), maps.Clone(r.ByCode)
	r.Failures, r.Timeline = slices.Clone(r.Failures), slices.Clone(r.Timeline)
	return r
}

func (t *tally) unsent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Unsent++
}

func (t *tally) sent(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Sent++
	t.r.InFlight++
	t.second(at).Sent++
}

func (t *tally) answered(at time.Time, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.InFlight--
	s := t.second(at)
	if o.err == nil {
		t.r.Answered++
		t.r.ByCode[o.code]++
		t.r.ByVersion[o.version]++
		for i := range t.r.ByTrack {
			if o.track == release.Track(i).String() {
				t.r.ByTrack[i]++
				s.ByTrack[i]++
			}
		}
	}
	if !o.failed() {
		return
	}
	t.r.Failed++
	s.Failed++
	if o.injected {
		t.r.Injected++
		s.Injected++
		return
	}
	if len(t.r.Failures) < maxFailures {
		t.r.Failures = append(t.r.Failures, Failure{At: at, Code: o.code, Why: o.why(), Track: o.track, Pod: o.pod})
	}
}

// second returns the entry of a moment, which is one of the last ones.
func (t *tally) second(at time.Time) *Second {
	at = at.Truncate(time.Second)
	for i, s := range slices.Backward(t.r.Timeline) {
		if s.At.Equal(at) {
			return &t.r.Timeline[i]
		}
		if s.At.Before(at) {
			break
		}
	}
	t.r.Timeline = append(t.r.Timeline, Second{At: at})
	slices.SortStableFunc(t.r.Timeline, func(a, b Second) int { return a.At.Compare(b.At) })
	if n := len(t.r.Timeline); n > maxSeconds {
		t.r.Timeline = slices.Delete(t.r.Timeline, 0, n-maxSeconds)
	}
	i := slices.IndexFunc(t.r.Timeline, func(s Second) bool { return s.At.Equal(at) })
	if i < 0 { // older than what is kept
		return &Second{}
	}
	return &t.r.Timeline[i]
}
