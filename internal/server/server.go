package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
)

// Server is the front door. Make it with [New], then Listen, Serve and at the
// end Shutdown.
type Server struct {
	cfg      Config
	pace     pace
	releases Releases
	views    Views
	planner  Planner

	echo   *echo.Echo
	api    huma.API
	http   *http.Server
	pages  *template.Template
	assets map[string]asset

	mu       sync.Mutex
	listener net.Listener
	// stopping is closed when Shutdown begins; streams and waits end on it.
	stopping chan struct{}
	stop     sync.Once
}

// New makes a server; it does not listen yet.
func New(cfg Config, releases Releases, views Views, planner Planner) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, pace: defaultPace(), releases: releases, views: views, planner: planner,
		stopping: make(chan struct{}),
	}
	if err := s.loadAssets(); err != nil {
		return nil, err
	}
	s.echo = s.newEcho()
	if err := s.routes(); err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		// No WriteTimeout, since it would end streams: each answer and each
		// write to a stream has its own deadline.
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Handler serves every request, for tests and for mounting elsewhere.
func (s *Server) Handler() http.Handler { return headAsGet(s.echo) }

// Listen takes the port, so that a busy one is an error at the start.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return errors.New("the server is listening already")
	}
	if s.cfg.Listener != nil {
		s.listener = s.cfg.Listener
		return nil
	}
	l, err := Take(s.cfg.Listen)
	s.listener = l
	return err
}

// Take takes a port, so that a busy one is an error before anything else is
// started.
func Take(listen string) (net.Listener, error) {
	l, err := net.Listen("tcp", listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		_, port, _ := net.SplitHostPort(listen)
		return nil, fmt.Errorf("port %s is in use by another process; choose another one with --listen (now %s): %w", port, listen, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s (change it with --listen): %w", listen, err)
	}
	return l, nil
}

// Addr is where the server listens, and nil before Listen.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Serve answers requests until Shutdown, and then returns nil.
func (s *Server) Serve() error {
	s.mu.Lock()
	l := s.listener
	s.mu.Unlock()
	if l == nil {
		return errors.New("the server does not listen yet")
	}
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown stops taking requests, ends streams and waits, and lets the other
// answers finish until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop.Do(func() { close(s.stopping) })
	s.mu.Lock()
	l := cmp.Or(s.listener, s.cfg.Listener)
	s.mu.Unlock()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("shut the server down: %w", err), s.http.Close())
	}
	if l != nil {
		// A server that never served does not know its listener.
		_ = l.Close()
	}
	return err
}

func (s *Server) stopped() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}
