package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Config is what the front door needs to know. The zero value of a field is
// usable, except Listen.
type Config struct {
	// Listen is host:port. Port 0 takes any free one, see [Server.Addr].
	Listen string
	// Listener is a port that was taken before, by [Take]; Listen may then be
	// left out.
	Listener net.Listener
	// URL is put before every link, such as https://shifter.example. Empty keeps
	// links on the host that was asked.
	URL string
	// Hosts are the host names that are served, without port; IP addresses
	// always are. Empty means localhost when Listen is a loopback address, which
	// keeps a page of another site from reaching it by DNS rebinding, and any
	// name otherwise.
	Hosts []string
	// Subject says who asks; an error is answered with 401 and is not shown.
	// Nil means that everybody is "dev".
	Subject func(*http.Request) (string, error)
	// Ready says why this copy cannot serve; nil means that it can.
	Ready func(context.Context) error
	// Standing says in a few words what this copy is to the others, such as who
	// leads; a copy that is ready says so there.
	Standing func() string
	// Metrics is served at /metrics when it is there.
	Metrics http.Handler
	// World is what is asked for every release, as it begins a sentence, such as
	// "The Kubernetes API server".
	World string
	// Version is shown in the OpenAPI document and on the page.
	Version string
	Log     *slog.Logger
	Now     func() time.Time
}

// withDefaults fills in what was left out.
func (c Config) withDefaults() (Config, error) {
	if c.Listener != nil {
		c.Listen = c.Listener.Addr().String()
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return c, fmt.Errorf("listen address %q: want host:port, such as 127.0.0.1:8080 (set --listen): %w", c.Listen, err)
	}
	if len(c.Hosts) == 0 && isLoopback(host) {
		c.Hosts = []string{"localhost"}
	}
	if c.URL, err = cleanURL(c.URL); err != nil {
		return c, err
	}
	if c.Subject == nil {
		c.Subject = func(*http.Request) (string, error) { return "dev", nil }
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) error { return nil }
	}
	if c.Standing == nil {
		c.Standing = func() string { return "" }
	}
	if c.World == "" {
		c.World = "What must be asked for this"
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

func cleanURL(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", fmt.Errorf("public URL %q: %w", s, err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil:
		return "", fmt.Errorf("public URL %q: want http://host or https://host", s)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("public URL %q: %w", s, errors.New("a path, query or fragment is not served; use the host alone"))
	}
	return u.Scheme + "://" + u.Host, nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// servesHost reports whether requests for a host are served. An IP address
// cannot be rebound, so it always is.
func (c Config) servesHost(hostport string) bool {
	if len(c.Hosts) == 0 {
		return true
	}
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	for _, h := range c.Hosts {
		if strings.EqualFold(h, host) {
			return true
		}
	}
	return false
}

// pace is how long the server waits for what. Tests make it quicker.
type pace struct {
	beat  time.Duration // between comments on a quiet stream
	gap   time.Duration // least time between two updates on a stream
	poll  time.Duration // between looks at a record without a view
	write time.Duration // for one write to a stream
	call  time.Duration // for one call of a port
}

func defaultPace() pace {
	return pace{beat: 15 * time.Second, gap: time.Second, poll: 2 * time.Second, write: 10 * time.Second, call: 15 * time.Second}
}

const (
	maxWait     = 25 * time.Second
	maxBody     = 64 << 10
	answerTime  = time.Minute // to write one answer that is not a stream
	retrySoon   = 1           // seconds; after a request that waited itself
	retryAfter  = 5           // seconds
	streamRetry = 2000        // milliseconds
)
