package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	maxLatency   = 10 * time.Second
	maxFaultBody = 4 << 10
)

// faults are the ways in which this instance misbehaves on purpose. The zero
// value is a healthy instance. A *faults that is in use is never written to:
// a change replaces it whole.
type faults struct {
	ErrorRate     float64  `json:"errorRate"`     // share of requests answered 500, 0 to 1
	Latency       duration `json:"latency"`       // added to each request
	NeverReady    bool     `json:"neverReady"`    // /readyz is 503
	IgnoreSigterm bool     `json:"ignoreSigterm"` // SIGTERM does nothing
}

func (f faults) validate() error {
	if !(f.ErrorRate >= 0 && f.ErrorRate <= 1) { // so that NaN is refused too
		return fmt.Errorf("error rate: %v is not from 0 to 1", f.ErrorRate)
	}
	if f.Latency < 0 || f.Latency > duration(maxLatency) {
		return fmt.Errorf("latency: %v is not from 0s to %v", time.Duration(f.Latency), maxLatency)
	}
	return nil
}

// inject applies the latency and error faults to one endpoint. The header on
// an injected error lets a client tell it from a real one, so that a test can
// ask for "no failures but those I ordered".
func (a *app) inject(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f := a.faults.Load()
		if !pause(w, r, time.Duration(f.Latency)) {
			return
		}
		if rand.Float64() < f.ErrorRate { // Float64 is below 1, so 1 means all and 0 none
			w.Header().Set("X-Fault", "injected")
			http.Error(w, "injected fault", http.StatusInternalServerError)
			return
		}
		next(w, r)
	}
}

// adminFaults shows the faults (GET) or replaces them all (PUT).
func (a *app) adminFaults(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		writeJSON(w, a.faults.Load())

	case http.MethodPut:
		f, err := decodeFaults(http.MaxBytesReader(w, r.Body, maxFaultBody))
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.faults.Store(f)
		a.log.Warn("faults changed", "faults", f)
		writeJSON(w, f)

	default:
		w.Header().Set("Allow", "GET, PUT")
		http.Error(w, "use GET or PUT", http.StatusMethodNotAllowed)
	}
}

// decodeFaults accepts exactly one JSON object with known keys and sane values.
func decodeFaults(body io.Reader) (*faults, error) {
	dec := json.NewDecoder(body)
	dec.DisallowUnknownFields()
	var f *faults // stays nil on "null", which would otherwise pass as "no faults"
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("reading the faults: %w", err)
	}
	if f == nil {
		return nil, errors.New("reading the faults: want an object, not null")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, fmt.Errorf("reading past the faults: %w", err)
		}
		return nil, errors.New("reading the faults: more than one JSON value")
	}
	return f, f.validate()
}

// duration is a time.Duration written as in flags ("150ms") in JSON too.
type duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d duration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}
