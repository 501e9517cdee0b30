package analysis

import (
	"math"
	"time"
)

// fullShare is the share at which no control is left.
const fullShare = 100

// logGuardAt is the bound of the guard's e-value: 20.
var logGuardAt = math.Log(20)

// guard watches a step at 100, where nothing is left to compare with. It knows
// only what the baseline's rate was in the last step that had one, so its alarm
// is a reason to go back to a control and ask again, not a fail:
//
//	G = mean over kappa of kappa^x1 exp(-(kappa-1) n1 q) >= 20
type guard struct {
	// Rate is q. It is fixed when the first window comes; zero means that there
	// was no baseline to take it from.
	Rate  float64  `json:"rate,omitempty"`
	Fixed bool     `json:"fixed,omitempty"`
	Logs  failLogs `json:"logs"`
	Rang  stamp    `json:"rang,omitzero"` // when the alarm was first reached
}

// rateAgainst is q = max(ratio*u, u+delta), the upper limit u of the baseline's
// rate widened by both margins; the smaller of the two in mode either. A margin
// that is not set is left out.
func rateAgainst(baseline Counts, s Settings) float64 {
	if baseline.Requests <= 0 {
		return 0
	}
	u := upperLimit(baseline)
	m := s.margins(MetricErrors)
	byRatio, byDelta := m.ratio*u, u+m.delta
	switch {
	case !m.set():
		return u
	case !m.hasRatio():
		return byDelta
	case !m.hasDelta():
		return byRatio
	case s.Mode == ModeEither:
		return math.Min(byRatio, byDelta)
	default:
		return math.Max(byRatio, byDelta)
	}
}

// fold lets the candidate's counts of one window enter and notes an alarm. The
// guard is not tempered by the dispersion: an alarm in vain costs a detour, and
// the judgement with a control that follows is tempered.
func (g guard) fold(c Counts, end time.Time) guard {
	if g.Rate <= 0 {
		return g
	}
	for i, kappa := range failGrid {
		g.Logs[i] += c.Bad*math.Log(kappa) - (kappa-1)*c.Requests*g.Rate
	}
	if g.Rang.IsZero() && logMean(g.Logs[:]) >= logGuardAt {
		g.Rang = stampOf(end)
	}
	return g
}

// gap is a time without data inside a proof, and what had been counted before
// it ended.
type gap struct {
	End    stamp         `json:"end"`
	Long   time.Duration `json:"long"`
	Before Counts        `json:"before"` // the candidate's
}

// gapsMax bounds the gaps kept.
const gapsMax = 8

// withGap appends a gap and drops earlier ones that it outlasts: whatever a
// reader takes for too long, only the last such gap matters. Where there is no
// room, the newest is joined to the one before as if it had lasted as long.
func withGap(gaps []gap, g gap) []gap {
	if len(gaps) == gapsMax {
		g.Long = max(g.Long, gaps[gapsMax-1].Long)
	}
	for len(gaps) > 0 && gaps[len(gaps)-1].Long <= g.Long {
		gaps = gaps[:len(gaps)-1]
	}
	return append(gaps, g)
}

// soak says since when the data have been fresh without a gap longer than the
// grace, and what the candidate served in that time.
func (st state) soak(grace time.Duration) (since time.Time, served Counts) {
	since, served = st.Since.Time, st.errors().Proof.All.Candidate
	for i := len(st.Gaps) - 1; i >= 0; i-- {
		if st.Gaps[i].Long > grace {
			before := st.Gaps[i].Before
			return st.Gaps[i].End.Time, Counts{served.Requests - before.Requests, served.Bad - before.Bad}
		}
	}
	return since, served
}
