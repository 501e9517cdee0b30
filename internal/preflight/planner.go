package preflight

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// Config is what a planner is made of. The ports are needed; the rest has
// defaults.
type Config struct {
	Routes    Routes
	Workloads Workloads
	Telemetry Telemetry
	// Clock is time.Now by default.
	Clock func() time.Time
	// UID makes the identity of a new release, a random one by default.
	UID func() string
	// CallTimeout is the deadline of each call of a port, 4 s by default.
	CallTimeout time.Duration
}

// Planner makes plans. It writes nothing, and holds nothing between two plans.
type Planner struct{ cfg Config }

// New makes a planner.
func New(c Config) *Planner {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.UID == nil {
		c.UID = randomUID
	}
	if c.CallTimeout <= 0 {
		c.CallTimeout = 4 * time.Second
	}
	return &Planner{cfg: c}
}

// Plan says whether a release is sound and what it would do. What the request or
// the world gets wrong are findings; an error means that the world could not be
// asked.
func (p *Planner) Plan(ctx context.Context, k release.Key, spec release.Spec, subject string) (release.Forecast, error) {
	spec = spec.WithDefaults()
	if wrong := spec.Problems(); len(wrong) > 0 {
		return release.Forecast{Release: release.Release{Key: k, Spec: spec}, Findings: wrong}, nil
	}
	g, err := p.gather(ctx, k, spec)
	if err != nil {
		return release.Forecast{}, fmt.Errorf("plan release %s: %w", k, err)
	}
	f := release.Forecast{Release: release.Release{Key: k, Spec: spec}, Findings: g.findings}
	if !g.bound {
		return f, nil
	}
	f.Release = release.New(k, p.cfg.UID(), spec, g.binding, subject, g.now)
	f.Rate = g.traffic.fact()
	g.foretell(f.Release.StagePlans())
	for _, c := range chain() {
		for _, n := range c.look(g) {
			if n.warning {
				f.Warnings = append(f.Warnings, n.Finding)
			} else {
				f.Findings = append(f.Findings, n.Finding)
			}
		}
	}
	return course(f, g), nil
}

// randomUID makes a random UUID (RFC 9562, version 4).
func randomUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
