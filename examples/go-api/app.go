package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// maxWork bounds /work: a caller must not be able to hold a request for ever.
const maxWork = time.Minute

// app is one instance of the API. The atomics are what changes after start.
type app struct {
	cfg     config
	host    string
	log     *slog.Logger
	metrics *metrics
	readyAt time.Time // end of the slow start

	faults   atomic.Pointer[faults]
	draining atomic.Bool  // set once, by the first SIGTERM
	inFlight atomic.Int64 // requests being answered; probes, scrapes and admin calls are not requests
}

func newApp(cfg config, host string, log *slog.Logger) *app {
	a := &app{cfg: cfg, host: host, log: log, readyAt: time.Now().Add(cfg.slowStart)}
	a.faults.Store(&cfg.faults)
	a.metrics = newMetrics(a)
	return a
}

// handler wires all endpoints. Only what a user of the API would call is
// counted and can be made to fail: probes and scrapes go on for as long as the
// process lives, so counting them would mean that it never becomes quiet.
func (a *app) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", a.livez)
	mux.HandleFunc("/readyz", a.readyz)
	mux.Handle("/metrics", a.metrics.handler())
	if a.cfg.admin {
		mux.HandleFunc("/admin/faults", a.adminFaults)
	}
	mux.Handle("/{$}", a.count("/", a.inject(a.home)))
	mux.Handle("/work", a.count("/work", a.inject(a.work)))
	mux.Handle("/", a.count("", http.NotFound))
	return a.stamp(mux)
}

// stamp names the version on every response and, while draining, asks the
// client to close the connection and open the next one somewhere else.
//
// It does so at the last moment, when the header is written, so that a request
// which was already running when SIGTERM came takes its connection away too.
func (a *app) stamp(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Version", a.cfg.version)
		res := &response{ResponseWriter: w, before: func(h http.Header) {
			if a.draining.Load() {
				h.Set("Connection", "close") // net/http then closes it after the reply (HTTP/2: GOAWAY)
			}
		}}
		next.ServeHTTP(res, r)
		res.end()
	})
}

// livez says "do not restart me". It stays 200 while draining: a failing
// liveness probe would get the container killed with requests in it.
func (a *app) livez(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "ok")
}

// readyz says "send me traffic", or 503 and why not.
func (a *app) readyz(w http.ResponseWriter, _ *http.Request) {
	if reason := a.notReady(time.Now()); reason != "" {
		http.Error(w, reason, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (a *app) notReady(now time.Time) string {
	switch {
	case a.draining.Load():
		return "draining"
	case a.faults.Load().NeverReady:
		return "never-ready"
	case now.Before(a.readyAt):
		return "starting"
	}
	return ""
}

type answer struct {
	Version string `json:"version"`
	Host    string `json:"host"`
	Worked  string `json:"worked,omitempty"`
}

func (a *app) home(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, answer{Version: a.cfg.version, Host: a.host})
}

// work is a slow request: it answers after ?ms= milliseconds (100 if absent).
func (a *app) work(w http.ResponseWriter, r *http.Request) {
	ms := 100
	if text := r.URL.Query().Get("ms"); text != "" {
		var err error
		if ms, err = strconv.Atoi(text); err != nil || ms < 0 || ms > int(maxWork.Milliseconds()) {
			http.Error(w, fmt.Sprintf("ms must be a number from 0 to %d", maxWork.Milliseconds()), http.StatusBadRequest)
			return
		}
	}
	d := time.Duration(ms) * time.Millisecond
	if !pause(w, r, d) {
		return
	}
	writeJSON(w, answer{Version: a.cfg.version, Host: a.host, Worked: d.String()})
}

// statusClientGone is what proxies log when the client left first. No one
// reads this answer, but the metrics must not call it a success or our error.
const statusClientGone = 499

// pause waits for d. It reports false when the client has gone: then the
// answer is done. Real handlers pass r.Context() on to whatever they wait for.
func pause(w http.ResponseWriter, r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		w.WriteHeader(statusClientGone)
		return false
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// An error here means that the client has gone: there is no one to tell.
	_ = json.NewEncoder(w).Encode(v)
}

// response notes the status code, and calls before (if any) once, just before
// the header is written.
type response struct {
	http.ResponseWriter
	before func(http.Header)
	code   int // 0 until the header is written
}

func (r *response) WriteHeader(code int) {
	if r.code == 0 && code >= 200 { // 1xx are not the final header
		r.code = code
		if r.before != nil {
			r.before(r.Header())
		}
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *response) Write(b []byte) (int, error) {
	r.end()
	return r.ResponseWriter.Write(b)
}

// end writes the header that net/http would write by itself, so that it does
// not pass us by.
func (r *response) end() {
	if r.code == 0 {
		r.WriteHeader(http.StatusOK)
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
