package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/shifter-dev/shifter/internal/lease"
)

// leaseName is the Lease of all processes that keep their records in a namespace.
const leaseName = "shifter"

// dialTime bounds the making of a connection for the Lease.
const dialTime = 2 * time.Second

// newElection makes the elector of a process. It has a way to the API server of
// its own, so that no storm of work stands before a renewal: its own connection,
// which is thrown away when an answer does not come (HTTP/1.1 does that), and no
// limit of requests.
func newElection(cfg *rest.Config, namespace string, log *slog.Logger) (*lease.Elector, *http.Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.NextProtos = []string{"http/1.1"}
	cfg.QPS, cfg.RateLimiter = -1, nil
	cfg.UserAgent = userAgent() + "/lease"
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: dialTime}).DialContext
	}
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfigAndClient(cfg, h)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for the Lease: %w", err)
	}
	who, err := identity()
	if err != nil {
		return nil, nil, err
	}
	e, err := lease.New(client, lease.Config{Namespace: namespace, Name: leaseName, Identity: who, Logger: log})
	return e, h, err
}

// identity names this process among all that may stand: the host, which is the
// pod, and a word that its next process does not have.
func identity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("the name of this host: %w", err)
	}
	return host + "_" + strings.ToLower(rand.Text()[:8]), nil
}

// errIdle ends a process that leads and has no engine any more.
var errIdle = errors.New("the engine has stopped")

// unready says why this process is of no use at the moment, as far as the Lease
// goes; known is false where that is the engine's to say.
func unready(e *lease.Elector) (known bool, err error) {
	if e == nil {
		return false, nil
	}
	switch s := e.State(); {
	case s.Leading:
		return false, nil
	case s.Err != nil:
		return true, s.Err
	default: // it stands by, once it has seen for whom
		return s.Holder != "", nil
	}
}

// standing says in a few words what this process is to the others.
func standing(e *lease.Elector) string {
	if e == nil {
		return ""
	}
	switch s := e.State(); {
	case s.Leading:
		return "leader " + s.Holder
	case s.Holder != "":
		return "standby, the leader is " + s.Holder
	}
	return "standby"
}

// stopWithin is how long the parts may take to stop. Who has lost the Lease has
// no time: what has not stopped by then is ended with the process.
func stopWithin(cause error) time.Duration {
	if errors.Is(cause, lease.ErrLost) {
		return 2 * time.Second
	}
	return stopTime
}
