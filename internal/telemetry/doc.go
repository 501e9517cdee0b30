// Package telemetry is the eyes: it reads counters from a metrics source and
// says what was counted, per track and per proxy, and what is in flight. It
// never judges.
//
// Its one door for the engine is [Eyes.Look]; preflight asks [Eyes.Scrape],
// [Eyes.Sees] and [Eyes.Queries]. A look is stateless: all it needs is in the
// question, so a process that starts anew reads the same counts again.
//
// The rules of reading:
//
//   - Raw samples are read with a range selector at an explicit time and are
//     differenced here, per series; sums are taken afterwards. A value below
//     the one before is a restart and counts whole. After a gap the next sample
//     repays it. A series that is born counts whole if its target was scraped
//     before without it, else nothing.
//   - What a sample adds belongs to the sample's own time. So looks whose
//     bounds meet add up to the one look over both.
//   - Proxies are scraped at different moments, and a scrape is visible only
//     when it is over. Nothing is counted beyond the horizon: the time up to
//     which every proxy that keeps pace was seen. It is the reading's At, and
//     the Since of the next look; what is newer is left to that one.
//   - NaN, infinities and negative values are never numbers: the sample counts
//     as not scraped. Absence is zero only for a series whose target was seen.
//   - Latency is counted too: how many requests took longer than a bound of the
//     histogram. It is read from the same samples as the errors, in one query,
//     by the same rules; buckets count only where all have the sample. Where
//     other targets count durations, these are read one scrape late, so that
//     neither holds the other back and nothing is lost between two looks.
//   - Whatever the source does wrong (no answer, an error, a partial or an
//     oversized answer, series twice) is the reading's Trouble, with a zero At
//     and no counts. It begins with its [Class]. An error of the call is a fault
//     of the caller.
//   - A source that is busy or starting is asked again, within the deadline of
//     the query. Secrets are read from files at each use and are told to nobody
//     but the source.
//
// Providers are a table of named templates; query text is built from validated
// names and matchers of whole values only.
package telemetry
