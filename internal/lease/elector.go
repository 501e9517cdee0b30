package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
)

// The times of an election. What the holder does may take Duration minus Deadline
// to stop.
const (
	// Duration is how long a Lease that is not renewed keeps the others away.
	Duration = 15 * time.Second
	// Deadline is how long after its last renewal the holder stops.
	Deadline = 10 * time.Second
	// Retry is the time between two renewals, or two looks of those who wait.
	Retry = 2 * time.Second
)

// ErrLost ends a term: the Lease was not renewed in time, or is another's.
var ErrLost = errors.New("the Lease is lost")

// Config is what an elector needs to know.
type Config struct {
	Namespace, Name string
	// Identity is this process's own: no other one, and no earlier one, has it.
	Identity string
	// Duration, Deadline and Retry have the constants as defaults.
	Duration, Deadline, Retry time.Duration
	// Logger is silent by default.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Duration == 0 {
		c.Duration = Duration
	}
	if c.Deadline == 0 {
		c.Deadline = Deadline
	}
	if c.Retry == 0 {
		c.Retry = Retry
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Namespace == "" || c.Name == "" || c.Identity == "":
		return c, errors.New("a Lease needs a namespace, a name and an identity")
	case c.Retry <= 0 || c.Deadline <= c.Retry || c.Duration <= c.Deadline:
		return c, fmt.Errorf("retry %s, deadline %s, duration %s: each must be longer than the one before it", c.Retry, c.Deadline, c.Duration)
	}
	return c, nil
}

// State is what an elector knows at the moment.
type State struct {
	// Leading says that this process holds the Lease.
	Leading bool
	// Holder is the last one that was seen, empty when there was none.
	Holder string
	// Err says why the Lease could not be looked at or taken.
	Err error
}

// Elector stands for one process in an election.
type Elector struct {
	cfg   Config
	calls calls

	mu    sync.Mutex
	state State
}

// New makes an elector; Run lets it stand. The client should be its own: whatever
// waits behind the work waits for its requests, too.
func New(client dynamic.Interface, c Config) (*Elector, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Elector{cfg: c, calls: newCalls(client, c)}, nil
}

// State returns what is known at the moment.
func (e *Elector) State() State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

// Identity is the name under which it stands.
func (e *Elector) Identity() string { return e.cfg.Identity }

// say keeps the state, and logs what is new in it. Nothing is said after a loss,
// whatever still comes back.
func (e *Elector) say(s State) {
	e.mu.Lock()
	was := e.state
	lost := errors.Is(was.Err, ErrLost)
	if !lost {
		e.state = s
	}
	e.mu.Unlock()
	if lost {
		return
	}
	switch log := e.cfg.Logger; {
	case errors.Is(s.Err, ErrLost):
		log.Error("this process leads no more", "err", s.Err, "identity", e.cfg.Identity)
	case s.Leading && s.Err != nil:
		log.Warn("the Lease was not renewed", "err", s.Err)
	case s.Leading && !was.Leading:
		log.Info("this process leads", "identity", s.Holder)
	case s.Err != nil && (was.Err == nil || was.Err.Error() != s.Err.Error()):
		log.Warn("the Lease cannot be taken", "err", s.Err, "again", e.cfg.Retry)
	case s.Err == nil && !s.Leading && s.Holder != "" && (s.Holder != was.Holder || was.Err != nil):
		log.Info("another process leads; this one stands by", "leader", s.Holder, "identity", e.cfg.Identity)
	}
}

// Run waits until this process holds the Lease, and calls lead with a context
// that ends when ctx does or when the Lease is lost. When lead returns, the Lease
// is released; until then it is renewed, also after ctx has ended. The error is
// lead's own, or ErrLost: then the Lease may be another's any moment, what lead has
// not stopped by then is still under way, and the elector is of no more use.
func (e *Elector) Run(ctx context.Context, lead func(context.Context) error) error {
	h := e.acquire(ctx)
	if h == nil {
		return nil // told to stop before it held anything
	}
	term, end := context.WithCancelCause(ctx)
	defer end(nil)
	f := burn(h.since.Add(e.cfg.Deadline))
	renewing, rest := context.WithCancel(context.WithoutCancel(ctx))
	defer rest()
	kept, led := make(chan error, 1), make(chan struct{})
	var result error
	go func() { kept <- e.keep(renewing, h, f) }()
	go func() {
		defer close(led)
		result = lead(term)
	}()
	var err error
	select {
	case err = <-kept:
	case <-f.blown:
		err = fmt.Errorf("%w: it was not renewed for %s", ErrLost, e.cfg.Deadline)
		if last := e.State().Err; last != nil {
			err = fmt.Errorf("%w: %w", err, last)
		}
	case <-led:
		rest()
		e.leave(ctx, h, f, kept)
		return result
	}
	end(err)
	rest()
	e.say(State{Err: err})
	e.outlast(led)
	return err
}

// outlast waits for the end of what was led, as long as nobody else can lead.
func (e *Elector) outlast(led <-chan struct{}) {
	t := time.NewTimer(e.cfg.Duration - e.cfg.Deadline)
	defer t.Stop()
	select {
	case <-led:
	case <-t.C:
		e.cfg.Logger.Error("the work has not stopped although the Lease is lost")
	}
}

// leave releases the Lease when its renewal has ended.
func (e *Elector) leave(ctx context.Context, h *held, f *fuse, kept <-chan error) {
	t := time.NewTimer(2 * e.calls.timeout)
	defer t.Stop()
	select {
	case err := <-kept:
		if err != nil || !f.stop() {
			return
		}
	case <-t.C:
		return // it runs out by itself
	}
	err := e.calls.release(context.WithoutCancel(ctx), h)
	e.say(State{})
	if err != nil {
		e.cfg.Logger.Warn("the Lease was not released; it runs out by itself", "err", err)
		return
	}
	e.cfg.Logger.Info("the Lease is released")
}

// acquire looks at the Lease until this process holds it; nil is that ctx has ended.
func (e *Elector) acquire(ctx context.Context) *held {
	var w witness
	for {
		h, holder, err := e.try(ctx, &w)
		switch {
		case h != nil:
			e.say(State{Leading: true, Holder: e.cfg.Identity})
			return h
		case ended(ctx):
			return nil
		}
		e.say(State{Holder: holder, Err: err})
		if !sleep(ctx, min(e.pause(), w.left())) {
			return nil
		}
	}
}

// try takes the Lease if it is free.
func (e *Elector) try(ctx context.Context, w *witness) (h *held, holder string, err error) {
	o, err := e.calls.get(ctx)
	if err != nil {
		return nil, "", err
	}
	h = &held{lease: o}
	if o != nil {
		holder = holderOf(o)
		if holder != "" && holder != e.cfg.Identity && !w.over(o, e.cfg.Duration) {
			return nil, holder, nil
		}
	}
	switch err = e.calls.write(ctx, h, e.cfg.Identity); {
	case taken(err):
		return nil, holder, nil // somebody was faster; the next look says who
	case err != nil:
		return nil, holder, err
	}
	return h, e.cfg.Identity, nil
}

// keep renews the Lease until ctx ends. An error says that it is lost.
func (e *Elector) keep(ctx context.Context, h *held, f *fuse) error {
	for {
		// The pause counts from the last try: one that took long is followed at once.
		if !sleep(ctx, e.pause()-time.Since(h.tried)) {
			return nil
		}
		err := e.renew(ctx, h)
		switch {
		case errors.Is(err, ErrLost):
			return err
		case ended(ctx):
			return nil
		case err == nil && !f.lengthen(h.since.Add(e.cfg.Deadline)):
			return fmt.Errorf("%w: it was renewed too late", ErrLost)
		}
		e.say(State{Leading: true, Holder: e.cfg.Identity, Err: err})
	}
}

// renew writes the Lease over the version that was seen last, and looks again
// where another one is there.
func (e *Elector) renew(ctx context.Context, h *held) error {
	err := e.calls.write(ctx, h, e.cfg.Identity)
	if !taken(err) {
		return err
	}
	o, err := e.calls.get(ctx)
	switch {
	case err != nil:
		return err
	case o == nil:
		return fmt.Errorf("%w: somebody has deleted it", ErrLost)
	case holderOf(o) == "":
		return fmt.Errorf("%w: somebody has taken this process's name out of it", ErrLost)
	case holderOf(o) != e.cfg.Identity:
		return fmt.Errorf("%w: it is held by %s", ErrLost, holderOf(o))
	}
	h.lease = o
	return e.calls.write(ctx, h, e.cfg.Identity)
}

// pause spreads those who wait, so that they do not all ask at once.
func (e *Elector) pause() time.Duration {
	return e.cfg.Retry - rand.N(e.cfg.Retry/5)
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }

// sleep waits, and says whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// fuse ends a term, whatever the renewal is waiting for.
type fuse struct {
	blown chan struct{}
	timer *time.Timer
}

func burn(until time.Time) *fuse {
	f := &fuse{blown: make(chan struct{})}
	f.timer = time.AfterFunc(time.Until(until), func() { close(f.blown) })
	return f
}

// lengthen says whether it was in time.
func (f *fuse) lengthen(until time.Time) bool {
	d := time.Until(until)
	if !f.timer.Stop() {
		return false
	}
	f.timer.Reset(d)
	return true
}

// stop says whether it was in time.
func (f *fuse) stop() bool { return f.timer.Stop() }
