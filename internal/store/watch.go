package store

import (
	"context"
	"sync"

	"github.com/shifter-dev/shifter/internal/release"
)

// hub tells watchers which records changed. What a watcher has not taken yet is
// a set of keys, so it is bounded by the number of records and no writer waits.
type hub struct {
	mu       sync.Mutex
	watchers map[*watcher]bool
}

type watcher struct {
	mu     sync.Mutex
	queued map[release.Key]bool
	order  []release.Key
	// stir holds one token while order is not empty.
	stir chan struct{}
}

func newHub() *hub { return &hub{watchers: map[*watcher]bool{}} }

func (h *hub) tell(k release.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		w.add(k)
	}
}

// join adds a watcher, which is told of everything until it is dropped.
func (h *hub) join() *watcher {
	w := &watcher{queued: map[release.Key]bool{}, stir: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers[w] = true
	return w
}

// watch starts the one goroutine that serves a watcher; it ends with ctx.
func (h *hub) watch(ctx context.Context, w *watcher) <-chan release.Key {
	out := make(chan release.Key)
	go func() {
		defer close(out)
		defer h.drop(w)
		w.serve(ctx, out)
	}()
	return out
}

func (h *hub) drop(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
}

func (w *watcher) add(k release.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queued[k] {
		return
	}
	w.queued[k] = true
	w.order = append(w.order, k)
	select {
	case w.stir <- struct{}{}:
	default:
	}
}

func (w *watcher) take() (release.Key, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order) == 0 {
		return release.Key{}, false
	}
	k := w.order[0]
	w.order = w.order[1:]
	delete(w.queued, k)
	return k, true
}

// serve hands the keys over. A key leaves the queue before it is sent: a change
// while the receiver is slow queues it again, so none is lost.
func (w *watcher) serve(ctx context.Context, out chan<- release.Key) {
	for {
		k, ok := w.take()
		if !ok {
			select {
			case <-w.stir:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case out <- k:
		case <-ctx.Done():
			return
		}
	}
}
