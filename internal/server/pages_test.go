package server

import (
	"flag"
	"net"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/api/apitest"
)

var pages = flag.String("pages", "", "serve made-up releases on this address until interrupted, to look at the pages")

// TestPages is not a test: go test ./internal/server -run TestPages -pages
// 127.0.0.1:8099 serves one release in each state, as seen now.
func TestPages(t *testing.T) {
	if *pages == "" {
		t.Skip("only with -pages")
	}
	w := newWorld()
	w.now = time.Now
	fill := func() {
		for _, n := range apitest.Names() {
			v := apitest.View(n, time.Now())
			v.Seq = uint64(time.Now().Unix())
			if n == "rejected" || n == "pending" {
				w.keep(v)
				continue
			}
			w.put(v)
		}
	}
	fill()
	s := newServer(t, w, func(c *Config) { c.Listen = *pages })
	s.pace = defaultPace()
	serve(t, s)
	if _, port, err := net.SplitHostPort(*pages); err == nil {
		t.Log("http://127.0.0.1:" + port)
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fill()
		}
	}
}
