package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// source is a Source with its client.
type source struct {
	Source
	api       v1.API
	transport idler
}

type idler interface{ CloseIdleConnections() }

func (s Source) open() (*source, error) {
	if err := s.Access.check(s.Client != nil); err != nil {
		return nil, err
	}
	next := s.Client
	if next == nil {
		next = &http.Transport{ // no proxy from the environment
			DialContext:         (&net.Dialer{Timeout: s.Timeout}).DialContext,
			DialTLSContext:      s.Access.dialTLS(s.Timeout),
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     30 * time.Second,
		}
	}
	way := &careful{next: admitted{next, s.Access}, max: s.MaxBytes}
	c, err := api.NewClient(api.Config{Address: s.URL, RoundTripper: way})
	if err != nil {
		return nil, errors.New("its URL cannot be used")
	}
	return &source{Source: s, api: v1.NewAPI(c), transport: way}, nil
}

// statusError is an answer other than 2xx. Its body is never read: it may hold
// anything, and nothing of it may get into a reading.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("it answered %d %s", int(e), http.StatusText(int(e)))
}

var errTooLarge = errors.New("the answer is too large")

// careful bounds answers and keeps the bodies of failed ones away. A redirect is
// a failure too: it could lead to where only we can reach.
type careful struct {
	next http.RoundTripper
	max  int64
}

func (c *careful) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		_ = resp.Body.Close()
		if mayTryGet(r, resp) {
			resp.Body = http.NoBody
			return resp, nil
		}
		return nil, statusError(resp.StatusCode)
	}
	if resp.ContentLength > c.max {
		_ = resp.Body.Close()
		return nil, errTooLarge
	}
	resp.Body = &bounded{ReadCloser: resp.Body, left: c.max}
	return resp, nil
}

// mayTryGet: the API client repeats a POST as GET on these codes.
func mayTryGet(r *http.Request, resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return r.Method == http.MethodPost
	}
	return false
}

func (c *careful) CloseIdleConnections() {
	if i, ok := c.next.(idler); ok {
		i.CloseIdleConnections()
	}
}

type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// fetch asks all queries of a look side by side and says the first trouble.
// All of them name the same time.
func (l *look) fetch(ctx context.Context, log *slog.Logger) trouble {
	troubles := make([]trouble, len(l.requests))
	var wg sync.WaitGroup
	for i, q := range l.requests {
		wg.Go(func() {
			m, bad := l.src.query(ctx, q.query, l.ask.Now, log)
			if bad.is() {
				troubles[i] = bad.of(l.metrics(q.families))
				return
			}
			l.sort(q.families, m) // no two queries share a family
		})
	}
	wg.Wait()
	for _, t := range troubles {
		if t.is() {
			return t
		}
	}
	return trouble{}
}

func (l *look) metrics(families []int) string {
	var out []string
	for _, i := range families {
		out = append(out, l.families[i].metric)
	}
	return strings.Join(out, ", ")
}

func (s *source) query(ctx context.Context, promql string, at time.Time, log *slog.Logger) (model.Matrix, trouble) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	v, warnings, err := s.persist(ctx, promql, at)
	if err != nil {
		return nil, s.inWords(err)
	}
	if len(warnings) > 0 {
		log.Warn("metrics source answered in part", "source", s.Name, "query", promql, "warnings", []string(warnings))
		return nil, trouble{Partial, fmt.Sprintf("the answer is partial: it has %d warnings", len(warnings))}
	}
	m, ok := v.(model.Matrix)
	if !ok {
		return nil, trouble{Odd, "the answer is not a matrix of samples"}
	}
	return m, trouble{}
}

// How often and how soon a source that is starting or busy is asked again.
const (
	retries    = 3
	retryFirst = 50 * time.Millisecond
)

// persist asks again what failed in passing, within the call's own deadline. It
// waits longer each time, and not as long as others that failed with it.
func (s *source) persist(ctx context.Context, promql string, at time.Time) (model.Value, v1.Warnings, error) {
	wait := retryFirst
	for left := retries; ; left-- {
		v, warnings, _, err := s.api.Query(ctx, promql, at, v1.WithTimeout(s.Timeout))
		if err == nil || left == 0 || !passing(err) {
			return v, warnings, err
		}
		pause := time.NewTimer(wait/2 + rand.N(wait)) //nolint:gosec // spreads retries, guards nothing
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, nil, err // what it said tells more than that time is up
		case <-pause.C:
		}
		wait *= 2
	}
}
