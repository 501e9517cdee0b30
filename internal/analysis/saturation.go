package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Usage is what a gauge of resources showed on both sides in one interval:
// [MetricCPU] as CPU-seconds per request, [MetricMemory] as the working set of
// the middle pod.
type Usage struct {
	Metric    string    `json:"metric"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Candidate float64   `json:"candidate"`
	Baseline  float64   `json:"baseline"`
	WarmUp    bool      `json:"warmUp,omitempty"`
}

// There are few pods, and gauges follow themselves, so no count test applies:
// the logarithms of the ratio, averaged over batches, are taken as Gaussian.
const (
	batchTime  = time.Minute // of one batch
	batchesMin = 10          // before saturation has a say in a fail
	leastPods  = 3           // in each arm, or it is advisory
	// noiseFloor is the least standard deviation of a batch that is believed:
	// gauges that stand still would make the t-statistic infinite.
	noiseFloor = 0.01
	// usageMax bounds a gauge's value.
	usageMax = 1e18
)

// usage is one gauge's running state.
type usage struct {
	Metric string  `json:"metric"`
	Until  stamp   `json:"until,omitzero"`
	Wait   batch   `json:"wait,omitzero"`
	All    moments `json:"all,omitzero"`  // of the release, warm-up left out
	Step   moments `json:"step,omitzero"` // since the step's proof began
}

// batch gathers a minute of both sides, weighted by time.
type batch struct {
	Candidate float64 `json:"c"`
	Baseline  float64 `json:"b"`
	Seconds   float64 `json:"s"`
}

// moments are the number, mean and sum of squares about it (Welford).
type moments struct {
	N      int     `json:"n"`
	Mean   float64 `json:"mean"`
	Square float64 `json:"square"`
}

func (m moments) add(y float64) moments {
	m.N++
	d := y - m.Mean
	m.Mean += d / float64(m.N)
	m.Square += d * (y - m.Mean)
	return m
}

// sd is the standard deviation, at least the floor.
func (m moments) sd() float64 {
	if m.N < 2 {
		return math.Inf(1)
	}
	return math.Max(noiseFloor, math.Sqrt(m.Square/float64(m.N-1)))
}

// logEvidence is the logarithm of the e-value that the mean lies above theta:
// the right-Haar mixture of t-tests of Lindon, Ham, Tingley and Bojinov (arXiv
// 2210.08589) with a unit of information, used on one side,
//
//	M = sqrt(r) * ((1 + tau^2/nu) / (1 + r tau^2/nu))^((nu+1)/2),  r = 1/(1+n)
//
// where tau is the t-statistic of Y - theta and nu = n-1. It is 0 unless the
// mean exceeds theta, which only lowers it. Exact for Gaussian batches at any n
// and any time of looking.
func (m moments) logEvidence(theta float64) float64 {
	if m.N < 2 || m.Mean <= theta {
		return math.Inf(-1)
	}
	n, nu := float64(m.N), float64(m.N-1)
	tau := (m.Mean - theta) * math.Sqrt(n) / m.sd()
	r := 1 / (1 + n)
	return math.Log(r)/2 + (nu+1)/2*(math.Log1p(tau*tau/nu)-math.Log1p(r*tau*tau/nu))
}

// radius is the half-width of the confidence sequence of the mean that belongs
// to the same mixture, at the level a: infinite while there are too few batches.
//
//	q = (r a^2)^(1/(nu+1)),  radius = sd/sqrt(n) * sqrt(nu (1-q)/(q-r))
func (m moments) radius(a float64) float64 {
	if m.N < 2 {
		return math.Inf(1)
	}
	n, nu := float64(m.N), float64(m.N-1)
	r := 1 / (1 + n)
	q := math.Pow(r*a*a, 1/(nu+1))
	if q <= r {
		return math.Inf(1)
	}
	return m.sd() / math.Sqrt(n) * math.Sqrt(nu*(1-q)/(q-r))
}

// withUsage adds a state for every gauge that the step watches.
func (st state) withUsage() state {
	for _, m := range st.Step.Watch.Usage {
		i, ok := slices.BinarySearchFunc(st.Usage, m, func(k usage, name string) int { return strings.Compare(k.Metric, name) })
		if !ok {
			st.Usage = slices.Insert(st.Usage, i, usage{Metric: m})
		}
	}
	return st
}

// AddUsage folds gauges in, in the order of their ends. Those that the step does
// not watch, that cannot be used or that were folded already change nothing. At
// 100 there is nothing to compare with.
func (g Gate) AddUsage(us []Usage) Gate {
	next := g.st.clone()
	us = slices.Clone(us)
	slices.SortStableFunc(us, func(a, b Usage) int { return a.To.Compare(b.To) })
	for _, u := range us {
		i := slices.IndexFunc(next.Usage, func(k usage) bool { return k.Metric == u.Metric })
		if next.Planned == 0 || i < 0 || next.Between || !next.Step.control() {
			continue
		}
		next.Usage[i] = next.Usage[i].fold(u, next.Since.Time)
	}
	return Gate{next}
}

func (k usage) fold(u Usage, since time.Time) usage {
	w := Window{From: u.From, To: u.To}
	usable := within(u.Candidate, 0, usageMax) && within(u.Baseline, 0, usageMax) && u.Candidate > 0 && u.Baseline > 0
	if !timely(w) || !usable || !u.To.After(k.Until.Time) || repeats(w, k.Until.Time) {
		return k
	}
	k.Until = stampOf(u.To)
	if u.WarmUp || u.From.Before(since) {
		return k
	}
	s := u.To.Sub(u.From).Seconds()
	k.Wait.Candidate += s * u.Candidate
	k.Wait.Baseline += s * u.Baseline
	if k.Wait.Seconds += s; k.Wait.Seconds < batchTime.Seconds() {
		return k
	}
	y := math.Log(k.Wait.Candidate) - math.Log(k.Wait.Baseline)
	k.All, k.Step, k.Wait = k.All.add(y), k.Step.add(y), batch{}
	return k
}

// saturating is the fail statistic of the gauges: the mean over those that are
// judged, of which each counts as 0 before it has ten batches.
func (st state) saturating(s Settings) failing {
	f := failing{most: math.Inf(-1)}
	var logs []float64
	for _, k := range st.Usage {
		if !s.judges(k.Metric) {
			continue
		}
		v := k.All.logEvidence(math.Log(s.maxRatio(k.Metric)))
		if k.All.N < batchesMin {
			v = math.Inf(-1)
		}
		logs = append(logs, v)
		if !math.IsInf(v, -1) {
			f.material = true
		}
		if f.loudest == "" || v > f.most {
			f.of, f.loudest, f.most = k.Metric, k.Metric, v
		}
	}
	if len(logs) > 0 {
		f.log = logMean(logs)
		f.raw, f.most = f.log, f.most-math.Log(float64(len(logs)))
		return f
	}
	f.log, f.raw = math.Inf(-1), math.Inf(-1)
	return f
}

// unproven says what the gauges still lack for a pass, empty when nothing:
// the upper end of the confidence sequence of the step must lie below the ratio
// that is tolerated.
func (st state) unproven(s Settings) string {
	if st.Step.Watch.Advisory {
		return ""
	}
	for _, k := range st.Usage {
		limit := s.maxRatio(k.Metric)
		if high := k.Step.Mean + k.Step.radius(s.AlphaPass); limit > 0 && !(high < math.Log(limit)) {
			return fmt.Sprintf("%s of the candidate is %s times the baseline's over %d minutes, and it is not proven yet that it stays below %g times",
				k.Metric, ratio(k.Step), k.Step.N, limit)
		}
	}
	return ""
}

func ratio(m moments) string {
	if m.N == 0 {
		return "an unknown number of"
	}
	return fmt.Sprintf("%.2f", math.Exp(m.Mean))
}

// saturationNote says in people's numbers what the evidence is about.
func (st state) saturationNote(metric string) string {
	for _, k := range st.Usage {
		if k.Metric == metric {
			return fmt.Sprintf("over %d minutes %s of the candidate was %s times the baseline's", k.All.N, metric, ratio(k.All))
		}
	}
	return ""
}

// checkUsage looks for what would make later arithmetic senseless.
func (st state) checkUsage() error {
	for i, k := range st.Usage {
		ok := k.Metric == MetricCPU || k.Metric == MetricMemory
		if !ok || i > 0 && st.Usage[i-1].Metric >= k.Metric {
			return fmt.Errorf("gauge %q is unknown or not in order", k.Metric)
		}
		for _, m := range []moments{k.All, k.Step} {
			if m.N < 0 || !within(m.Mean, -100, 100) || !sane(maxSum, m.Square) {
				return fmt.Errorf("gauge %q is out of range", k.Metric)
			}
		}
		if !sane(maxSum, k.Wait.Candidate, k.Wait.Baseline, k.Wait.Seconds) {
			return fmt.Errorf("gauge %q is out of range", k.Metric)
		}
	}
	return nil
}
