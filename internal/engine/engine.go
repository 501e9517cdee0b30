package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// MaxCall is the longest that one call of a port may take: less than the time
// between losing the lease and another writer having it (2/3 of 15 s).
const MaxCall = 4 * time.Second

// Config is what an engine is made of. Journal, Router, Workloads and Telemetry
// are needed; the rest has defaults.
type Config struct {
	Journal   Journal
	Router    Router
	Workloads Workloads
	Telemetry Telemetry
	// Watchers wake a release when something about its objects changes.
	Watchers []Watcher
	// Views is where the releases are shown. Give one to keep it when the engine
	// is made anew; by default each engine has its own.
	Views *Views
	// Clock is time.Now by default.
	Clock Clock
	// Epoch is this writer's own; it goes into every write of weights.
	Epoch uint64
	// Epochs raises it where a new release's route carries a higher one, which a
	// writer has left there whose records are lost. Without it such a route stays
	// refused.
	Epochs Epochs
	// Logger is silent by default.
	Logger *slog.Logger
	// CallTimeout is the deadline of each call of a port, MaxCall by default and
	// at most.
	CallTimeout time.Duration
	// Looks bounds how many releases ask the telemetry at the same time; 16 by
	// default.
	Looks int
}

func (c Config) withDefaults() Config {
	if c.Views == nil {
		c.Views = NewViews()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.CallTimeout <= 0 || c.CallTimeout > MaxCall {
		c.CallTimeout = MaxCall
	}
	if c.Looks <= 0 {
		c.Looks = 16
	}
	return c
}

// brain is the pure part of a turn. It is package release; tests put a scripted
// one in its place.
type brain struct {
	assess func(release.Release, release.Looks, release.Observation) (release.Release, release.Observation)
	decide func(release.Release, release.Observation) release.Decision
	permit func(release.Release, release.Observation, release.Action) error
}

// Engine runs every release of a journal that has not ended.
type Engine struct {
	cfg   Config
	brain brain
	// looking and loading bound the calls that all releases make at once.
	looking chan struct{}
	loading chan struct{}

	epoch   epoch
	mu      sync.Mutex
	workers map[release.Key]*worker
	running sync.WaitGroup
}

// maxLoads bounds how many records are loaded at the same time at a start.
const maxLoads = 16

// New makes an engine; Run starts it.
func New(c Config) *Engine {
	c = c.withDefaults()
	e := &Engine{
		cfg:     c,
		brain:   brain{release.Assess, release.Decide, release.Permit},
		looking: make(chan struct{}, c.Looks),
		loading: make(chan struct{}, maxLoads),
		workers: map[release.Key]*worker{},
	}
	e.epoch.now.Store(c.Epoch)
	return e
}

// Views shows the releases as of their last turn.
func (e *Engine) Views() *Views { return e.cfg.Views }

// Run serves every release of the journal until ctx ends, and returns when all
// work has stopped. A journal that does not answer is asked again.
func (e *Engine) Run(ctx context.Context) error {
	defer e.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for failures := 1; ; failures++ {
		listed, err := e.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if listed {
			failures = 1
		}
		e.cfg.Logger.Warn("the journal is not followed", "err", err, "failures", failures)
		if !sleep(ctx, backoff(failures)) {
			return nil
		}
	}
}

// follow watches first and lists then, so that nothing falls in between, and
// wakes the workers until the watch ends.
func (e *Engine) follow(ctx context.Context) (listed bool, err error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	changed, err := e.cfg.Journal.Watch(watching)
	if err != nil {
		return false, err
	}
	keys, err := e.list(ctx)
	if err != nil {
		return false, err
	}
	for _, k := range keys {
		e.call(ctx, k)
	}
	for k := range changed {
		e.call(ctx, k)
	}
	return true, errors.New("the watch of the journal has ended")
}

func (e *Engine) list(ctx context.Context) ([]release.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
	defer cancel()
	return e.cfg.Journal.List(ctx)
}

// call tells a release's worker that its record may have changed, and starts one
// where there is none.
func (e *Engine) call(ctx context.Context, k release.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w, ok := e.workers[k]; ok {
		ring(w.called)
		return
	}
	w := &worker{engine: e, key: k, called: make(chan struct{}, 1), stirred: make(chan struct{}, 1)}
	e.workers[k] = w
	e.running.Go(func() { w.run(ctx) })
}

// Kick makes a release look again now, if it has not ended.
func (e *Engine) Kick(k release.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w, ok := e.workers[k]; ok {
		ring(w.stirred)
	}
}

// dismiss forgets a worker that has nothing left to do, unless it was called
// meanwhile.
func (e *Engine) dismiss(w *worker) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-w.called:
		return false
	default:
	}
	delete(e.workers, w.key)
	return true
}

// ring leaves a token in a channel of one, and never waits.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits, and says whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
