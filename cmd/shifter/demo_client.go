//go:build !nosandbox

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/sandbox"
)

// demoRequest is what the demo posts. It changes rates, lags, sizes and
// durations only: alpha, margins, minima and steps are the defaults.
func demoRequest(f demoFlags, sc scenario, name string) api.CreateRequest {
	headroom, least := 1.0, 1
	d := window(f.rps)
	spare := func(t time.Duration) string { return t.String() }
	tracks := sandbox.Tracks()
	stages := sc.stages
	if len(stages) == 0 {
		stages = []string{"shift"}
	}
	return api.CreateRequest{
		Name:    name,
		Routes:  []api.Route{{Kind: sandbox.RouteKind, Name: sandbox.RouteName}},
		Primary: api.Track{Service: tracks[0].Service, Port: tracks[0].Port, Deployment: tracks[0].Deployment},
		Canary:  api.CanaryTrack{Service: tracks[1].Service, Port: tracks[1].Port, Deployment: tracks[1].Deployment},
		Stages:  stages,
		Size:    &api.Size{Headroom: &headroom, MinReplicas: &least},
		Gates:   &api.Gates{Soak: "15s", MaxWindow: spare(d), TelemetryGrace: "15s"},
		Deadlines: &api.Deadlines{
			Preflight: "20s", Grow: "20s", Settle: "6s", Shown: spare(max(30*time.Second, d/2)), Write: "15s",
			Drain: "60s", Request: "10s", Undo: "60s", Confirm: "30s", Promote: "60s", Steady: "5s", Exposure: spare(15*time.Minute + 4*d),
		},
		Holds: "20s",
		Cause: &api.Cause{CI: "demo", Run: sc.name, Actor: "you", Reason: sc.story},
	}
}

// client speaks to the demo's own API, as a pipeline would.
type client struct {
	base string
	http *http.Client
}

func newClient(base string) client {
	return client{base: strings.TrimRight(base, "/"), http: &http.Client{Timeout: 35 * time.Second}}
}

// problemError is a problem answer.
type problemError struct {
	status  int
	problem api.Problem
}

func (e problemError) Error() string {
	s := fmt.Sprintf("%s (%d)", e.problem.Title, e.status)
	if e.problem.Detail != "" {
		s += ": " + e.problem.Detail
	}
	for _, f := range e.problem.Errors {
		s += "\n  " + strings.TrimSpace(f.Pointer+" "+f.Message)
		if f.Fix != "" {
			s += " (" + f.Fix + ")"
		}
	}
	return s
}

func (c client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 400 {
		e := problemError{status: res.StatusCode}
		_ = json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&e.problem) // an answer that is no problem has its status
		return e
	}
	return json.NewDecoder(res.Body).Decode(out)
}

func (c client) plan(ctx context.Context, ns string, q api.CreateRequest) (api.Plan, error) {
	var p api.Plan
	err := c.do(ctx, http.MethodPost, "/v1/namespaces/"+ns+"/releases?dryRun=true", q, &p)
	return p, err
}

func (c client) create(ctx context.Context, ns string, q api.CreateRequest) (api.Release, error) {
	var r api.Release
	err := c.do(ctx, http.MethodPost, "/v1/namespaces/"+ns+"/releases", q, &r)
	return r, err
}

func (c client) get(ctx context.Context, ns, name string) (api.Release, error) {
	var r api.Release
	err := c.do(ctx, http.MethodGet, "/v1/namespaces/"+ns+"/releases/"+name, nil, &r)
	return r, err
}
