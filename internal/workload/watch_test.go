package workload_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/workload"
)

const patience = 10 * time.Second

// quiet takes what was told so far, until all watches have begun and nothing
// more comes.
func quiet(t *testing.T, c *cluster, ch <-chan struct{}, watches int) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case <-ch:
		case <-time.After(100 * time.Millisecond):
			n := 0
			for _, r := range c.Asked(http.MethodGet) {
				if r.Query.Get("watch") != "" {
					n++
				}
			}
			if n >= watches {
				return
			}
		}
	}
	t.Fatal("the watches have not begun")
}

func TestAWatchTellsOfDeploymentsPodsAndEndpoints(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	c.idle = true
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := w.Watch(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	quiet(t, c, ch, 8)
	for what, change := range map[string]func(){
		"the Deployment": func() { c.image("app-canary", "shop/app:3") },
		"a pod":          func() { c.terminate(c.List(pods)[0]) },
		"endpoints": func() {
			o := c.Get(endpointSlices, "demo", "app")
			o["endpoints"] = []any{}
			c.Put("x", endpointSlices, o)
		},
	} {
		change()
		select {
		case <-ch:
		case <-time.After(patience):
			t.Fatalf("not told of %s", what)
		}
	}
	for _, r := range c.Asked(http.MethodGet) {
		if r.Query.Get("watch") != "" && (r.Query.Get("allowWatchBookmarks") != "true" || r.Query.Get("timeoutSeconds") == "" || (r.Query.Get("fieldSelector") == "") == (r.Query.Get("labelSelector") == "")) {
			t.Errorf("watched %s %v", r.Path, r.Query)
		}
	}
	cancel()
	ended(t, ch)
}

func ended(t testing.TB, ch <-chan struct{}) {
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

func TestAWatchThatFailsIsTakenUpAgain(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	b.Tracks[1].Service = b.Tracks[0].Service // one Service, watched once
	var watches atomic.Int32
	third := make(chan struct{}, 1)
	c.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" || !strings.HasSuffix(r.URL.Path, "/endpointslices") {
			return false
		}
		if n := watches.Add(1); n > 2 {
			if n == 3 {
				third <- struct{}{}
			}
			return false
		}
		http.Error(rw, "no", http.StatusForbidden)
		return true
	}
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := w.Watch(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-third:
	case <-time.After(patience):
		t.Fatal("not taken up again")
	}
	cancel()
	ended(t, ch)
	if _, err := w.Watch(ctx, b); err == nil {
		t.Error("a watch of an ended context began")
	}
}
