package analysis

import "time"

// Defaults returns the settings that a request does not name: alpha 1 %, margins of half a
// percentage point and 1.5 times for errors, one point and 1.5 times for slow
// requests, 1.3 times for CPU and memory, 300 requests, a window of 30 minutes.
func Defaults() Settings {
	return Settings{
		Alpha:               0.01,
		AlphaPass:           0.05,
		MaxErrorRateDelta:   0.005,
		MaxErrorRateRatio:   1.5,
		Mode:                ModeBoth,
		MinRequests:         300,
		MinBaselineRequests: 100,
		MinScrapes:          4,
		MaxErrorRate:        0.25,
		EqualHarm:           true,
		ToleranceGuarantee:  0,
		Soak:                5 * time.Minute,
		MaxWindow:           30 * time.Minute,
		TelemetryGrace:      2 * time.Minute,
		MaxSlowShareDelta:   0.01,
		MaxSlowShareRatio:   1.5,
		MaxCPURatio:         1.3,
		MaxMemoryRatio:      1.3,
	}
}

// FieldError names a setting that cannot be used, what is wrong with it and
// what would be right.
type FieldError struct {
	Field   string `json:"field"` // the JSON name
	Problem string `json:"problem"`
}

// Error makes a FieldError an error.
func (e FieldError) Error() string { return e.Field + ": " + e.Problem }

// The bounds of both alphas.
const (
	minAlpha = 1e-9
	maxAlpha = 0.5
)

// Validate returns every setting that cannot be used, in the order of the
// fields; none means that the gate can work with them.
func (s Settings) Validate() []FieldError {
	var bad []FieldError
	check := func(ok bool, field, problem string) {
		if !ok {
			bad = append(bad, FieldError{field, problem})
		}
	}
	check(within(s.Alpha, minAlpha, maxAlpha), "alpha",
		"is the chance of a false fail and must be above 0 and at most 0.5; 0.01 is usual")
	check(within(s.AlphaPass, minAlpha, maxAlpha), "alphaPass",
		"is the chance of a false pass and must be above 0 and at most 0.5; 0.05 is usual")
	check(within(s.MaxErrorRateDelta, 0, 1), "maxErrorRateDelta",
		"is a share and must lie between 0 and 1; half a percentage point is 0.005, and 0 leaves it out")
	check(s.MaxErrorRateRatio == 0 || within(s.MaxErrorRateRatio, 1, 1000), "maxErrorRateRatio",
		"must be at least 1 and at most 1000; 1.5 allows half as many errors again, and 0 leaves it out")
	check(s.hasDelta() || s.hasRatio(), "maxErrorRateDelta",
		"and maxErrorRateRatio cannot both be left out; set one of them, or both")
	check(s.Mode == ModeBoth || s.Mode == ModeEither, "mode",
		`must be "both" (fail when both margins are exceeded) or "either" (when one is)`)
	check(within(s.MinRequests, 1, maxCount), "minRequests",
		"must be at least 1; 300 is usual")
	check(within(s.MinBaselineRequests, 1, maxCount), "minBaselineRequests",
		"must be at least 1; 100 is usual")
	check(s.MinScrapes >= 1 && s.MinScrapes <= 1000, "minScrapes",
		"must lie between 1 and 1000; 4 is usual")
	check(within(s.MaxErrorRate, 1e-9, 1), "maxErrorRate",
		"is a share and must be above 0 and at most 1; 0.25 is usual, and 1 switches the safety limit off")
	check(s.ToleranceGuarantee == 0 || s.ToleranceGuarantee == 0.5 || s.ToleranceGuarantee == 1, "toleranceGuarantee",
		"must be 0, 0.5 or 1; 0 stops soonest, 1 never fails a difference within the margin")
	check(s.ToleranceGuarantee == 0 || s.hasDelta(), "toleranceGuarantee",
		"is a part of maxErrorRateDelta, which is left out; set maxErrorRateDelta, or toleranceGuarantee to 0")
	check(s.Soak >= 0, "soak", "must not be negative; 5m is usual")
	check(s.MaxWindow > 0, "maxWindow", "must be longer than nothing; 30m is usual")
	check(s.MaxWindow <= 0 || s.Soak <= s.MaxWindow, "soak",
		"is longer than maxWindow, so no step could pass; shorten soak or lengthen maxWindow")
	check(s.TelemetryGrace > 0, "telemetryGrace", "must be longer than nothing; 2m is usual")
	return append(bad, s.validateOthers()...)
}

// validateOthers looks at the settings of latency and saturation, of which all
// may be left out.
func (s Settings) validateOthers() []FieldError {
	var bad []FieldError
	if !within(s.MaxSlowShareDelta, 0, 1) {
		bad = append(bad, FieldError{"maxSlowShareDelta", "is a share and must lie between 0 and 1; one percentage point is 0.01, and 0 leaves it out"})
	}
	for _, r := range []struct {
		field string
		v     float64
	}{{"maxSlowShareRatio", s.MaxSlowShareRatio}, {"maxCpuRatio", s.MaxCPURatio}, {"maxMemoryRatio", s.MaxMemoryRatio}} {
		if r.v != 0 && !within(r.v, 1, 1000) {
			bad = append(bad, FieldError{r.field, "must be at least 1 and at most 1000, and 0 leaves it out"})
		}
	}
	if s.RequireLatency && !s.judges(MetricLatency) {
		bad = append(bad, FieldError{"requireLatency", "needs maxSlowShareDelta or maxSlowShareRatio, and both are left out"})
	}
	if s.RequireSaturation && !s.judges(MetricCPU) && !s.judges(MetricMemory) {
		bad = append(bad, FieldError{"requireSaturation", "needs maxCpuRatio or maxMemoryRatio, and both are left out"})
	}
	return bad
}

// Margin returns the margin of a step in which the candidate has w of the
// traffic (a share between 0 and 1). With equal harm it is
// maxErrorRateDelta * max(1, 0.5/w), since a small share does little harm: 2.5,
// 1 and 0.5 percentage points at 10, 25 and 50 %. It is never
// widened beyond maxErrorRate: at a share of a thousandth the formula would
// certify an outage.
func (s Settings) Margin(w float64) float64 {
	return s.margins(MetricErrors).stepMargin(w, s.EqualHarm)
}

// SlowMargin is the same of the share of slow requests: maxSlowShareDelta with
// equal harm, and never more than a quarter.
func (s Settings) SlowMargin(w float64) float64 {
	return s.margins(MetricLatency).stepMargin(w, s.EqualHarm)
}

func (s Settings) hasDelta() bool { return s.MaxErrorRateDelta > 0 }
func (s Settings) hasRatio() bool { return s.MaxErrorRateRatio > 0 }

// grace is how long data may be missing before it counts as lost.
func (s Settings) grace(scrape time.Duration) time.Duration {
	return max(s.TelemetryGrace, 8*scrape)
}

func within(v, low, high float64) bool { return v >= low && v <= high }
