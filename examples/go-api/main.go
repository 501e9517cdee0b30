// Command go-api is a small HTTP API that survives SIGTERM: it can be replaced
// under load, behind a proxy that reuses connections, without one failed request.
//
// It is meant to be read, in this order:
//
//	shutdown.go  the lesson: lame duck, Shutdown with a deadline, Close
//	app.go       routes, probes, and the header that sends clients elsewhere
//	metrics.go   what is measured, and what must not be
//	faults.go    ways to misbehave on purpose, for demos
//	config.go    flags and their environment variables
//
// README.md explains the sequence and the time budget around it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitOK    = 0
	exitCut   = 1 // requests were cut, or the server could not run
	exitUsage = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr))
}

func run(args []string, env func(string) (string, bool), stdout, stderr io.Writer) int {
	cfg, err := parseConfig(args, env, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "go-api: %v\nRun go-api --help for the flags.\n", err)
		return exitUsage
	}
	log := slog.New(slog.NewJSONHandler(stderr, nil))

	// Subscribe before listening: once there is a port to talk to, SIGTERM is
	// already ours. The counter-example leaves it to the runtime, which ends
	// the process on the spot.
	signals := make(chan os.Signal, 2)
	if !cfg.noGraceful {
		signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	}

	ln, err := net.Listen("tcp", cfg.listen)
	if err != nil {
		log.Error("cannot listen", "error", err.Error())
		return exitCut
	}
	return newApp(cfg, podName(env), log).serve(ln, signals)
}

// podName is what the answers call this instance: POD_NAME from the downward
// API, else the host name, which in a pod is the pod's name too.
func podName(env func(string) (string, bool)) string {
	if name, ok := env("POD_NAME"); ok && name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
