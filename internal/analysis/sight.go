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
	return st.vanished(s, scrape)
}

// vanished says whether a metric that the step watches, and that was there when
// it began, has stopped coming while the errors go on. What was never there is
// not watched.
func (st state) vanished(s Settings, scrape time.Duration) (Reason, string) {
	if !st.Step.control() {
		return "", ""
	}
	worst, what := time.Duration(0), ""
	look := func(name string, newest time.Time, pace time.Duration) {
		if newest.Before(st.Step.At) {
			newest = st.Step.At
		}
		if late := st.Newest.Sub(newest) - pace; late > worst {
			worst, what = late, fmt.Sprintf("the %s data end at %s, while those of errors go on", name, newest.Format(time.TimeOnly))
		}
	}
	for _, e := range st.proving(s)[1:] {
		look(e.Metric, e.newest(), 2*scrape+scrape/2)
	}
	for _, k := range st.Usage {
		if s.judges(k.Metric) && !st.Step.Watch.Advisory {
			look(k.Metric, k.Until.Time, batchTime)
		}
	}
	switch {
	case worst > s.grace(scrape):
		return TelemetryUnavailable, what
	case worst > 0:
		return TelemetryGap, what
	}
	return "", ""
}
