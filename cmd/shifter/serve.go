package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/fx"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/server"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	kubeconfig string
	namespace  string
	listen     string
	prometheus string
	provider   string
	scrape     time.Duration
	lag        time.Duration
	domain     string
	latency    bool
	access     telemetry.Access
	dev        bool
	lease      bool
	verbose    bool
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API and the page, and run the releases of a cluster",
		Long: `serve takes releases over HTTP and runs them on a cluster: it moves the weights of
HTTPRoutes, GRPCRoutes and VirtualServices, sizes Deployments, and keeps its
records as ConfigMaps in a namespace of its own. It goes on where it was when it
is started again. Several may run over one cluster: a Lease in that namespace
elects the one that moves weights, the others answer and stand by for it.

It has no authentication yet, and therefore serves a loopback address only, and
says so: --dev.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the cluster (default: $KUBECONFIG, ~/.kube/config, or the pod's own account)")
	flags.StringVar(&f.namespace, "namespace", "", "namespace of shifter's own records (default: the pod's own, else shifter)")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "address of the API and the page; port 0 picks a free one")
	flags.StringVar(&f.prometheus, "prometheus", "", "URL of a Prometheus API, without /api/v1: the metrics source that is named default")
	flags.StringVar(&f.provider, "provider", "envoy", "how that source is read: "+strings.Join(telemetry.Providers(), ", "))
	flags.DurationVar(&f.scrape, "scrape-interval", telemetry.DefaultScrape, "time between two scrapes of that source")
	flags.DurationVar(&f.lag, "metrics-lag", 0, "how much later than scraped its samples can be read")
	addMetricsFlags(cmd, &f)
	flags.StringVar(&f.domain, "cluster-domain", telemetry.DefaultDomain, "DNS domain of the cluster")
	flags.BoolVar(&f.dev, "dev", false, "serve without authentication, on a loopback address")
	flags.BoolVar(&f.lease, "lease", true, "move weights only while holding the Lease in --namespace; false, with --dev only, gives up\nthat a second shifter waits: both would write until one's epoch stops the other's")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log every action and look, too")
	return cmd
}

func (f serveFlags) check() error {
	switch {
	case !f.lease && !f.dev:
		return errors.New("--lease=false lets any other shifter write as well, so it is for development: it goes with --dev only")
	case !f.dev:
		return errors.New("this version cannot authenticate who asks, so it serves a loopback address only: say --dev")
	case !loopback(f.listen):
		return fmt.Errorf("--dev serves without authentication, and --listen %q can be reached from elsewhere: use 127.0.0.1:PORT, and a tunnel (kubectl port-forward, ssh -L) to reach it", f.listen)
	case f.prometheus == "":
		return errors.New("no metrics source: give --prometheus URL; without metrics no step could ever pass")
	case f.namespace != "" && !api.IsLabel(f.namespace):
		return fmt.Errorf("--namespace %q is not the name of a namespace", f.namespace)
	case f.scrape <= 0:
		return fmt.Errorf("--scrape-interval %s: give the time between two scrapes, such as 15s", f.scrape)
	}
	return f.checkAccess()
}

// addMetricsFlags says what is read of the metrics source, and how to be let in.
func addMetricsFlags(cmd *cobra.Command, f *serveFlags) {
	flags := cmd.Flags()
	flags.BoolVar(&f.latency, "metrics-latency", true, "read durations of that source too, and judge slow answers by them where it has them")
	flags.StringVar(&f.access.TokenFile, "metrics-token-file", "", "file with a bearer token for that source, read again at each use")
	flags.StringVar(&f.access.BasicFile, "metrics-basic-file", "", "file with user:password for that source, read again at each use")
	flags.StringVar(&f.access.CAFile, "metrics-ca-file", "", "file with the certificates to trust of that source, instead of the system's")
	flags.StringVar(&f.access.CertFile, "metrics-cert-file", "", "file with our own certificate for that source")
	flags.StringVar(&f.access.KeyFile, "metrics-key-file", "", "file with the key of that certificate")
	flags.StringVar(&f.access.Tenant, "metrics-tenant", "", "tenant whose metrics are read (Mimir, Cortex, Thanos)")
	flags.StringVar(&f.access.TenantHeader, "metrics-tenant-header", telemetry.DefaultTenantHeader, "header that names the tenant")
}

// checkAccess keeps secrets off wires that anybody can read.
func (f serveFlags) checkAccess() error {
	if f.access.CAFile+f.access.CertFile != "" && strings.HasPrefix(f.prometheus, "http://") {
		return errors.New("--metrics-ca-file and --metrics-cert-file are for a source behind https://, and --prometheus begins with http://")
	}
	host, open := unencrypted(f.prometheus)
	if !open {
		return nil
	}
	for _, secret := range []struct{ flag, file string }{
		{"--metrics-token-file", f.access.TokenFile}, {"--metrics-basic-file", f.access.BasicFile},
	} {
		if secret.file != "" {
			return fmt.Errorf("%s with --prometheus http://%s would send the secret in the clear: use https://, or a proxy or tunnel on a loopback address", secret.flag, host)
		}
	}
	return nil
}

// unencrypted reports a URL that leads off this machine without encryption, and
// its host. What else may be wrong with it is said when it is opened.
func unencrypted(source string) (host string, open bool) {
	u, err := url.Parse(source)
	if err != nil {
		return "", false
	}
	return u.Host, u.Scheme == "http" && !ownMachine(u.Hostname())
}

// ownMachine reports a host that only this machine can be.
func ownMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// loopback reports an address that only this machine can reach.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return true // said better when the port is taken
	}
	return ownMachine(host)
}

// runServe opens the house over a cluster until it is told to stop.
func runServe(cmd *cobra.Command, f serveFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(cmd.Context())
	defer fail(nil)
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	c, err := newCluster(f, log)
	if err != nil {
		return err
	}
	defer c.close()
	door, err := server.Take(f.listen)
	if err != nil {
		return err
	}
	hall := fx.New(
		house(log, c.hands, serverConfig{Config: server.Config{Listener: door, Version: version(), World: "The Kubernetes API server", Log: log}, failed: fail}),
		fx.Invoke(func(*server.Server, *heart) {}),
	)
	if err := hall.Start(ctx); err != nil {
		return errors.Join(err, door.Close())
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Page and API: http://%s  (no authentication: --dev)\nCluster:      %s, records in namespace %s\nMetrics:      %s, read as %s, scraped every %s\n",
		door.Addr(), c.host, c.namespace, f.prometheus, f.provider, f.scrape)
	<-ctx.Done()
	log.Info("stopping")
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin(context.Cause(ctx)))
	defer cancel()
	err = hall.Stop(stop)
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = exitError{exitFailed, errors.Join(cause, err)}
	}
	return err
}

// stopTime is how long the parts may take to stop.
const stopTime = 30 * time.Second

// stopContext bounds the stop of a part, also after ctx has ended.
func stopContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), stopTime)
}

// userAgent is what the API server's audit log shows.
func userAgent() string { return "shifter/" + strings.ReplaceAll(version(), " ", "-") }
