package main

import (
	"context"
	"log/slog"

	"go.uber.org/fx"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/lease"
	"github.com/shifter-dev/shifter/internal/preflight"
	"github.com/shifter-dev/shifter/internal/server"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

// hands are the adapters to the world: they differ between a cluster and the
// sandbox, and nothing else does.
type hands struct {
	journal   journal
	router    engine.Router
	workloads engine.Workloads
	watchers  []engine.Watcher
	routes    preflight.Routes
	tracks    preflight.Workloads
	sources   []telemetry.Source
	// election says whether this process may write; without one it may.
	election *lease.Elector
}

// journal is a store as all rooms together need it.
type journal interface {
	engine.Journal
	engine.Epochs
	server.Releases
	NextEpoch(ctx context.Context) (uint64, error)
}

// house joins the rooms. The server has been made and listens already, so that
// a taken port is the first thing that is said.
func house(log *slog.Logger, h hands, serve serverConfig) fx.Option {
	return fx.Options(
		fx.NopLogger,
		fx.Supply(h, serve, log),
		fx.Provide(
			engine.NewViews,
			newEyes,
			newPlanner,
			newHeart,
			newServer,
		),
	)
}

func newEyes(lc fx.Lifecycle, h hands, log *slog.Logger) (*telemetry.Eyes, error) {
	eyes, err := telemetry.New(h.sources, log)
	if err != nil {
		return nil, err
	}
	lc.Append(fx.StopHook(eyes.Close))
	return eyes, nil
}

func newPlanner(h hands, eyes *telemetry.Eyes) *preflight.Planner {
	return preflight.New(preflight.Config{Routes: h.routes, Workloads: h.tracks, Telemetry: eyes})
}

// serverConfig is what the front door needs besides the rooms behind it.
type serverConfig struct {
	server.Config
	// failed hears of what must end the process after the start: an error of the
	// listener, or the loss of the Lease.
	failed func(error)
}

func newServer(lc fx.Lifecycle, c serverConfig, h hands, v *engine.Views, p *preflight.Planner, x *heart, log *slog.Logger) (*server.Server, error) {
	c.Ready = x.ready
	c.Standing = func() string { return standing(h.election) }
	s, err := server.New(c.Config, h.journal, v, p)
	if err != nil {
		return nil, err
	}
	lc.Append(fx.Hook{
		OnStart: func(context.Context) error {
			if err := s.Listen(); err != nil {
				return err
			}
			go func() {
				if err := s.Serve(); err != nil {
					log.Error("the server has stopped", "err", err)
					c.failed(err)
				}
			}()
			return nil
		},
		OnStop: s.Shutdown,
	})
	return s, nil
}
