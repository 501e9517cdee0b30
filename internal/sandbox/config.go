package sandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Config is everything that is fixed before the start. Begin with [Defaults].
type Config struct {
	// App is the path of the go-api binary, the program in every pod.
	App string
	// RPS is the rate of the load generator; 0 means no load until SetRate.
	RPS float64
	// Paths are what the load generator asks for, each as often as it is named,
	// by turns that Seed shuffles.
	Paths []string
	// Begin is how the world is at the start.
	Begin Begin
	// Replicas is the size of each track that has pods at the start.
	Replicas int

	// Scrape is the interval of the scraper.
	Scrape time.Duration
	// ReadLag is how much later a sample can be queried.
	ReadLag time.Duration
	// Propagation is how much later the proxy enforces a written weight.
	Propagation time.Duration
	// EndpointLag is how much later the proxy hears of a change of endpoints. It
	// must be below LameDuck, or requests are sent to closed ports.
	EndpointLag time.Duration
	// Probe is the interval of the readiness probes.
	Probe time.Duration
	// LameDuck is how long a pod accepts requests after SIGTERM.
	LameDuck time.Duration
	// Grace is the time from SIGTERM to SIGKILL.
	Grace time.Duration

	// ListenProm and ListenProxy are addresses on loopback; port 0 picks a free
	// one.
	ListenProm  string
	ListenProxy string

	// Seed makes the choices of the proxy and the load generator repeatable.
	Seed   uint64
	Faults Faults
	Logger *slog.Logger
}

// Faults are what goes wrong by itself. The zero value is a healthy world.
// Shares are the primary's declared percent: the track that comes in when a
// release shifts the traffic. A fault that has been triggered stays. Where the
// primary begins with all traffic, the first write of a release triggers them.
type Faults struct {
	ErrorsFrom  ErrorsFrom
	SlowFrom    SlowFrom
	LoadStopsAt LoadStopsAt
	StuckAt     StuckAt
	Telemetry   Telemetry
}

// ErrorsFrom makes the primary's v2 pods answer a part of the requests with 500
// from a declared share on; pods of v1 stay well.
type ErrorsFrom struct {
	Share float64 // 0: never
	Rate  float64 // of requests, from 0 to 1
}

// SlowFrom makes the primary's v2 pods take longer for every answer from a
// declared share on; pods of v1 stay well.
type SlowFrom struct {
	Share float64 // 0: never
	By    time.Duration
}

// LoadStopsAt stops the load generator at a declared share.
type LoadStopsAt struct {
	Share float64 // 0: never
}

// StuckAt makes one primary process never ready again and one canary process
// deaf to SIGTERM, at a declared share.
type StuckAt struct {
	Share float64 // 0: never
}

// Telemetry takes the Prometheus API away for Outage of every Every; each
// period ends with its outage. They alternate: 503, then answers without
// samples newer than the outage.
type Telemetry struct {
	Outage time.Duration // 0: never
	Every  time.Duration
}

// Defaults returns the profile of the demo. App is left to the caller.
func Defaults() Config {
	return Config{
		RPS:         200,
		Paths:       mix(),
		Replicas:    4,
		Scrape:      time.Second,
		ReadLag:     time.Second,
		Propagation: time.Second,
		EndpointLag: 200 * time.Millisecond,
		Probe:       200 * time.Millisecond,
		LameDuck:    2 * time.Second,
		Grace:       10 * time.Second,
		ListenProm:  "127.0.0.1:0",
		ListenProxy: "127.0.0.1:0",
		Seed:        1,
	}
}

// mix is a service with quick, usual and slow requests, 19 ms on average:
// what durations are judged by needs more than one.
func mix() []string {
	quick, usual, slow := "/work?ms=6", "/work?ms=20", "/work?ms=70"
	return []string{
		quick, quick, quick, quick, quick, quick, quick, quick, quick, quick, quick, quick,
		usual, usual, usual, usual, usual, slow, slow, slow,
	}
}

func (c Config) validate() error {
	return errors.Join(c.validateApp(), c.validateTimes(), c.validateSizes(), c.Faults.validate())
}

func (c Config) validateApp() error {
	const way = "build it with \"go build -o bin/go-api ./examples/go-api\", or name another one"
	if c.App == "" {
		return fmt.Errorf("sandbox: no app is named: %s", way)
	}
	info, err := os.Stat(c.App)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("sandbox: the app %s does not exist: %s", c.App, way)
	case err != nil:
		return fmt.Errorf("sandbox: the app: %w", err)
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("sandbox: the app %s is not an executable file: %s", c.App, way)
	}
	return nil
}

func (c Config) validateTimes() error {
	for _, d := range []struct {
		name    string
		v, from time.Duration
	}{
		{"Scrape", c.Scrape, 10 * time.Millisecond},
		{"Probe", c.Probe, 10 * time.Millisecond},
		{"Grace", c.Grace, 10 * time.Millisecond},
		{"ReadLag", c.ReadLag, 0},
		{"Propagation", c.Propagation, 0},
		{"EndpointLag", c.EndpointLag, 0},
		{"LameDuck", c.LameDuck, 0},
	} {
		if d.v < d.from {
			return fmt.Errorf("sandbox: %s is %v: it must be at least %v", d.name, d.v, d.from)
		}
	}
	if c.LameDuck > 0 && c.LameDuck <= c.EndpointLag {
		return fmt.Errorf("sandbox: LameDuck is %v: it must be above EndpointLag (%v), or requests meet closed ports", c.LameDuck, c.EndpointLag)
	}
	if c.Grace <= c.LameDuck {
		return fmt.Errorf("sandbox: Grace is %v: it must be above LameDuck (%v), or pods are killed while they drain", c.Grace, c.LameDuck)
	}
	return nil
}

func (c Config) validateSizes() error {
	if c.Replicas < 1 || c.Replicas > maxReplicas {
		return fmt.Errorf("sandbox: Replicas is %d: it must be from 1 to %d, each is a process", c.Replicas, maxReplicas)
	}
	if len(c.Paths) == 0 {
		return errors.New("sandbox: Paths is empty: name what the load generator asks for")
	}
	return checkRate(c.RPS)
}

// checkRate bounds the load: this machine is also the server.
func checkRate(rps float64) error {
	if !(rps >= 0 && rps <= maxRPS) { // so that NaN is refused too
		return fmt.Errorf("sandbox: %v requests per second: it must be from 0 to %d", rps, maxRPS)
	}
	return nil
}

const (
	maxReplicas = 50
	maxRPS      = 5000
	maxSlow     = 5 * time.Second // below the timeout of a request
)

func (f Faults) validate() error {
	for _, s := range []float64{f.ErrorsFrom.Share, f.SlowFrom.Share, f.LoadStopsAt.Share, f.StuckAt.Share} {
		if !(s >= 0 && s <= 100) {
			return fmt.Errorf("sandbox: a fault at share %v: it must be from 0 to 100", s)
		}
	}
	if !(f.ErrorsFrom.Rate >= 0 && f.ErrorsFrom.Rate <= 1) {
		return fmt.Errorf("sandbox: an error rate of %v: it must be from 0 to 1", f.ErrorsFrom.Rate)
	}
	if by := f.SlowFrom.By; by < 0 || by > maxSlow {
		return fmt.Errorf("sandbox: answers that take %v longer: it must be from 0 to %v", by, maxSlow)
	}
	if t := f.Telemetry; t.Outage < 0 || t.Outage > 0 && t.Every <= t.Outage {
		return fmt.Errorf("sandbox: a telemetry outage of %v of every %v: it must be shorter than the period", t.Outage, t.Every)
	}
	return nil
}
