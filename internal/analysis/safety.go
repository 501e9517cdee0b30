package analysis

import "fmt"

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
