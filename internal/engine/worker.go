package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// worker is the one goroutine of a release that has not ended. Others only ring
// its two bells.
type worker struct {
	engine *Engine
	key    release.Key

	// called says that the record may have changed (a command); stirred that the
	// world may have. Each holds one token at most.
	called  chan struct{}
	stirred chan struct{}

	state
}

// state is what a worker knows; only its own goroutine touches it.
type state struct {
	// rec is the record as it is known: its release may be ahead of the saved one
	// by what needs no saving. saved is the release as it lies in the journal.
	rec   release.Record
	saved release.Release
	// tried is what a save without an answer would have left there.
	tried *release.Release
	// stale says that the record must be loaded before the next decision.
	stale bool
	// heard is the last command for which a turn did not wait for the telemetry.
	heard uint64

	looks  release.Looks
	failed []release.ActionError
	// failures counts the turns in a row that ended early.
	failures int
}

// run lives the worker's life, and another one when it was called while the last
// one ended.
func (w *worker) run(ctx context.Context) {
	for {
		w.live(ctx)
		if w.engine.dismiss(w) || ctx.Err() != nil {
			return
		}
	}
}

// live takes turns until the release has ended.
func (w *worker) live(ctx context.Context) {
	if !w.open(ctx) {
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, x := range w.engine.cfg.Watchers {
		b := w.saved.Binding
		watching.Go(func() { w.follow(ctx, x, b) })
	}
	for {
		wake, over := w.guardedTurn(ctx)
		if over || !w.wait(ctx, wake) {
			return
		}
	}
}

// open loads the record for the first time, and says whether there is work.
func (w *worker) open(ctx context.Context) bool {
	for failures := 1; ; failures++ {
		rec, err := w.loadInTurn(ctx)
		switch {
		case err == nil:
			return w.begin(rec)
		case errors.Is(err, release.ErrNotFound):
			w.engine.cfg.Views.drop(w.key)
			return false
		case release.IsUnreadable(err):
			w.setAside(err)
			return false
		}
		if ctx.Err() != nil {
			return false
		}
		w.engine.cfg.Logger.Warn("record not loaded", "release", w.key, "err", err)
		if !sleep(ctx, backoff(failures)) {
			return false
		}
	}
}

// loadInTurn loads the record when not too many others do.
func (w *worker) loadInTurn(ctx context.Context) (release.Record, error) {
	select {
	case w.engine.loading <- struct{}{}:
	case <-ctx.Done():
		return release.Record{}, ctx.Err()
	}
	defer func() { <-w.engine.loading }()
	return w.load(ctx)
}

// begin takes a loaded record as the worker's own, with nothing seen yet.
func (w *worker) begin(rec release.Record) bool {
	w.state = state{}
	w.adopt(rec)
	if v, ok := w.engine.cfg.Views.Get(w.key); !ok || v.Release.Revision != rec.Release.Revision {
		w.publishRecord()
	}
	return !rec.Release.Phase.Terminal()
}

// adopt takes a record as it was loaded. Another process may have written it
// last, so what only this one saw of the present step proves nothing.
func (w *worker) adopt(rec release.Record) {
	w.rec, w.saved, w.tried, w.stale = rec, rec.Release, nil, false
	w.rec.Release = release.Resume(rec.Release, w.now())
}

// wait sleeps until something happens or it is time, and says whether ctx has
// not ended. A command is served at once; a stir waits for the least time
// between turns, so that a restless world does not keep the release turning.
func (w *worker) wait(ctx context.Context, wake time.Time) bool {
	began := w.now()
	if wake.IsZero() {
		wake = began.Add(maxSleep)
	}
	timer := time.NewTimer(max(wake.Sub(began), 0))
	defer timer.Stop()
	stirred := w.stirred
	for {
		select {
		case <-ctx.Done():
			return false
		case <-w.called:
			w.stale = true
			return true
		case <-stirred:
			stirred = nil
			if soon := began.Add(minTurn); soon.Before(wake) {
				timer.Reset(max(soon.Sub(w.now()), 0))
			}
		case <-timer.C:
			return true
		}
	}
}

const (
	// minTurn is the least time between the end of a turn and one that a stir
	// brings about.
	minTurn = 200 * time.Millisecond
	// maxSleep is how long a release sleeps for which the brain named no time.
	maxSleep = time.Minute
)

// follow rings for one watcher until ctx ends. A watcher that fails only costs
// the time until the next wake, so it is asked again without haste.
func (w *worker) follow(ctx context.Context, x Watcher, b release.Binding) {
	for {
		err := w.hear(ctx, x, b)
		if ctx.Err() != nil {
			return
		}
		w.engine.cfg.Logger.Debug("a watch has ended", "release", w.key, "err", err)
		sleep(ctx, maxBackoff)
	}
}

// hear rings until the watch ends. A panic in a watcher is an error like another:
// no release depends on it.
func (w *worker) hear(ctx context.Context, x Watcher, b release.Binding) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	seen, err := x.Watch(ctx, b)
	if err != nil {
		return err
	}
	for range seen {
		ring(w.stirred)
	}
	return nil
}

func (w *worker) now() time.Time { return w.engine.cfg.Clock() }

// bounded gives a call of a port its deadline.
func (w *worker) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, w.engine.cfg.CallTimeout)
}
