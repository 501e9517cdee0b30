package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// Defaults of a source.
const (
	DefaultScrape   = 15 * time.Second
	DefaultTimeout  = 5 * time.Second
	DefaultReach    = time.Hour
	DefaultMaxBytes = 8 << 20
	DefaultDomain   = "cluster.local"
)

// Source is one configured place to read metrics from. Zero values mean the
// defaults.
type Source struct {
	Name     string
	URL      string        // of the Prometheus API, without /api/v1
	Provider string        // how to read it, unless a release says otherwise
	Scrape   time.Duration // the interval between two scrapes
	Timeout  time.Duration // of one query
	// Lag is how far the newest visible sample trails the clock beyond a
	// scrape: the delay of a remote-write or Thanos pipeline. A sample is fresh
	// when it is no older than 2.5 scrapes and the lag.
	Lag time.Duration
	// Reach is how far back one look may start.
	Reach time.Duration
	// MaxBytes bounds one answer, unpacked.
	MaxBytes int64
	// Domain is the cluster's DNS domain, part of Envoy's cluster names.
	Domain string
	// Latency reads the histograms too, and puts families of one kind of target
	// into one query. Without it durations are not seen.
	Latency bool
	// Access is how to be let in.
	Access Access
	// Client is the way to the source. Nil means HTTP without proxies, with the
	// certificates of Access.
	Client http.RoundTripper
}

// Eyes reads the configured sources. It is safe for concurrent use.
type Eyes struct {
	sources map[string]*source
	log     *slog.Logger
}

// New checks the sources and makes the eyes. It contacts nobody. A nil logger
// is silent.
func New(sources []Source, log *slog.Logger) (*Eyes, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	e := &Eyes{sources: map[string]*source{}, log: log}
	for _, s := range sources {
		s = s.withDefaults()
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("metrics source %q: %w", s.Name, err)
		}
		if e.sources[s.Name] != nil {
			return nil, fmt.Errorf("metrics source %q: the name is used twice", s.Name)
		}
		open, err := s.open()
		if err != nil {
			return nil, fmt.Errorf("metrics source %q: %w", s.Name, err)
		}
		e.sources[s.Name] = open
	}
	return e, nil
}

func (s Source) withDefaults() Source {
	if s.Scrape == 0 {
		s.Scrape = DefaultScrape
	}
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	if s.Reach == 0 {
		s.Reach = DefaultReach
	}
	if s.MaxBytes == 0 {
		s.MaxBytes = DefaultMaxBytes
	}
	if s.Domain == "" {
		s.Domain = DefaultDomain
	}
	return s
}

func (s Source) check() error {
	if s.Name == "" {
		return errors.New("it has no name")
	}
	if _, err := providerNamed(s.Provider); err != nil {
		return err
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return errors.New("its URL cannot be parsed") // the error would quote it, credentials included
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("its URL must begin with http:// or https://, not %q", u.Scheme)
	case u.Host == "":
		return errors.New("its URL names no host")
	case u.User != nil:
		return errors.New("its URL holds credentials; configure them apart from it")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("its URL must end with the path, without a query or fragment")
	}
	switch {
	case s.Scrape < 0 || s.Timeout < 0 || s.Lag < 0 || s.Reach < 0 || s.MaxBytes < 0:
		return errors.New("its scrape, timeout, lag, reach and size must not be negative")
	case s.Reach < lookBack(s.Scrape):
		return fmt.Errorf("its reach of %s is less than %d scrapes of %s", s.Reach, lookBackScrapes, s.Scrape)
	case !isSubdomain(s.Domain):
		return fmt.Errorf("its domain %q is not a DNS name", s.Domain)
	}
	return nil
}

// Close ends idle connections. The eyes must not be used afterwards.
func (e *Eyes) Close() {
	for _, s := range e.sources {
		s.transport.CloseIdleConnections()
	}
}

// Scrape returns the interval between two scrapes of a source and the provider
// by which it is read.
func (e *Eyes) Scrape(ref release.MetricsRef) (time.Duration, string, error) {
	s, p, err := e.find(ref)
	if err != nil {
		return 0, "", err
	}
	return s.Scrape, p.name, nil
}

// Sees says what can be seen by way of a source.
func (e *Eyes) Sees(ref release.MetricsRef) (Sees, error) {
	s, p, err := e.find(ref)
	if err != nil {
		return Sees{}, err
	}
	return p.sees(s.Latency), nil
}

// Sight is what the rooms that plan need to know of [Eyes.Sees].
func (e *Eyes) Sight(ref release.MetricsRef) (release.Sight, error) {
	s, err := e.Sees(ref)
	return release.Sight{Latency: s.Latency, Cannot: s.Cannot}, err
}

// Query is one query and what it is for.
type Query struct {
	For    string `json:"for"`
	PromQL string `json:"promql"`
}

// Queries returns what [Eyes.Look] would ask. Only the range depends on the
// times in the question; without them it is the shortest one.
func (e *Eyes) Queries(a release.Ask) ([]Query, error) {
	s, p, err := e.find(a.Binding.Metrics)
	if err != nil {
		return nil, err
	}
	if a.Now.IsZero() || a.Since.IsZero() {
		a.Now, a.Since = time.UnixMilli(0), time.UnixMilli(0)
	}
	l, err := newLook(s, p, a)
	if err != nil {
		return nil, err
	}
	out := make([]Query, 0, len(l.requests))
	for _, q := range l.requests {
		var roles []string
		for _, i := range q.families {
			roles = append(roles, string(l.families[i].role))
		}
		out = append(out, Query{For: strings.Join(roles, ", "), PromQL: q.query})
	}
	return out, nil
}

// Look reads the counts of the managed traffic from the newest sample at or
// before a.Since to the newest that is complete at a.Now. An error means that
// the question is wrong, or that ctx ended; what is wrong with the source is in
// the reading's Trouble.
func (e *Eyes) Look(ctx context.Context, a release.Ask) (release.Reading, error) {
	s, p, err := e.find(a.Binding.Metrics)
	if err != nil {
		return release.Reading{}, err
	}
	if a.Now.IsZero() {
		return release.Reading{}, errors.New("a look needs the time: Now is zero")
	}
	l, err := newLook(s, p, a)
	if err != nil {
		return release.Reading{}, err
	}
	bad := l.fetch(ctx, e.log)
	if err := ctx.Err(); err != nil {
		return release.Reading{}, fmt.Errorf("metrics source %q: the look was ended: %w", s.Name, err)
	}
	r := release.Reading{Asked: a.Now, Scrape: s.Scrape}
	if !bad.is() {
		bad = l.read(&r)
	}
	if bad.is() {
		return release.Reading{Asked: a.Now, Scrape: s.Scrape, Trouble: bad.about(s.Name)}, nil
	}
	return r, nil
}

func (e *Eyes) find(ref release.MetricsRef) (*source, provider, error) {
	s := e.sources[ref.Source]
	if s == nil {
		return nil, provider{}, fmt.Errorf("metrics source %q: %w among the configured ones (%s)",
			ref.Source, release.ErrNotFound, strings.Join(e.names(), ", "))
	}
	name := ref.Provider
	if name == "" {
		name = s.Provider
	}
	p, err := providerNamed(name)
	if err != nil {
		return nil, provider{}, fmt.Errorf("metrics source %q: %w", ref.Source, err)
	}
	return s, p, nil
}

func (e *Eyes) names() []string {
	out := make([]string, 0, len(e.sources))
	for n := range e.sources {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}
