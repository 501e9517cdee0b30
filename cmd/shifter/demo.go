//go:build !nosandbox

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/fx"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/sandbox"
	"github.com/shifter-dev/shifter/internal/server"
	"github.com/shifter-dev/shifter/internal/store"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

func moreCommands() []*cobra.Command { return []*cobra.Command{newDemo()} }

// demoFlags are the flags of demo.
type demoFlags struct {
	scenario string
	rps      float64
	listen   string
	app      string
	exit     bool
	wait     bool
	output   string
	verbose  bool
}

const (
	minRPS = 10
	maxRPS = 1000
)

func newDemo() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Shift real traffic between real processes on this machine, without a cluster",
		Long: `demo starts a small world on this machine: eight processes of the sample API
behind a proxy with weights, a load generator, and a Prometheus that scrapes
them. Then it posts a release to its own API, as a pipeline would, and shows on
a page how the traffic moves from the canary to the primary, or, with the
scenario full, how a version goes all the way.

` + scenarioHelp(),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd, f) },
	}
	cmd.Flags().StringVar(&f.scenario, "scenario", "good", "what happens: "+scenarioNames())
	cmd.Flags().Float64Var(&f.rps, "rps", 200, fmt.Sprintf("requests per second, %d to %d", minRPS, maxRPS))
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8080", "address of the API and the page; port 0 picks a free one")
	cmd.Flags().StringVar(&f.app, "app", "", "path of the go-api binary (default: beside this binary, else built from the module)")
	cmd.Flags().BoolVar(&f.exit, "exit", false, "end when the release ends, with its exit code")
	cmd.Flags().BoolVar(&f.wait, "no-release", false, "start the world only, and leave it to you to post a release")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text, or json for the release and the report on stdout at the end")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "log every decision on stderr")
	return cmd
}

func (f demoFlags) check() error {
	if _, ok := findScenario(f.scenario); !ok {
		return fmt.Errorf("scenario %q is not known; use one of %s", f.scenario, scenarioNames())
	}
	if !(f.rps >= minRPS && f.rps <= maxRPS) {
		return fmt.Errorf("--rps %v: use %d to %d requests per second", f.rps, minRPS, maxRPS)
	}
	if f.wait && f.exit {
		return errors.New("--no-release waits for you and --exit for the release: use one of them")
	}
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("--output %q: use text or json", f.output)
	}
	return nil
}

// runDemo makes the world, opens the house over it, and plays one release.
func runDemo(cmd *cobra.Command, f demoFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(cmd.Context())
	defer fail(nil)
	app, err := findApp(ctx, f.app)
	if err != nil {
		return err
	}
	defer app.clean()
	sc, _ := findScenario(f.scenario)
	log := slog.New(slog.DiscardHandler)
	if f.verbose {
		log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	}
	world, err := newWorld(f, sc, app.path, log)
	if err != nil {
		return err
	}
	// The port is taken before the world starts, so that a busy one is the first
	// thing that is said; the world needs seconds to get ready.
	door, err := server.Take(f.listen)
	if err != nil {
		return err
	}
	teller := newTeller(cmd, f, sc, "http://"+door.Addr().String(), world)
	teller.opening()
	defer func() {
		stop, cancel := stopContext(ctx)
		defer cancel()
		world.Stop(stop)
	}()
	if err := world.Start(ctx); err != nil {
		door.Close()
		return interrupted(ctx, err)
	}
	return interrupted(ctx, play(ctx, log, world, serverConfig{Config: server.Config{Listener: door, Version: version()}, failed: fail}, teller))
}

// play opens the house over a running world and tells the story of one release.
func play(ctx context.Context, log *slog.Logger, world *sandbox.World, serve serverConfig, t *teller) (err error) {
	h := worldHands(world)
	drop := &dropper{Router: world.Routes(), at: t.sc.crashAt}
	h.router = drop
	hall := fx.New(
		house(log, h, serve),
		fx.Invoke(func(_ *server.Server, x *heart) { drop.drop = x.restart }),
	)
	if err := hall.Start(ctx); err != nil {
		return errors.Join(err, serve.Listener.Close())
	}
	defer func() {
		stop, cancel := stopContext(ctx)
		defer cancel()
		err = errors.Join(err, hall.Stop(stop))
	}()
	t.ready()
	return t.follow(ctx)
}

// interrupted gives the end by a signal its own exit code.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return exitError{exitInterrupted, errors.New("interrupted; the demo's world is gone, and its release with it")}
	}
	return err
}

// newWorld sizes the sandbox for the demo.
func newWorld(f demoFlags, sc scenario, app string, log *slog.Logger) (*sandbox.World, error) {
	cfg := sandbox.Defaults()
	cfg.App, cfg.RPS, cfg.Faults, cfg.Logger, cfg.Begin = app, f.rps, sc.faults, log, sc.begin
	return sandbox.New(cfg)
}

// worldHands are the sandbox's adapters.
func worldHands(w *sandbox.World) hands {
	return hands{
		journal:   store.NewMemory(),
		router:    w.Routes(),
		workloads: w.Workloads(),
		watchers:  []engine.Watcher{w},
		routes:    w.Routes(),
		tracks:    w.Workloads(),
		sources: []telemetry.Source{{
			Name:     "default",
			URL:      w.PromURL(),
			Provider: "sandbox",
			Scrape:   sandbox.Defaults().Scrape,
			Lag:      sandbox.Defaults().ReadLag,
			Latency:  true,
		}},
	}
}

// window is the longest time to gather evidence for a step: a minute at 200
// requests per second, and longer in proportion where fewer come.
func window(rps float64) time.Duration {
	return time.Duration(math.Ceil(60*math.Max(1, 200/rps))) * time.Second
}

// dropper drops the engine between save and act, the first time it is about to
// write a share: what is saved is the intent, and no effect follows.
type dropper struct {
	engine.Router
	at   float64 // 0: never
	drop func()  // must not wait for who called
	done bool
}

// SetShare implements engine.Router.
func (d *dropper) SetShare(ctx context.Context, a release.SetShare, fence release.Fence) (release.Receipt, error) {
	if d.done || d.at == 0 || a.To[0].Share(release.Primary) != d.at {
		return d.Router.SetShare(ctx, a, fence)
	}
	d.done = true
	d.drop()
	<-ctx.Done()
	return release.Receipt{}, fmt.Errorf("the engine was dropped before it wrote: %w", release.ErrUnavailable)
}
