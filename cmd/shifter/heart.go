package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.uber.org/fx"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

// heart keeps one engine running over the journal while this process leads, and
// can drop it and start another, as the death of the process would.
type heart struct {
	hands hands
	eyes  *telemetry.Eyes
	views *engine.Views
	log   *slog.Logger
	// failed hears that this process must end.
	failed func(error)

	mu      sync.Mutex
	stopped bool
	cancel  context.CancelFunc
	done    chan struct{}
	// unready says why there is no engine; nil while there is one.
	unready error
}

var errStarting = errors.New("the engine is not running yet")

func newHeart(lc fx.Lifecycle, h hands, c serverConfig, eyes *telemetry.Eyes, v *engine.Views, log *slog.Logger) *heart {
	x := &heart{hands: h, eyes: eyes, views: v, log: log, failed: c.failed, unready: errStarting}
	lc.Append(fx.Hook{OnStart: x.start, OnStop: x.stop})
	return x
}

// start lets an engine run as soon as this process leads and the store gives it an
// epoch. It does not wait for that: a cluster whose API server is away at the
// moment is no reason to end.
func (x *heart) start(ctx context.Context) error {
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
		x.run(running)
	}()
	return nil
}

// run leads whenever this process holds the Lease, or at once where there is none.
// Who has lost it does not come back: it ends, and a new process stands by.
func (x *heart) run(ctx context.Context) {
	if x.hands.election == nil {
		x.lead(ctx)
		return
	}
	err := x.hands.election.Run(ctx, func(term context.Context) error {
		x.lead(term)
		if term.Err() == nil {
			return errIdle
		}
		return nil
	})
	if err != nil {
		x.log.Error("this process ends: it may not write any more", "err", err)
		x.failed(err)
	}
}

// lead takes the next epoch and runs an engine with it until ctx ends.
func (x *heart) lead(ctx context.Context) {
	for pause := time.Second; ; pause = min(2*pause, 15*time.Second) {
		epoch, err := x.nextEpoch(ctx)
		if err == nil {
			x.beat(ctx, epoch)
			return
		}
		if ctx.Err() != nil {
			return
		}
		x.say(err)
		x.log.Warn("the engine waits for the store", "err", err, "again", pause)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// epochTime bounds one try to raise the epoch.
const epochTime = 10 * time.Second

func (x *heart) nextEpoch(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, epochTime)
	defer cancel()
	return x.hands.journal.NextEpoch(ctx)
}

// beat runs one engine.
func (x *heart) beat(ctx context.Context, epoch uint64) {
	e := engine.New(engine.Config{
		Journal:   x.hands.journal,
		Epochs:    x.hands.journal,
		Router:    x.hands.router,
		Workloads: x.hands.workloads,
		Watchers:  x.hands.watchers,
		Telemetry: x.eyes,
		Views:     x.views,
		Epoch:     epoch,
		Logger:    x.log,
	})
	x.say(nil)
	x.log.Info("the engine runs", "epoch", epoch)
	if err := e.Run(ctx); err != nil {
		x.say(err)
		x.log.Error("the engine has stopped", "err", err)
	}
}

func (x *heart) say(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unready = err
}

// ready says why this process is of no use at the moment; nil means that its
// engine runs, or that it stands by for the one whose engine does.
func (x *heart) ready(context.Context) error {
	if known, err := unready(x.hands.election); known {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.unready
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
