package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// client sends one request and tells what became of it.
type client struct {
	target, host, method string
	timeout              time.Duration
	http                 *http.Transport
}

// newTransport keeps connections, as a client in a mesh does: a connection that
// breaks under a request is one of the things to be counted.
func newTransport(slots int) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		MaxIdleConns:           slots,
		MaxIdleConnsPerHost:    slots,
		IdleConnTimeout:        5 * time.Minute, // below Envoy's hour: whoever closes must not race with a request
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// outcome is what became of one request.
type outcome struct {
	at       time.Time
	took     time.Duration
	code     int    // 0: no whole answer
	version  string // X-Version, or none
	workload string // the Deployment that answered, or none
	injected bool   // X-Fault: a fault that was ordered
	failure  string // why there is no whole answer
	detail   string
}

// none stands for a header or a name that an answer lacks: Envoy's own answers
// have no version, and an injected fault does not say which pod it came from.
const none = "none"

// send sends one request and reads its answer to the end. The body has no
// GetBody and POST is not idempotent: so Go's transport has no way to send it
// again by itself, as it would a GET on a connection that the server had closed.
func (c client) send(ctx context.Context, path string, longer time.Duration) outcome {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.timeout+longer)
	defer cancel()
	o := outcome{version: none, workload: none}
	err := c.exchange(ctx, path, &o)
	o.at = time.Now()
	o.took = o.at.Sub(began)
	if err != nil {
		o.code, o.failure, o.detail = 0, reason(err), err.Error()
	}
	return o
}

func (c client) exchange(ctx context.Context, path string, o *outcome) (err error) {
	req, err := http.NewRequestWithContext(ctx, c.method, c.target+path, io.NopCloser(strings.NewReader("x")))
	if err != nil {
		return err
	}
	req.ContentLength = 1
	req.Host = c.host
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	o.code = resp.StatusCode
	o.injected = resp.Header.Get("X-Fault") != ""
	if v := resp.Header.Get("X-Version"); v != "" {
		o.version = v
	}
	var said struct {
		Host string `json:"host"`
	}
	if json.Unmarshal(body, &said) == nil && said.Host != "" {
		o.workload = deployment(said.Host)
	}
	if o.code >= http.StatusInternalServerError {
		o.detail = strings.TrimSpace(string(body[:min(len(body), 200)]))
	}
	return nil
}

// deployment takes the template's hash and the pod's own part off a pod's name.
func deployment(pod string) string {
	parts := strings.Split(pod, "-")
	if len(parts) < 3 {
		return pod
	}
	return strings.Join(parts[:len(parts)-2], "-")
}

var errCut = errors.New("the answer was cut short")

// reason sorts failures into a few kinds; the words of some are kept as well.
func reason(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, errCut):
		return "cut"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "stopped"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "server closed idle connection"):
		return "closed"
	}
	return "other"
}
