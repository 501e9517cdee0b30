package analysis

// LookBack seeds the dispersion with windows in which both sides were the
// baseline's own pods, as the look-back before a release will.
func (g Gate) LookBack(ws []Window) Gate {
	next := g.st.clone()
	e := &next.Metrics[0]
	var st stratum
	for _, w := range ws {
		e.Spread, st = e.Spread.feed(st, pair{w.Candidate, w.Baseline})
	}
	return Gate{next}
}
