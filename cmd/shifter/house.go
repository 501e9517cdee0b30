package main

import (
	"context"
	"log/slog"
	"sync"

	"go.uber.org/fx"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/preflight"
	"github.com/shifter-dev/shifter/internal/server"
	"github.com/shifter-dev/shifter/internal/store"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

// hands are the adapters to the world: they differ between a cluster and the
// sandbox, and nothing else does.
type hands struct {
	router    engine.Router
	workloads engine.Workloads
	watchers  []engine.Watcher
	routes    preflight.Routes
	tracks    preflight.Workloads
	sources   []telemetry.Source
}

// house joins the rooms. The server has been made and listens already, so that
// a taken port is the first thing that is said.
func house(log *slog.Logger, h hands, serve serverConfig) fx.Option {
	return fx.Options(
		fx.NopLogger,
		fx.Supply(h, serve, log),
		fx.Provide(
			store.NewMemory,
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

// heart keeps one engine running over the journal, and can drop it and start
// another, as the death of the process would.
type heart struct {
	hands   hands
	journal *store.Memory
	eyes    *telemetry.Eyes
	views   *engine.Views
	log     *slog.Logger

	mu      sync.Mutex
	stopped bool
	cancel  context.CancelFunc
	done    chan struct{}
}

func newHeart(lc fx.Lifecycle, h hands, m *store.Memory, eyes *telemetry.Eyes, v *engine.Views, log *slog.Logger) *heart {
	x := &heart{hands: h, journal: m, eyes: eyes, views: v, log: log}
	lc.Append(fx.Hook{OnStart: x.start, OnStop: x.stop})
	return x
}

// start takes the next epoch and runs an engine with it.
func (x *heart) start(ctx context.Context) error {
	epoch, err := x.journal.NextEpoch(ctx)
	if err != nil {
		return err
	}
	e := engine.New(engine.Config{
		Journal:   x.journal,
		Router:    x.hands.router,
		Workloads: x.hands.workloads,
		Watchers:  x.hands.watchers,
		Telemetry: x.eyes,
		Views:     x.views,
		Epoch:     epoch,
		Logger:    x.log,
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stopped {
		return nil
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	x.cancel, x.done = cancel, done
	go func() {
		defer close(done)
		if err := e.Run(running); err != nil {
			x.log.Error("the engine has stopped", "err", err)
		}
	}()
	return nil
}

// restart drops the engine, in the middle of whatever it does, and starts
// another one over the same journal. It does not wait: the caller may be part of
// what is dropped.
func (x *heart) restart() {
	x.mu.Lock()
	cancel, done := x.cancel, x.done
	x.mu.Unlock()
	x.log.Warn("the engine is dropped")
	cancel()
	go func() {
		<-done
		if err := x.start(context.Background()); err != nil {
			x.log.Error("the engine could not be started again", "err", err)
		}
	}()
}

// stop ends the engine and waits for it.
func (x *heart) stop(ctx context.Context) error {
	x.mu.Lock()
	x.stopped = true
	cancel, done := x.cancel, x.done
	x.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serverConfig is what the front door needs besides the rooms behind it.
type serverConfig struct {
	server.Config
	// failed hears of an error of the listener after the start.
	failed func(error)
}

func newServer(lc fx.Lifecycle, c serverConfig, m *store.Memory, v *engine.Views, p *preflight.Planner, log *slog.Logger) (*server.Server, error) {
	s, err := server.New(c.Config, m, v, p)
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
