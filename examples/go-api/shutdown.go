package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// newServer sets every timeout: the zero values of net/http mean "for ever".
func (a *app) newServer() *http.Server {
	return &http.Server{
		Handler: a.handler(),

		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		// From the end of the request's header to the end of the answer, so it
		// must be longer than the slowest answer we allow.
		WriteTimeout: maxWork + maxLatency + 20*time.Second,

		// Whoever closes an idle connection races with a request that is just
		// being sent on it; when the server closes it, the proxy sees a reset
		// and its client a 502 or 503. So the proxy must always be first. Idle
		// timeouts of proxies: nginx and AWS ALB 1 min, Go 90 s, Google Cloud
		// 10 min, Envoy (and with it Istio) 1 h. We wait longer than them all.
		// Peers that died are found by TCP keep-alive, not by this.
		IdleTimeout: 65 * time.Minute,

		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
	}
}

// serve answers requests on ln until a signal ends it, and returns the exit
// code. It is the only owner of the server.
func (a *app) serve(ln net.Listener, signals <-chan os.Signal) int {
	srv := a.newServer()
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(aheadListener{ln, srv.IdleTimeout}) }()
	// With port 0 this line is how a parent process learns the address.
	a.log.Info("serving", "listening", ln.Addr().String(), "version", a.cfg.version, "pid", os.Getpid())

	stop := make(chan os.Signal)
	go a.obey(signals, stop)

	select {
	case err := <-failed:
		a.log.Error("the server failed", "error", err.Error())
		return exitCut
	case sig := <-stop:
		a.log.Info("told to stop", "signal", sig.String())
	}

	// A second signal means "now": it cancels every wait in drain.
	ctx, hurry := context.WithCancel(context.Background())
	defer hurry()
	go func() {
		<-stop
		a.log.Warn("told again: not waiting any longer")
		hurry()
	}()

	cut := a.drain(ctx, srv)
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		a.log.Warn("the listener had failed", "error", err.Error())
	}
	if cut > 0 {
		return exitCut
	}
	return exitOK
}

// obey passes signals on, except those that a fault tells it to ignore.
func (a *app) obey(signals <-chan os.Signal, stop chan<- os.Signal) {
	for sig := range signals {
		if sig == syscall.SIGTERM && a.faults.Load().IgnoreSigterm {
			a.log.Warn("signal ignored, as the fault demands", "signal", sig.String())
			continue
		}
		stop <- sig
	}
}

// drain brings the server to its end in three steps and returns how many
// requests it had to cut. ctx cancels the waiting, not the steps.
func (a *app) drain(ctx context.Context, srv *http.Server) (cut int64) {
	began := time.Now()

	// 1. Lame duck. /readyz turns 503 at once, but it takes seconds until every
	// proxy has heard of it, and until then they go on sending, on old and new
	// connections. So go on accepting, and let every answer say "Connection:
	// close" (see stamp): busy connections then end between two requests, where
	// nothing can be lost.
	//
	// Not yet: Shutdown or SetKeepAlivesEnabled(false). Both close the idle
	// connections this instant, under the requests that are on their way.
	a.draining.Store(true)
	a.log.Info("draining: unready, still accepting",
		"lameDuck", a.cfg.lameDuck.String(), "inFlight", a.inFlight.Load())
	select {
	case <-time.After(a.cfg.lameDuck):
	case <-ctx.Done():
	}

	// 2. Nobody sends to us any more. Shutdown closes the listener and the idle
	// connections, and waits for the requests that still run. It does not
	// cancel their contexts: they are to finish. (A connection on which no
	// request ever came counts as busy for its first 5 s.)
	a.log.Info("shutting down: listener closed",
		"deadline", a.cfg.shutdownTimeout.String(), "inFlight", a.inFlight.Load())
	ctx, cancel := context.WithTimeout(ctx, a.cfg.shutdownTimeout)
	defer cancel()
	err := srv.Shutdown(ctx)
	// 3. The deadline, or a second signal: cut what is left, and say so. Ending
	// here by our own will beats SIGKILL, which leaves neither log nor exit code.
	if err != nil {
		cut = a.inFlight.Load()
		_ = srv.Close()
	}

	level := slog.LevelInfo
	if cut > 0 {
		level = slog.LevelError
	}
	a.log.Log(ctx, level, "stopped",
		"requestsCut", cut, "took", time.Since(began).Round(time.Millisecond).String())
	return cut
}
