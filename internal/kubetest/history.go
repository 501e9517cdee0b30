package kubetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// history is what happened, for watches and for lists in pages; the server's
// lock covers it.
type history struct {
	changes []change
	// forgotten is the last version that no watch can begin at any more.
	forgotten int64
	// stir is closed with every change, cut when all watches are to end.
	stir, cut chan struct{}
	// held says that watches hear of nothing for now.
	held  bool
	pages map[string]page
}

// change is one version of one object: it was nil before it was there, and it is
// nil when it was deleted. A bookmark is no object's.
type change struct {
	version  int64
	at       place
	was, is  Object
	bookmark string
}

// page is what is left of a list that was begun: as it was then.
type page struct {
	version string
	items   []Object
}

type event struct {
	Type   string `json:"type"`
	Object Object `json:"object"`
}

func newHistory() history {
	return history{stir: make(chan struct{}), cut: make(chan struct{}), pages: map[string]page{}}
}

func (h *history) add(c change) {
	h.changes = append(h.changes, c)
	close(h.stir)
	h.stir = make(chan struct{})
}

// to is the change as a watch hears it, if it does: an object that no longer
// answers to the selector is deleted for it, with the version of the change.
func (c change) to(q place, bookmarks bool) (event, bool) {
	if c.bookmark != "" {
		o := Object{"apiVersion": q.GroupVersion().String(), "kind": c.bookmark, "metadata": Object{"resourceVersion": fmt.Sprint(c.version)}}
		return event{"BOOKMARK", o}, bookmarks && c.at.GroupVersionResource == q.GroupVersionResource
	}
	had, has := c.was != nil && q.covers(c.at, c.was), c.is != nil && q.covers(c.at, c.is)
	switch {
	case has && had:
		return event{"MODIFIED", c.is}, true
	case has:
		return event{"ADDED", c.is}, true
	case had:
		o := runtime.DeepCopyJSON(c.was)
		meta(o)["resourceVersion"] = fmt.Sprint(c.version)
		return event{"DELETED", o}, true
	}
	return event{}, false
}

// Bookmark tells the watches of a resource that asked for it how far they are.
func (s *Server) Bookmark(r schema.GroupVersionResource, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.add(change{version: s.version, at: place{GroupVersionResource: r}, bookmark: kind})
}

// Cut ends every watch, as a server does now and then.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.history.cut)
	s.history.cut = make(chan struct{})
}

// Hold keeps all that happens from watches, as a connection does that is dead and
// does not say so, until Free.
func (s *Server) Hold() { s.hold(true) }

// Free lets watches hear again, of all that was kept from them first.
func (s *Server) Free() { s.hold(false) }

func (s *Server) hold(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.held = held
	close(s.history.stir)
	s.history.stir = make(chan struct{})
}

// Forget drops the past: no watch begins before now any more, and no list that
// was begun goes on.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.forgotten = s.version
	s.history.pages = map[string]page{}
}

// matching returns what a place covers, in the order of the names; the caller
// holds the lock.
func (s *Server) matching(p place) []Object {
	var items []Object
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		o := s.objects[key]
		q := place{GroupVersionResource: p.GroupVersionResource, namespace: text(meta(o)["namespace"]), name: text(meta(o)["name"])}
		if key == q.String() && p.covers(q, o) {
			items = append(items, o)
		}
	}
	return items
}

// list answers with a page. All pages of a list are of one moment.
func (s *Server) list(w http.ResponseWriter, r *http.Request, p place) {
	at := page{version: fmt.Sprint(s.version)}
	if token := r.URL.Query().Get("continue"); token != "" {
		begun, ok := s.history.pages[token]
		if !ok {
			expired(w, "The provided continue parameter is too old to display a consistent list result.")
			return
		}
		at = begun
	} else {
		at.items = s.matching(p)
	}
	m := Object{"resourceVersion": at.version}
	items := at.items
	if limit, _ := strconv.Atoi(r.URL.Query().Get("limit")); limit > 0 && len(items) > limit {
		token := fmt.Sprint("page-", len(s.history.pages))
		s.history.pages[token] = page{at.version, items[limit:]}
		items, m["continue"] = items[:limit], token
	}
	answer(w, http.StatusOK, Object{"apiVersion": "v1", "kind": "List", "metadata": m, "items": append([]Object{}, items...)})
}

func expired(w http.ResponseWriter, why string) {
	Refuse(w, http.StatusGone, metav1.StatusReasonExpired, why, nil)
}

// watch sends what happens from a version on, until the time that was asked for
// is over.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, p place) {
	q := r.URL.Query()
	first, next, cut := s.begin(p, q.Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	if !send(w, first) || next < 0 {
		return
	}
	var over <-chan time.Time
	if seconds, _ := strconv.Atoi(q.Get("timeoutSeconds")); seconds > 0 {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		over = timer.C
	}
	for {
		out, stir := s.since(&next, p, q.Get("allowWatchBookmarks") == "true")
		if !send(w, out) {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.closed:
			return
		case <-cut:
			return
		case <-over:
			return
		case <-stir:
		}
	}
}

// begin is what a watch begins with, and the next change that it hears of. From
// no version, or 0, it begins with what is there; from one that is forgotten it
// is over at once.
func (s *Server) begin(p place, version string) (first []event, next int, cut <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, cut = len(s.history.changes), s.history.cut
	from, err := strconv.ParseInt(version, 10, 64)
	switch {
	case err != nil || from == 0:
		for _, o := range s.matching(p) {
			first = append(first, event{"ADDED", o})
		}
	case from < s.history.forgotten:
		next = -1
		first = append(first, event{"ERROR", Object{
			"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": http.StatusGone,
			"message": fmt.Sprintf("too old resource version: %d (%d)", from, s.history.forgotten),
		}})
	default:
		next = slices.IndexFunc(s.history.changes, func(c change) bool { return c.version > from })
		if next < 0 {
			next = len(s.history.changes)
		}
	}
	return first, next, cut
}

// since returns what a watch has not heard yet, and what is closed when there is
// more.
func (s *Server) since(next *int, p place, bookmarks bool) (out []event, stir <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; *next < len(s.history.changes) && !s.history.held; *next++ {
		if e, ok := s.history.changes[*next].to(p, bookmarks); ok {
			out = append(out, e)
		}
	}
	return out, s.history.stir
}

// send writes events out at once, and says whether somebody still listens.
func send(w http.ResponseWriter, events []event) bool {
	for _, e := range events {
		if json.NewEncoder(w).Encode(e) != nil {
			return false
		}
	}
	return http.NewResponseController(w).Flush() == nil
}
