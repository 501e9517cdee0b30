//go:build !nosandbox

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/sandbox"
)

// scenario is one thing that can happen in the demo.
type scenario struct {
	name   string
	story  string
	ends   string
	faults sandbox.Faults
	// crashAt drops the engine between save and act, at this share.
	crashAt float64
	// stages are run from the beginning that fits them; none means shift.
	stages []string
	begin  sandbox.Begin
}

// allStages is a release from v1 to v2 as a whole.
func allStages() []string { return []string{"canary", "promote", "shift"} }

// scenarios is the table of the demo.
func scenarios() []scenario {
	return []scenario{
		{
			name:  "good",
			story: "nothing goes wrong",
			ends:  "succeeded",
		},
		{
			name:   "errors",
			story:  "the primary answers 5 % of the requests with 500 from the step 50 on",
			ends:   "rolledBack",
			faults: sandbox.Faults{ErrorsFrom: sandbox.ErrorsFrom{Share: 50, Rate: 0.05}},
		},
		{
			name:   "slow",
			story:  "the primary takes twice as long for its answers from the step 50 on",
			ends:   "rolledBack",
			faults: sandbox.Faults{SlowFrom: sandbox.SlowFrom{Share: 50, By: 20 * time.Millisecond}},
		},
		{
			name:   "flaky-telemetry",
			story:  "the metrics answer 503 or stale data for 10 s of every 30",
			ends:   "succeeded",
			faults: sandbox.Faults{Telemetry: sandbox.Telemetry{Outage: 10 * time.Second, Every: 30 * time.Second}},
		},
		{
			name:   "no-traffic",
			story:  "the load stops at the step 25",
			ends:   "held, then rolledBack",
			faults: sandbox.Faults{LoadStopsAt: sandbox.LoadStopsAt{Share: 25}},
		},
		{
			name:   "stuck-pods",
			story:  "at 50 a primary process is never ready again, and a canary process ignores SIGTERM",
			ends:   "rolledBack",
			faults: sandbox.Faults{StuckAt: sandbox.StuckAt{Share: 50}},
		},
		{
			name:    "crash",
			story:   "the engine is dropped between save and act at 50, and started again",
			ends:    "succeeded",
			crashAt: 50,
		},
		{
			name:   "full",
			story:  "a release from v1 to v2 as a whole: canary, promote, shift, and nothing goes wrong",
			ends:   "succeeded",
			stages: allStages(),
			begin:  sandbox.CanaryNew,
		},
		{
			name:   "full-bad-primary",
			story:  "the same, but the promoted primary answers 5 % of the requests with 500",
			ends:   "rolledBack",
			stages: allStages(),
			begin:  sandbox.CanaryNew,
			faults: sandbox.Faults{ErrorsFrom: sandbox.ErrorsFrom{Share: 50, Rate: 0.05}},
		},
	}
}

func findScenario(name string) (scenario, bool) {
	for _, s := range scenarios() {
		if s.name == name {
			return s, true
		}
	}
	return scenario{}, false
}

func scenarioNames() string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

func scenarioHelp() string {
	var b strings.Builder
	b.WriteString("Scenarios:\n")
	for _, s := range scenarios() {
		fmt.Fprintf(&b, "  %-16s %s; ends %s\n", s.name, s.story, s.ends)
	}
	return b.String()
}
