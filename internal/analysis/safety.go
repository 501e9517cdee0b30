package analysis

import "fmt"

// What candidate pods may show before it is a danger.
const (
	mostRestarts = 1   // of their containers; two are one too many
	mostMemory   = 0.9 // of the limit
)

// unsafe says in words why the candidate must lose its share at once, empty when
// nothing is wrong: these limits act alone, without a comparison.
func (st state) unsafe(s Settings, h Health) string {
	switch {
	case overLimit(st.Seen.Candidate, s):
		return safetyNote(st.Seen.Candidate, s)
	case h.Pods.OOMKills > 0:
		return fmt.Sprintf("%d containers of the candidate were killed for their memory", h.Pods.OOMKills)
	case h.Pods.Restarts > mostRestarts:
		return fmt.Sprintf("containers of the candidate restarted %d times in this step", h.Pods.Restarts)
	case h.Pods.Memory > mostMemory:
		return fmt.Sprintf("a pod of the candidate uses %s of its memory limit", percent(h.Pods.Memory))
	}
	return ""
}

// overLimit says whether the candidate alone breaks the safety limit: the exact
// one-sided 99.9 % lower limit of its rate in this step lies above maxErrorRate.
// Windows of the warm-up count, and it acts from the first
// scrape. It is a limit for one look, so for catastrophes only, and it trips in
// a shared outage too, as intended.
func overLimit(c Counts, s Settings) bool {
	// The tail probability says the same as the limit and is computed directly.
	return c.Bad > 0 && s.MaxErrorRate > 0 && s.MaxErrorRate < 1 &&
		atLeast(c.Bad, c.Requests, s.MaxErrorRate) < 1-sure
}

func safetyNote(c Counts, s Settings) string {
	return fmt.Sprintf("%s of %s requests of the candidate failed in this step: with 99.9 %% confidence more than %s of all, and the limit is %s",
		number(c.Bad), number(c.Requests), percent(lowerLimit(c)), percent(s.MaxErrorRate))
}
