package analysis

import (
	"fmt"
	"time"
)

// usualScrape stands in where the interval between scrapes is unknown.
const usualScrape = 15 * time.Second

// sight says whether the judge sees: empty, [TelemetryGap] when the source
// answers with trouble or the newest data are older than two and a half
// scrapes, and [TelemetryUnavailable] when that lasts longer than the grace,
// which is the larger of telemetryGrace and eight scrapes. The usual age of the
// newest sample is allowed for. Where nothing was ever seen, time runs from the
// beginning of the proof.
func (st state) sight(s Settings, h Health, now time.Time) (Reason, string) {
	scrape := h.Scrape
	if scrape <= 0 {
		scrape = usualScrape
	}
	newest, what := h.Fresh, "the newest data are"
	if st.Newest.After(newest) {
		newest = st.Newest.Time
	}
	if newest.IsZero() {
		newest, what = st.Since.Time, "there have been no data for"
	}
	age := now.Sub(newest)
	late := age - h.Lag
	if -age > s.grace(scrape) {
		return TelemetryUnavailable, fmt.Sprintf("the newest data are %s ahead of the clock, so they cannot be dated", (-age).Round(time.Second))
	}
	why := fmt.Sprintf("%s %s old", what, age.Round(time.Second))
	if h.Trouble != "" {
		why = fmt.Sprintf("the source of telemetry says: %s; %s", h.Trouble, why)
	}
	switch {
	case late > s.grace(scrape):
		return TelemetryUnavailable, why
	case h.Trouble != "" || late > 2*scrape+scrape/2:
		return TelemetryGap, why
	}
	return "", ""
}
