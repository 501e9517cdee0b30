package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// mirror is the state of one selection. One goroutine feeds it.
type mirror struct {
	selection Selection
	api       dynamic.ResourceInterface
	cfg       MirrorsConfig
	pause     time.Duration
	close     func()

	// users and left, how often one has gone, are Mirrors'.
	users, left int

	// telling is held while followers are told, so that who has left is not.
	telling   sync.Mutex
	followers map[*follower]bool

	mu      sync.Mutex
	phase   phase
	objects map[string]*unstructured.Unstructured
	// version is how far the mirror is, floor how far it must be to be shown; empty
	// is nowhere.
	version, floor string
	// strange says that versions came that cannot be compared.
	strange bool
	// heard is when the watch brought something last, or was opened; limit is how
	// long it may be silent from then on.
	heard time.Time
	limit time.Duration
	// stir is closed, and made anew, whenever a reader should look again.
	stir chan struct{}
	// doubts counts what makes a list stale that is under way; again ends it.
	doubts int
	again  context.CancelFunc
}

type follower struct{ told func() }

// phase says whether a mirror may be current.
type phase int

const (
	begins phase = iota // it lists, or opens a watch: it will be soon
	open                // the watch is open
	broken              // the last try failed: it may last
)

func (x *mirror) join(f *follower) {
	x.telling.Lock()
	defer x.telling.Unlock()
	x.followers[f] = true
	x.mu.Lock()
	has := x.objects != nil
	x.mu.Unlock()
	if has {
		f.told()
	}
}

func (x *mirror) leave(f *follower) {
	x.telling.Lock()
	defer x.telling.Unlock()
	delete(x.followers, f)
}

func (x *mirror) tell() {
	x.telling.Lock()
	defer x.telling.Unlock()
	for f := range x.followers {
		f.told()
	}
}

// change does something to the state, and has readers look again.
func (x *mirror) change(do func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	do()
	close(x.stir)
	x.stir = make(chan struct{})
}

// read shows the objects once the mirror is current.
func (x *mirror) read(ctx context.Context, until time.Time) (Sight, bool) {
	began := time.Now()
	var over <-chan time.Time
	for {
		s, shown, soon, stir := x.look()
		if shown || !soon {
			return s, shown
		}
		if over == nil {
			t := time.NewTimer(time.Until(until))
			defer t.Stop()
			over = t.C
		}
		select {
		case <-ctx.Done():
			return Sight{}, false
		case <-stir:
		case <-over:
			if time.Since(began) >= x.cfg.Patience/2 {
				x.giveUp()
			}
			return Sight{}, false
		}
	}
}

// look shows the objects if the mirror is current; if it is not, soon says whether
// it will be in a moment.
func (x *mirror) look() (s Sight, shown, soon bool, stir <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	switch {
	case x.strange, x.phase == broken, x.phase == open && now.Sub(x.heard) > x.limit:
		return s, false, false, nil
	case x.phase == begins, x.behind():
		return s, false, true, x.stir
	}
	return Sight{x.sorted(), now}, true, false, nil
}

func (x *mirror) sorted() []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, 0, len(x.objects))
	for _, name := range slices.Sorted(maps.Keys(x.objects)) {
		out = append(out, x.objects[name])
	}
	return out
}

// behind reports that something newer is known than what the mirror has.
func (x *mirror) behind() bool { return x.floor != "" && !x.reached(x.version, x.floor) }

// reached compares two versions. Those that are no integers are compared never
// again.
func (x *mirror) reached(version, floor string) bool {
	n, err := resourceversion.CompareResourceVersion(version, floor)
	if err != nil {
		x.strange = true
	}
	return err == nil && n >= 0
}

func (x *mirror) raise(version string) {
	x.change(func() {
		if x.floor == "" || !x.reached(x.floor, version) {
			x.floor = version
		}
		if x.version != "" {
			x.behind() // looks whether they can be compared
		}
	})
}

// giveUp is what a reader does who has waited in vain: a watch that does not bring
// our own write in time is not worth waiting for again.
func (x *mirror) giveUp() {
	x.mu.Lock()
	late := x.phase == open && x.behind()
	x.mu.Unlock()
	if late {
		x.doubt()
	}
}

// doubt has the mirror begin anew, at once.
func (x *mirror) doubt() {
	x.change(func() {
		x.doubts++
		if x.phase == open {
			x.phase = begins
		}
		if x.again != nil {
			x.again()
		}
	})
}

// begin opens a round: what was doubted before it is of no concern to it.
func (x *mirror) begin(again context.CancelFunc) (doubts int, floor string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.again = again
	return x.doubts, x.floor
}

// replace takes a whole list in. It was made after the floor was known that is
// given, so it has reached that, even where the versions say otherwise: a cluster
// that was restored counts from an earlier one.
func (x *mirror) replace(objects map[string]*unstructured.Unstructured, version, floor string) {
	x.change(func() {
		x.objects, x.version, x.strange = objects, version, false
		if x.floor == floor {
			x.floor = ""
		}
		x.reached(version, version) // looks whether it can be compared
	})
}

// opens says that a watch is open from the mirror's version on, unless the mirror
// is in doubt.
func (x *mirror) opens(doubts int) {
	x.change(func() {
		if x.doubts == doubts {
			x.phase, x.heard, x.limit = open, time.Now(), 2*x.cfg.Silence
		}
	})
}

// ends says that there is no watch, and whether there will be one in a moment.
func (x *mirror) ends(next phase) {
	x.change(func() { x.phase = next })
}

// news is what an event brings.
type news int

const (
	nothing  news = iota
	change        // of an object, or a bookmark that says what was known
	progress      // a bookmark that says more: more of them will come
)

// apply takes one event in.
func (x *mirror) apply(e watch.Event) (news, error) {
	if e.Type == watch.Error {
		return nothing, apierrors.FromObject(e.Object)
	}
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return nothing, fmt.Errorf("an event of it brought a %T", e.Object)
	}
	version, name := o.GetResourceVersion(), o.GetName()
	if e.Type == watch.Added || e.Type == watch.Modified {
		x.cfg.Strip(x.selection.Resource, o)
	}
	brought := change
	x.change(func() {
		switch e.Type {
		case watch.Added, watch.Modified:
			x.objects[name] = o
		case watch.Deleted:
			delete(x.objects, name)
		case watch.Bookmark, watch.Error:
		}
		if !x.reached(x.version, version) {
			x.version = version
			if e.Type == watch.Bookmark {
				brought = progress
			}
		}
		x.heard, x.limit = time.Now(), x.cfg.Silence
	})
	if e.Type != watch.Bookmark {
		x.tell()
	}
	return brought, nil
}
