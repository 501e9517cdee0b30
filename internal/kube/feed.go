package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// pageSize is how many objects one answer holds at most.
	pageSize = 500
	// The API server is asked to end a watch after a time between these two, or
	// between the first two while it may have no other sign of life to give: the end
	// of a watch is one, and costs no list.
	firstMinWatch = 100 * time.Second
	firstMaxWatch = 150 * time.Second
	minWatch      = 5 * time.Minute
	maxWatch      = 10 * time.Minute
	// gap is the time within which a watch that the API server has ended must be
	// taken up: until the events of the time between have come, a mirror is behind
	// by as much.
	gap = 2 * time.Second
	// The waits between two tries. A round that lasted steady did not fail for what
	// the rounds before it failed.
	firstWait = 500 * time.Millisecond
	maxWait   = 30 * time.Second
	steady    = time.Minute
)

// run feeds the mirror until ctx ends.
func (x *mirror) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		doubted, err := x.round(ctx)
		if ctx.Err() != nil {
			return
		}
		x.cfg.Logger.Debug("a mirror begins anew", "resource", x.selection.Resource.Resource,
			"namespace", x.selection.Namespace, "name", x.selection.Name, "labels", x.selection.Labels, "err", err)
		if doubted {
			continue
		}
		x.ends(broken)
		x.tell() // something may have been missed
		if time.Since(began) >= steady {
			failures = 0
		}
		wait(ctx, x.pause<<min(failures, 10))
		failures++
	}
}

// wait waits, with a spread so that many do not come back at once.
func wait(ctx context.Context, d time.Duration) {
	d = min(d, maxWait)
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// round lists, and then watches from there for as long as nothing is wrong.
// doubted says that it was ended by a doubt and nothing else.
func (x *mirror) round(ctx context.Context) (doubted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	doubts, floor := x.begin(cancel)
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		doubted = x.doubts != doubts
	}()
	objects, version, err := x.list(ctx)
	if err != nil {
		return false, err
	}
	x.replace(objects, version, floor)
	x.tell()
	lasts := firstMinWatch + rand.N(firstMaxWatch-firstMinWatch)
	for patience := x.cfg.Timeout; ; patience = min(gap, x.cfg.Timeout) {
		in, err := x.watch(ctx, version, lasts, patience)
		if err != nil {
			return false, err
		}
		x.opens(doubts)
		began := time.Now()
		news, err := x.hear(ctx, in)
		if err != nil {
			return false, err
		}
		if news == nothing && time.Since(began) < steady {
			return false, errors.New("the watch ended before it brought anything")
		}
		lasts = firstMinWatch + rand.N(firstMaxWatch-firstMinWatch)
		if news == progress {
			lasts = minWatch + rand.N(maxWatch-minWatch)
		}
		version = x.at()
		x.ends(begins)
	}
}

// list reads all that is there now, page by page. All pages are of one moment.
func (x *mirror) list(ctx context.Context) (map[string]*unstructured.Unstructured, string, error) {
	out := map[string]*unstructured.Unstructured{}
	opts := x.selection.options()
	opts.Limit = pageSize
	for {
		page, err := x.page(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		for i := range page.Items {
			o := &unstructured.Unstructured{Object: page.Items[i].Object}
			x.cfg.Strip(x.selection.Resource, o)
			out[o.GetName()] = o
		}
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			return out, page.GetResourceVersion(), nil
		}
	}
}

func (x *mirror) page(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel, err := Within(ctx, x.cfg.Timeout)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return x.api.List(ctx, opts)
}

// watch opens a watch from a version on. It ends when the API server ends it, or
// when that is overdue.
func (x *mirror) watch(ctx context.Context, from string, lasts, patience time.Duration) (watch.Interface, error) {
	seconds := int64(lasts / time.Second)
	opts := x.selection.options()
	opts.ResourceVersion, opts.AllowWatchBookmarks, opts.TimeoutSeconds = from, true, &seconds
	ctx, cancel := context.WithTimeout(ctx, lasts+x.cfg.Timeout)
	late := time.AfterFunc(patience, cancel)
	in, err := x.api.Watch(ctx, opts)
	if !late.Stop() && err == nil {
		in.Stop()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("opening a watch: %w", err)
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

// hear takes the events of a watch in until the API server ends it, and says what
// has come at best.
func (x *mirror) hear(ctx context.Context, in watch.Interface) (best news, err error) {
	defer in.Stop()
	quiet := time.NewTimer(2 * x.cfg.Silence)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return best, ctx.Err()
		case <-quiet.C:
			return best, errors.New("nothing was heard for too long")
		case e, more := <-in.ResultChan():
			if !more {
				return best, nil
			}
			n, err := x.apply(e)
			if err != nil {
				return best, err
			}
			best = max(best, n)
			quiet.Reset(x.cfg.Silence)
		}
	}
}

func (x *mirror) at() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.version
}
