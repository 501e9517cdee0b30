package sandbox

import (
	"context"
	"sync"
	"time"
)

// group owns goroutines: they end when it is stopped, and stop waits for them.
type group struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

func newGroup() *group {
	ctx, cancel := context.WithCancel(context.Background())
	return &group{ctx: ctx, cancel: cancel}
}

// run starts f in a goroutine of the group. It does nothing once the group is
// stopped.
func (g *group) run(f func(context.Context)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.wg.Go(func() { f(g.ctx) })
}

// stop tells every goroutine to end and waits until they have.
func (g *group) stop() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	g.wg.Wait()
}

// hub tells its listeners that something has changed. A listener that has not
// yet heard of the last change hears of both at once.
type hub struct {
	mu        sync.Mutex
	listeners map[chan struct{}]bool
}

// notify wakes every listener. It never blocks.
func (h *hub) notify() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.listeners {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// listen returns a channel that is closed when ctx ends.
func (h *hub) listen(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	if h.listeners == nil {
		h.listeners = map[chan struct{}]bool{}
	}
	h.listeners[ch] = true
	h.mu.Unlock()
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.listeners, ch)
		close(ch)
	})
	return ch
}

// lagged is a value that its readers see some time after it was set. It needs
// no goroutine: the reader brings the time.
type lagged[T any] struct {
	lag time.Duration

	mu   sync.Mutex
	now  T
	next []due[T]
}

type due[T any] struct {
	at time.Time
	v  T
}

func newLagged[T any](lag time.Duration, first T) *lagged[T] {
	return &lagged[T]{lag: lag, now: first}
}

func (l *lagged[T]) set(v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = append(l.next, due[T]{time.Now().Add(l.lag), v})
}

func (l *lagged[T]) get() T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.next) == 0 {
		return l.now
	}
	now := time.Now()
	for len(l.next) > 0 && !l.next[0].at.After(now) {
		l.now, l.next = l.next[0].v, l.next[1:]
	}
	return l.now
}

// sleep waits for d and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
