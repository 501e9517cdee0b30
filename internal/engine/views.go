package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// Views shows each release as of its last turn. It is safe for concurrent use,
// and publishing never waits for who watches.
type Views struct {
	mu      sync.Mutex
	views   map[release.Key]release.View
	seqs    map[release.Key]uint64
	viewers map[*viewer]bool
}

// NewViews makes an empty one.
func NewViews() *Views {
	return &Views{
		views:   map[release.Key]release.View{},
		seqs:    map[release.Key]uint64{},
		viewers: map[*viewer]bool{},
	}
}

// Get returns the last view of a release.
func (v *Views) Get(k release.Key) (release.View, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w, ok := v.views[k]
	return w, ok
}

// List returns the last view of every release, in the order of their keys.
func (v *Views) List() []release.View {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sorted(release.Key{})
}

// Watch sends the present view of a release, or of all with the zero key, and
// then every new one. Who is slow gets the latest and misses what was before it.
// The channel is closed when ctx ends.
func (v *Views) Watch(ctx context.Context, k release.Key) <-chan release.View {
	w := &viewer{key: k, queued: map[release.Key]release.View{}, stir: make(chan struct{}, 1)}
	v.mu.Lock()
	for _, now := range v.sorted(k) {
		w.add(now)
	}
	v.viewers[w] = true
	v.mu.Unlock()
	out := make(chan release.View)
	go func() {
		defer close(out)
		defer v.leave(w)
		w.serve(ctx, out)
	}()
	return out
}

// sorted returns the views of a key, or all with the zero one; the mutex is held.
func (v *Views) sorted(k release.Key) []release.View {
	out := make([]release.View, 0, len(v.views))
	for _, x := range v.views {
		if k == (release.Key{}) || x.Release.Key == k {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b release.View) int {
		x, y := a.Release.Key, b.Release.Key
		if c := strings.Compare(x.Namespace, y.Namespace); c != 0 {
			return c
		}
		return strings.Compare(x.Name, y.Name)
	})
	return out
}

// publish makes a view the last one of its release, and numbers it.
func (v *Views) publish(w release.View) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := w.Release.Key
	v.seqs[k]++
	w.Seq = v.seqs[k]
	v.views[k] = w
	for x := range v.viewers {
		if x.key == (release.Key{}) || x.key == k {
			x.add(w)
		}
	}
}

// drop forgets a release whose record is gone. Its number stays, so that a
// watcher never sees one fall.
func (v *Views) drop(k release.Key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.views, k)
}

func (v *Views) leave(w *viewer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.viewers, w)
}

// viewer is one watcher with what it has not taken yet: one view a release.
type viewer struct {
	key release.Key

	mu     sync.Mutex
	queued map[release.Key]release.View
	order  []release.Key
	// stir holds one token while order is not empty.
	stir chan struct{}
}

func (w *viewer) add(v release.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := v.Release.Key
	if _, ok := w.queued[k]; !ok {
		w.order = append(w.order, k)
	}
	w.queued[k] = v
	ring(w.stir)
}

// take hands out the latest view of the release that waits longest.
func (w *viewer) take() (release.View, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order) == 0 {
		return release.View{}, false
	}
	k := w.order[0]
	v := w.queued[k]
	w.order = w.order[1:]
	delete(w.queued, k)
	return v, true
}

func (w *viewer) serve(ctx context.Context, out chan<- release.View) {
	for {
		v, ok := w.take()
		if !ok {
			select {
			case <-w.stir:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case out <- v:
		case <-ctx.Done():
			return
		}
	}
}

// publish shows the release as of this turn.
func (w *worker) publish(o release.Observation) {
	w.engine.cfg.Views.publish(w.rec.Release.View(o))
}

// publishTrouble shows what was seen in a turn that could not be saved.
func (w *worker) publishTrouble(o release.Observation, err error) {
	v := w.rec.Release.View(o)
	v.Trouble = err.Error()
	w.engine.cfg.Views.publish(v)
}

// publishRecord shows the release as it lies in the journal, with nothing seen.
func (w *worker) publishRecord() {
	w.engine.cfg.Views.publish(recordView(w.saved))
}

func recordView(r release.Release) release.View {
	v := release.View{Release: r, AsOf: r.Since}
	why := "not looked at since the record was written"
	for t := range v.Tracks {
		n := release.Unseen[int](why)
		v.Tracks[t] = release.TrackView{
			Deployment: r.Binding.Tracks[t].Deployment,
			Service:    r.Binding.Tracks[t].Service,
			Desired:    n, Ready: n, Leaving: n,
			Template: release.Unseen[release.Template](why),
		}
	}
	v.Declared = release.Unseen[float64](why)
	if r.Verdict != nil {
		v.Verdict = release.Known(*r.Verdict, r.Verdict.At)
	}
	if r.Drain != nil {
		v.Drain = release.Known(*r.Drain, r.Drain.At)
	}
	return v
}

// unreadableView shows a record that cannot be understood: nothing is done for
// it, and a person must look.
func unreadableView(k release.Key, err error, now time.Time) release.View {
	return release.View{AsOf: now, Release: release.Release{
		Schema: release.Schema, Key: k, Phase: release.Failed, Reason: release.ReasonInternal, NeedsHuman: true,
		Since: now, Message: fmt.Sprintf("Nothing is done for this release: %v.", err),
	}}
}
