package sandbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// acceptAfter is how long the route's controller takes to write its status; on
// a real istiod it was 28 to 43 ms.
const acceptAfter = 50 * time.Millisecond

// route is the HTTPRoute: one rule with the two tracks, status, and the marks
// that its writers leave.
type route struct {
	log     *slog.Logger
	hub     *hub
	written chan struct{} // wakes the controller
	// declared is called after each write of weights, before the writer hears of
	// its success: a fault of this share is there before anything follows.
	declared func()
	weights  *lagged[release.Pair] // as the proxy enforces them

	mu         sync.Mutex
	closed     bool
	uid        string
	generation int64 // rises with the spec
	observed   int64 // the generation that the status speaks of
	split      release.Pair
	peak       float64 // the largest share that the primary was declared
	fence      release.Fence
	marked     string // in-progress label, empty without
	foreign    string // field manager of the last write, when it was not ours
}

func newRoute(cfg Config, log *slog.Logger, h *hub) *route {
	first := cfg.Begin.split()
	return &route{
		log: log, hub: h, uid: newUID(), generation: 1, observed: 1, split: first,
		written: make(chan struct{}, 1), declared: func() {}, weights: newLagged(cfg.Propagation, first),
	}
}

// control is the route's controller: it accepts every generation, a moment
// later.
func (r *route) control(ctx context.Context) {
	for {
		select {
		case <-r.written:
		case <-ctx.Done():
			return
		}
		if !sleep(ctx, acceptAfter) {
			return
		}
		r.mu.Lock()
		r.observed = r.generation
		r.mu.Unlock()
		r.hub.notify()
	}
}

// write sets the weights; the caller holds the lock.
func (r *route) write(to release.Pair, manager string) {
	if to != r.split {
		r.generation++
		r.weights.set(to)
	}
	r.split, r.foreign = to, manager
	r.peak = max(r.peak, to.Share(release.Primary))
	select {
	case r.written <- struct{}{}:
	default:
	}
	r.hub.notify()
	r.log.Info("weights were written", "primary", to.Primary, "canary", to.Canary, "generation", r.generation, "by", manager)
}

// writeForeign sets the weights as somebody else would.
func (r *route) writeForeign(manager string, to release.Pair) {
	r.mu.Lock()
	r.write(to, manager)
	r.mu.Unlock()
	r.declared()
}

func (r *route) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// peakShare is the largest share that the primary was ever declared.
func (r *route) peakShare() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.peak
}
