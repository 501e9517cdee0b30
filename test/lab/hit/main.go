// Command hit is the lab's client: it sends requests at a fixed rate whatever
// the answers (an open loop), can keep long requests in flight beside them,
// counts every one, and never sends one twice. A test reads its counts over
// HTTP; Prometheus does not, so nothing here can be mistaken for what is judged.
//
//	GET  /report                     what was counted since the last reset
//	POST /rate   {"rps":200}         requests a second from now on; 0 stops
//	POST /long   {"n":20,"ms":5000}  long requests in flight all the time; 0 stops
//	POST /reset                      count anew; what is in flight counts for nobody
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// The most that can be asked for, so that no typing error becomes a flood.
const (
	maxRate = 5000
	maxLong = 1000
	maxMs   = 60000
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hit:", err)
		os.Exit(1) //nolint:forbidigo // a program ends with a code
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("hit", flag.ContinueOnError)
	listen := flags.String("listen", ":8080", "address of the control API")
	target := flags.String("target", "", "URL that the requests go to")
	host := flags.String("host", "", "Host header, if not the target's")
	method := flags.String("method", http.MethodPost, "method; anything but POST is sent twice by Go's client when a connection breaks")
	rate := flags.Float64("rps", 0, "requests a second from the start")
	slots := flags.Int("slots", 4096, "requests in flight at the most; one more is counted as missed")
	timeout := flags.Duration("timeout", 15*time.Second, "time until a request counts as failed; long ones get their length on top")
	idle := flags.Duration("idle", 10*time.Minute, "stop sending when nobody has asked for anything for so long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *target == "" || *slots <= 0 {
		return errors.New("-target is needed, and -slots above zero")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	g := newGenerator(ctx, client{target: *target, host: *host, method: *method, timeout: *timeout, http: newTransport(*slots)}, *slots)
	if err := g.setRate(*rate); err != nil {
		return err
	}
	server := &http.Server{Addr: *listen, Handler: control(g, *idle), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return server.Close()
	}
}

// control is the HTTP API. Each call puts off the moment when the generator
// stops by itself.
func control(g *generator, idle time.Duration) http.Handler {
	alone := time.AfterFunc(idle, g.rest)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, _ *http.Request) {
		alone.Reset(idle)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(g.report()) // an error: the client has gone
	})
	mux.HandleFunc("POST /rate", func(w http.ResponseWriter, r *http.Request) {
		alone.Reset(idle)
		var wish struct {
			RPS float64 `json:"rps"`
		}
		answer(w, errors.Join(decode(w, r, &wish), g.setRate(wish.RPS))) //nolint:contextcheck // the load outlives the call
	})
	mux.HandleFunc("POST /long", func(w http.ResponseWriter, r *http.Request) {
		alone.Reset(idle)
		wish := struct {
			N  int `json:"n"`
			MS int `json:"ms"`
		}{MS: 5000}
		answer(w, errors.Join(decode(w, r, &wish), g.setLong(wish.N, wish.MS))) //nolint:contextcheck // the load outlives the call
	})
	mux.HandleFunc("POST /reset", func(w http.ResponseWriter, _ *http.Request) {
		alone.Reset(idle)
		g.reset()
		answer(w, nil)
	})
	return mux
}

func decode(w http.ResponseWriter, r *http.Request, into any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4096))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return nil
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}
