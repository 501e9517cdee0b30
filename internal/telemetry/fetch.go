package telemetry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
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
	way := &careful{next: s.Client, max: s.MaxBytes}
	if way.next == nil {
		way.next = &http.Transport{ // no proxy from the environment
			DialContext:         (&net.Dialer{Timeout: s.Timeout}).DialContext,
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     30 * time.Second,
			TLSHandshakeTimeout: s.Timeout,
		}
	}
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
func (l *look) fetch(ctx context.Context, log *slog.Logger) string {
	troubles := make([]string, len(l.families))
	var wg sync.WaitGroup
	for i := range l.families {
		wg.Go(func() {
			f := &l.families[i]
			m, trouble := l.src.query(ctx, f.query, l.ask.Now, log)
			if trouble != "" {
				troubles[i] = f.metric + ": " + trouble
				return
			}
			*f, f.problem = l.parse(*f, m)
		})
	}
	wg.Wait()
	for _, t := range troubles {
		if t != "" {
			return t
		}
	}
	return ""
}

func (s *source) query(ctx context.Context, promql string, at time.Time, log *slog.Logger) (model.Matrix, string) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	v, warnings, _, err := s.api.Query(ctx, promql, at, v1.WithTimeout(s.Timeout))
	if err != nil {
		return nil, s.inWords(err)
	}
	if len(warnings) > 0 {
		log.Warn("metrics source answered in part", "source", s.Name, "query", promql, "warnings", []string(warnings))
		return nil, fmt.Sprintf("the answer is partial: it has %d warnings", len(warnings))
	}
	m, ok := v.(model.Matrix)
	if !ok {
		return nil, "the answer is not a matrix of samples"
	}
	return m, ""
}

// inWords says what went wrong in our own words: errors of the API client may
// quote the answer.
func (s *source) inWords(err error) string {
	var status statusError
	var said *v1.Error
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errTooLarge):
		return fmt.Sprintf("the answer is larger than %d bytes", s.MaxBytes)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", s.Timeout)
	case errors.Is(err, context.Canceled):
		return "the look was ended"
	case errors.As(err, &status):
		return status.Error()
	case errors.As(err, &said):
		return saidInWords(said)
	case errors.As(err, &op):
		return "no answer: " + op.Error()
	case errors.As(err, &cert):
		return "no answer: " + cert.Error()
	}
	return "no answer, or it broke off"
}

func saidInWords(e *v1.Error) string {
	switch e.Type {
	case v1.ErrBadData:
		return "it refused the query as bad data"
	case v1.ErrTimeout:
		return "it timed out on the query"
	case v1.ErrCanceled:
		return "it cancelled the query"
	case v1.ErrExec:
		return "it failed to evaluate the query"
	case v1.ErrBadResponse:
		return "the answer is cut off or not one of Prometheus"
	case v1.ErrServer, v1.ErrClient:
		return "it answered with an error"
	}
	return "it answered with an error of an unknown kind"
}
