package release

import "testing"

// checkTransitions reports phase changes that no path of the table explains.
func checkTransitions(t *testing.T, seen map[[2]Phase]int) {
	t.Helper()
	next := map[Phase][]Phase{}
	for _, tr := range Transitions() {
		next[tr.From] = append(next[tr.From], tr.To)
	}
	for pair, n := range seen {
		if !reachable(next, pair[0], pair[1], maxHops) {
			t.Errorf("%d times from %s to %s, which no path of the transition table explains", n, pair[0], pair[1])
		}
	}
}

func reachable(next map[Phase][]Phase, from, to Phase, hops int) bool {
	if hops == 0 {
		return false
	}
	for _, p := range next[from] {
		if p == to || reachable(next, p, to, hops-1) {
			return true
		}
	}
	return false
}
