package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/api/apitest"
)

func TestABusyPortIsAnErrorAtTheStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newServer(t, newWorld(), func(c *Config) { c.Listen = l.Addr().String() })
	err = s.Listen()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "port "+port) || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("%v", err)
	}
	if s.Addr() != nil {
		t.Error("it has an address")
	}
	if err := s.Serve(); err == nil {
		t.Error("it serves nevertheless")
	}
	s = newServer(t, newWorld(), func(c *Config) { c.Listen = "203.0.113.1:1" })
	if err := s.Listen(); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("an address of another machine: %v", err)
	}
}

func TestAPortThatWasTakenBefore(t *testing.T) {
	l, err := Take("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("taken twice: %v", err)
	}
	taken := func(c *Config) { c.Listen, c.Listener = "", l }
	base := serve(t, newServer(t, newWorld(), taken))
	if base != "http://"+l.Addr().String() {
		t.Errorf("it serves on %s", base)
	}
	res, err := http.Get(base + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}

func TestATakenPortIsGivenBackByAServerThatNeverListened(t *testing.T) {
	l, err := Take("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, newWorld(), func(c *Config) { c.Listen, c.Listener = "", l })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	again, err := Take(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{
		{},
		{Listen: "8080"},
		{Listen: "localhost:8080", URL: "shifter.example"},
		{Listen: "localhost:8080", URL: "ftp://shifter.example"},
		{Listen: "localhost:8080", URL: "https://user:pw@shifter.example"},
		{Listen: "localhost:8080", URL: "https://shifter.example/below"},
	} {
		if _, err := New(c, nil, nil, nil); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

func TestServeUntilShutdown(t *testing.T) {
	s := newServer(t, newWorld())
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err == nil {
		t.Error("it listens twice")
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	res, err := http.Get("http://" + s.Addr().String() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for range 2 {
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	// A port that was taken and never served is given back.
	s = newServer(t, newWorld())
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	l, err := net.Listen("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		listen string
		hosts  []string
		host   string
		ok     bool
	}{
		{"127.0.0.1:8080", nil, "localhost:8080", true},
		{"127.0.0.1:8080", nil, "LOCALHOST", true},
		{"127.0.0.1:8080", nil, "localhost.", true},
		{"127.0.0.1:8080", nil, "127.0.0.1:8080", true},
		{"127.0.0.1:8080", nil, "[::1]:8080", true},
		{"127.0.0.1:8080", nil, "evil.example:8080", false},
		{"127.0.0.1:8080", nil, "localhost.evil.example", false},
		{"127.0.0.1:8080", nil, "", false},
		{"localhost:8080", nil, "evil.example", false},
		{"[::1]:8080", nil, "evil.example", false},
		{":8080", nil, "shifter.example", true},
		{"0.0.0.0:8080", nil, "shifter.example", true},
		{":8080", []string{"shifter.example"}, "shifter.example:443", true},
		{":8080", []string{"shifter.example"}, "other.example", false},
		{"127.0.0.1:8080", []string{"dev.test"}, "dev.test", true},
		{"127.0.0.1:8080", []string{"dev.test"}, "localhost", false},
	} {
		cfg, err := Config{Listen: c.listen, Hosts: c.hosts}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.servesHost(c.host); got != c.ok {
			t.Errorf("%s %v for %q: %v", c.listen, c.hosts, c.host, got)
		}
	}
}

func TestAnotherHostNameIsRefusedExceptForProbes(t *testing.T) {
	s := newServer(t, newWorld())
	for path, want := range map[string]int{"/": 421, "/v1/releases": 421, "/openapi.json": 421, "/livez": 200, "/readyz": 200} {
		r := httptest.NewRequest("GET", "http://evil.example"+path, http.NoBody)
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, r)
		if rec.Code != want {
			t.Errorf("%s: %d, want %d", path, rec.Code, want)
		}
		if want == 421 {
			if p := problemOf(t, rec); p.Code != api.CodeHost {
				t.Errorf("%+v", p)
			}
		}
	}
}

// Everything but what is listed as open asks who is calling, before the body.
func TestEverythingElseNeedsASubject(t *testing.T) {
	w := newWorld().put(apitest.View("gating", apitest.Now()))
	s := newServer(t, w, func(c *Config) {
		c.Metrics = http.NotFoundHandler()
		c.Subject = func(*http.Request) (string, error) {
			return "", errors.New("secret-internal: token of another audience")
		}
	})
	open := map[string]bool{"/livez": true, "/readyz": true, "/metrics": true, "/openapi.json": true}
	seen := 0
	for _, r := range s.echo.Routes() {
		path := strings.NewReplacer(":namespace", "shop", ":name", "checkout-4711").Replace(r.Path)
		rec := ask(s, r.Method, path, "")
		if open[path] || strings.HasPrefix(path, "/assets/") {
			if rec.Code == 401 {
				t.Errorf("%s %s needs a subject", r.Method, path)
			}
			continue
		}
		seen++
		if p := problemOf(t, rec); p.Code != api.CodeUnauthorized || rec.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s: %+v", r.Method, path, p)
		}
	}
	if seen < 11 {
		t.Errorf("only %d routes were asked", seen)
	}
	if rec := ask(s, "GET", "/v1/nothing", ""); rec.Code != 401 {
		t.Errorf("an unknown path tells %d to strangers", rec.Code)
	}
	if w.wrote != 0 {
		t.Error("something was written")
	}
}

func TestProbesAndMetrics(t *testing.T) {
	var broken error
	s := newServer(t, newWorld(), func(c *Config) {
		c.Ready = func(context.Context) error { return broken }
		c.Standing = func() string { return "standby" }
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("shifter_up 1\n")) })
	})
	if rec := ask(s, "GET", "/metrics", ""); rec.Code != 200 || rec.Body.String() != "shifter_up 1\n" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if rec := ask(s, "GET", "/readyz", ""); rec.Code != 200 || rec.Body.String() != "ok: standby\n" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	broken = errors.New("secret-internal: no cache")
	if p := problemOf(t, ask(s, "GET", "/readyz", "")); p.Code != api.CodeNotReady || p.Status != 503 {
		t.Errorf("%+v", p)
	}
	broken = nil
	close(s.stopping)
	if rec := ask(s, "GET", "/readyz", ""); rec.Code != 503 {
		t.Errorf("ready while stopping: %d", rec.Code)
	}
	if rec := ask(s, "GET", "/livez", ""); rec.Code != 200 {
		t.Errorf("not alive while stopping: %d", rec.Code)
	}
	if rec := ask(newServer(t, newWorld()), "GET", "/metrics", ""); rec.Code != 404 {
		t.Errorf("metrics without a handler: %d", rec.Code)
	}
}

func TestServerLimits(t *testing.T) {
	h := newServer(t, newWorld()).http
	if h.ReadHeaderTimeout != 5*time.Second || h.ReadTimeout != 15*time.Second || h.IdleTimeout != time.Minute || h.MaxHeaderBytes != 16<<10 || h.WriteTimeout != 0 {
		t.Errorf("%+v", h)
	}
}

// A body that trickles in is given up after the read timeout.
func TestASlowBody(t *testing.T) {
	w := newWorld()
	s := newServer(t, w)
	s.http.ReadTimeout = 500 * time.Millisecond
	base := serve(t, s)
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.Write([]byte("POST /v1/namespaces/shop/releases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 4<<10)
	n, err := conn.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 408") {
		t.Errorf("%v %.200s", err, buf[:n])
	}
}
