package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/shifter-dev/shifter/internal/release"
)

// The API server is asked to end a watch after a time between these two.
const (
	minWatch = 5 * time.Minute
	maxWatch = 10 * time.Minute
)

// Watch sends the key of every release that is created, sent a command or deleted,
// and of every record that somebody else changed, once for any number of changes
// that the receiver has not taken yet. What this process saves is not told, since
// it is the one that watches; what it creates and appends is told at once. A
// writer never waits for a watcher.
//
// A watch that the API server ends, as it does with every one, is taken up where
// it stood if it has brought anything. The channel is closed when ctx ends, or
// when the watch is broken or the API server has forgotten where it stood: then
// something may have been missed, and the receiver lists anew.
func (s *ConfigMaps) Watch(ctx context.Context) (<-chan release.Key, error) {
	// A list of one tells where the present is. Who lists and loads after Watch has
	// returned sees all that was before.
	page, err := s.calls.list(ctx, metav1.ListOptions{LabelSelector: kindLabel + "=" + kindRelease, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("watch the releases: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	in, err := s.calls.watch(ctx, page.GetResourceVersion())
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch the releases: %w", err)
	}
	w := s.hub.join()
	go func() {
		defer cancel()
		s.follow(ctx, w, in, page.GetResourceVersion())
	}()
	return s.hub.watch(ctx, w), nil
}

// follow brings the events of a watch, and of those that take it up, to a watcher.
func (s *ConfigMaps) follow(ctx context.Context, w *watcher, in watch.Interface, from string) {
	for {
		at, err := s.drain(ctx, w, in, from)
		if err == nil && at == from {
			err = errors.New("it ended before it brought anything")
		}
		if err == nil {
			in, err = s.calls.watch(ctx, at)
		}
		if err != nil {
			if ctx.Err() == nil {
				s.log.Info("the watch of the releases has ended", "err", err)
			}
			return
		}
		from = at
	}
}

// drain brings the events of one watch to a watcher until it ends, and says how
// far it came.
func (s *ConfigMaps) drain(ctx context.Context, w *watcher, in watch.Interface, at string) (string, error) {
	defer in.Stop()
	for {
		select {
		case <-ctx.Done():
			return at, ctx.Err()
		case e, open := <-in.ResultChan():
			if !open {
				return at, nil
			}
			if e.Type == watch.Error {
				return at, apierrors.FromObject(e.Object)
			}
			o, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				return at, fmt.Errorf("an event of it brought a %T", e.Object)
			}
			at = o.GetResourceVersion()
			if e.Type != watch.Bookmark {
				s.hear(w, e.Type, o)
			}
		}
	}
}

// hear takes one event of a record.
func (s *ConfigMaps) hear(w *watcher, what watch.EventType, o *unstructured.Unstructured) {
	k, ok := s.named(o)
	if !ok {
		return
	}
	if what == watch.Deleted {
		s.seen.drop(k, nil)
	}
	s.echoes.hear(k, versionOf(o), func() { w.add(k) })
}

// watch opens a watch of the records. It ends when the API server ends it, or
// when that is overdue.
func (c calls) watch(ctx context.Context, from string) (watch.Interface, error) {
	lasts := minWatch + rand.N(maxWatch-minWatch)
	seconds := int64(lasts / time.Second)
	ctx, cancel := context.WithTimeout(ctx, lasts+c.timeout)
	late := time.AfterFunc(c.timeout, cancel)
	in, err := c.api.Watch(ctx, metav1.ListOptions{
		LabelSelector: kindLabel + "=" + kindRelease, ResourceVersion: from, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if !late.Stop() && err == nil {
		in.Stop()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch ConfigMaps in namespace %s: %w", c.namespace, c.explain("watch", err))
	}
	return bounded{in, cancel}, nil
}

// bounded is a watch that lets its context go when it is stopped.
type bounded struct {
	watch.Interface

	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (b bounded) Stop() {
	b.cancel()
	b.Interface.Stop()
}
