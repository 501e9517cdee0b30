package routing_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/routing"
)

const patience = 10 * time.Second

// told waits for a signal.
func told(t *testing.T, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case _, open := <-ch:
		if !open {
			t.Fatalf("the watch has ended before %s", what)
		}
	case <-time.After(patience):
		t.Fatalf("not told of %s", what)
	}
}

func TestAWatchIsOfOneObjectAndTellsOfDeletionAndReturn(t *testing.T) {
	s := cluster(t, httpRoute)
	rs := routes(t, s, routing.Config{})
	b := admit(t, rs, "HTTPRoute")
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := rs.Watch(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	told(t, ch, "the route as it is")
	s.Delete(httpRoutes, "demo", "app")
	told(t, ch, "its deletion")
	put(t, s, "kubectl", httpRoute)
	told(t, ch, "its return")
	for _, r := range s.Asked(http.MethodGet) {
		if r.Query.Get("watch") != "" && (r.Query.Get("fieldSelector") != "metadata.name=app" || r.Query.Get("allowWatchBookmarks") != "true" || r.Query.Get("timeoutSeconds") == "") {
			t.Errorf("watched %s %v", r.Path, r.Query)
		}
	}
	cancel()
	ended(t, ch)
}

func ended(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	for end := time.After(patience); ; {
		select {
		case _, open := <-ch:
			if !open {
				return
			}
		case <-end:
			t.Fatal("the channel is not closed")
		}
	}
}

func TestAWatchThatEndsOrFailsIsTakenUpAgain(t *testing.T) {
	s := cluster(t, httpRoute)
	rs := routes(t, s, routing.Config{})
	b := admit(t, rs, "HTTPRoute")
	var watches atomic.Int32
	third := make(chan struct{}, 1)
	s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		switch watches.Add(1) {
		case 3:
			third <- struct{}{}
		case 1:
			http.Error(w, "no", http.StatusForbidden)
			return true
		case 2: // ends at once, as a server does that restarts
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			return true
		}
		return false
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ch, err := rs.Watch(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	told(t, third, "a watch that is taken up again")
	for len(ch) > 0 {
		told(t, ch, "what it began with")
	}
	s.Edit("kubectl", httpRoutes, "demo", "app", func(o kubetest.Object) { setWeights(o, ten) })
	told(t, ch, "a change")
	if n := watches.Load(); n != 3 {
		t.Errorf("%d watches", n)
	}
	cancel()
	ended(t, ch)
}

func TestAnErrorInAWatchEndsIt(t *testing.T) {
	s := cluster(t, httpRoute)
	rs := routes(t, s, routing.Config{})
	b := admit(t, rs, "HTTPRoute")
	var watches atomic.Int32
	s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" || watches.Add(1) > 1 {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}` + "\n"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	}
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := rs.Watch(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	told(t, ch, "the route, at the second try")
	cancel()
	ended(t, ch)
	if _, err := rs.Watch(ctx, release.Binding{}); err == nil {
		t.Error("a watch of an ended context began")
	}
}
