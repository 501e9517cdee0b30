package main

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The report keeps the last hour second by second, and the words of the first
// bad answers.
const (
	maxSeconds = 3600
	maxSamples = 50
)

// counts are those of one stream of requests since a reset. For each stream
// sent = answered + failed + inFlight holds at all times.
type counts struct {
	Sent     int64 `json:"sent"`
	Answered int64 `json:"answered"` // whole answers, whatever their code
	Failed   int64 `json:"failed"`   // no whole answer
	InFlight int64 `json:"inFlight"`
	Missed   int64 `json:"missed"` // never sent, for want of a slot: the load was less than asked for

	// Of those answered: codes of 500 and above, with and without X-Fault.
	Injected int64 `json:"injected"`
	Bad      int64 `json:"bad"`

	ByCode     map[string]int64 `json:"byCode"`
	ByVersion  map[string]int64 `json:"byVersion"`
	ByWorkload map[string]int64 `json:"byWorkload"`
	Failures   map[string]int64 `json:"failures"`

	// When each version and workload was seen for the first and the last time.
	First map[string]time.Time `json:"first"`
	Last  map[string]time.Time `json:"last"`

	MaxMS   float64 `json:"maxMs"`
	MeanMS  float64 `json:"meanMs"`
	totalMS float64

	Timeline []*second `json:"timeline"`
	Samples  []sample  `json:"samples"`
}

// second is what was sent, and what was answered, within one second.
type second struct {
	At         int64            `json:"at"` // Unix time
	Sent       int64            `json:"sent"`
	Answered   int64            `json:"answered"`
	Failed     int64            `json:"failed"`
	Injected   int64            `json:"injected"`
	Bad        int64            `json:"bad"`
	ByVersion  map[string]int64 `json:"byVersion"`
	ByWorkload map[string]int64 `json:"byWorkload"`
}

// sample is one failure, or one bad answer that was not ordered.
type sample struct {
	At      time.Time `json:"at"`
	TookMS  float64   `json:"tookMs"`
	Code    int       `json:"code,omitempty"`
	Failure string    `json:"failure,omitempty"`
	Version string    `json:"version"`
	Detail  string    `json:"detail"`
}

func newCounts() counts {
	return counts{
		ByCode: map[string]int64{}, ByVersion: map[string]int64{}, ByWorkload: map[string]int64{}, Failures: map[string]int64{},
		First: map[string]time.Time{}, Last: map[string]time.Time{},
		Timeline: []*second{}, Samples: []sample{},
	}
}

// epoch is the time from one reset to the next. A request belongs to the epoch
// that it was sent in.
type epoch struct {
	mu    sync.Mutex
	since time.Time
	paced counts
	long  counts
}

func newEpoch() *epoch { return &epoch{since: time.Now(), paced: newCounts(), long: newCounts()} }

func (e *epoch) sent(c *counts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.Sent++
	c.InFlight++
	c.second(time.Now()).Sent++
}

func (e *epoch) missed(c *counts, n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.Missed += n
}

func (e *epoch) done(c *counts, o outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.InFlight--
	s := c.second(o.at)
	ms := float64(o.took.Microseconds()) / 1000
	c.MaxMS = max(c.MaxMS, ms)
	if o.failure != "" {
		c.Failed++
		s.Failed++
		c.Failures[o.failure]++
		c.keep(o, ms)
		return
	}
	c.Answered++
	s.Answered++
	c.totalMS += ms
	c.ByCode[strconv.Itoa(o.code)]++
	c.ByVersion[o.version]++
	c.ByWorkload[o.workload]++
	s.ByVersion[o.version]++
	s.ByWorkload[o.workload]++
	for _, name := range []string{o.version, o.workload} {
		if _, known := c.First[name]; !known {
			c.First[name] = o.at
		}
		c.Last[name] = o.at
	}
	switch {
	case o.injected:
		c.Injected++
		s.Injected++
	case o.code >= 500:
		c.Bad++
		s.Bad++
		c.keep(o, ms)
	}
}

func (c *counts) keep(o outcome, ms float64) {
	if len(c.Samples) < maxSamples {
		c.Samples = append(c.Samples, sample{At: o.at, TookMS: ms, Code: o.code, Failure: o.failure, Version: o.version, Detail: o.detail})
	}
}

// copy is what a report may keep while the counting goes on.
func (c *counts) copy() counts {
	r := *c
	r.ByCode, r.ByVersion, r.ByWorkload, r.Failures = maps.Clone(c.ByCode), maps.Clone(c.ByVersion), maps.Clone(c.ByWorkload), maps.Clone(c.Failures)
	r.First, r.Last = maps.Clone(c.First), maps.Clone(c.Last)
	r.Samples = slices.Clone(c.Samples)
	r.Timeline = make([]*second, len(c.Timeline))
	for i, s := range c.Timeline {
		one := *s
		one.ByVersion, one.ByWorkload = maps.Clone(s.ByVersion), maps.Clone(s.ByWorkload)
		r.Timeline[i] = &one
	}
	if c.Answered > 0 {
		r.MeanMS = c.totalMS / float64(c.Answered)
	}
	return r
}

// second finds the entry of a moment, which is one of the last few, or makes it.
func (c *counts) second(t time.Time) *second {
	at := t.Unix()
	i := len(c.Timeline)
	for i > 0 && c.Timeline[i-1].At > at {
		i--
	}
	if i > 0 && c.Timeline[i-1].At == at {
		return c.Timeline[i-1]
	}
	s := &second{At: at, ByVersion: map[string]int64{}, ByWorkload: map[string]int64{}}
	c.Timeline = append(c.Timeline, nil)
	copy(c.Timeline[i+1:], c.Timeline[i:])
	c.Timeline[i] = s
	if len(c.Timeline) > maxSeconds {
		c.Timeline = c.Timeline[1:]
	}
	return s
}
