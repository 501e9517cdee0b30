package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/routing"
	"github.com/shifter-dev/shifter/internal/store"
	"github.com/shifter-dev/shifter/internal/telemetry"
	"github.com/shifter-dev/shifter/internal/workload"
)

// cluster is a way to a cluster, and the hands that work on it.
type cluster struct {
	hands
	host      string
	namespace string
	http      []*http.Client
}

func (c *cluster) close() {
	for _, h := range c.http {
		h.CloseIdleConnections()
	}
}

// newCluster makes the adapters of a cluster. It contacts nobody: a cluster that
// is away comes back.
func newCluster(f serveFlags, log *slog.Logger) (*cluster, error) {
	cfg, err := kubeconfig(f.kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = userAgent()
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	client, err := routing.NewClient(cfg, h)
	if err != nil {
		return nil, err
	}
	routes := routing.New(client, routing.Config{Domain: f.domain, Logger: log})
	workloads := workload.New(client, workload.Config{Logger: log})
	ns := ownNamespace(f.namespace)
	c := &cluster{
		host: cfg.Host, namespace: ns, http: []*http.Client{h},
		hands: hands{
			journal:   store.NewConfigMaps(client, store.ConfigMapsConfig{Namespace: ns, Logger: log}),
			router:    routes,
			workloads: workloads,
			watchers:  []engine.Watcher{routes, workloads},
			routes:    routes,
			tracks:    workloads,
			sources: []telemetry.Source{{
				Name: "default", URL: f.prometheus, Provider: f.provider,
				Scrape: f.scrape, Lag: f.lag, Domain: f.domain, Latency: f.latency, Access: f.access,
			}},
		},
	}
	if !f.lease {
		log.Warn("there is no Lease: start no other shifter over this cluster")
		return c, nil
	}
	var own *http.Client
	if c.election, own, err = newElection(cfg, ns, log); err != nil {
		return nil, err
	}
	c.http = append(c.http, own)
	return c, nil
}

// kubeconfig finds the way to the cluster as kubectl does, and in a pod the
// pod's own.
func kubeconfig(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if path != "" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("--kubeconfig %s: there is no such file", path)
		}
		rules.ExplicitPath = path
	}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no cluster is configured: give --kubeconfig PATH or set KUBECONFIG, or run it in a pod with a service account")
	case err != nil:
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return cfg, nil
}

// ownNamespace is where the records go, unless it is said.
func ownNamespace(said string) string {
	const mounted = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	if said != "" {
		return said
	}
	if b, err := os.ReadFile(mounted); err == nil && len(b) > 0 {
		return strings.TrimSpace(string(b))
	}
	return "shifter"
}
