package analysis

import (
	"fmt"
	"math"
)

// Quantile is the percentile q (between 0 and 1) of a histogram as PromQL's
// histogram_quantile reads it: linear within a bucket, from 0 in the first one,
// and the largest finite bound for what lies beyond it. For display only, since
// it hardly moves while requests stay within a bucket. NaN without requests.
func Quantile(q float64, buckets []Bucket) float64 {
	bs, total := tidyBuckets(buckets)
	if total <= 0 {
		return math.NaN()
	}
	low, below := 0.0, 0.0
	for _, b := range bs {
		if b.Count < q*total {
			low, below = b.Bound, b.Count
			continue
		}
		if math.IsInf(b.Bound, 1) || b.Count <= below {
			return low
		}
		return low + (b.Bound-low)*(q*total-below)/(b.Count-below)
	}
	return low
}

// QuantileText writes a quantile for people; what lies beyond the last finite
// bound is more than it.
func QuantileText(q float64, buckets []Bucket) string {
	bs, total := tidyBuckets(buckets)
	last := 0.0
	for _, b := range bs {
		if bounded(b.Bound) {
			last = b.Bound
			if b.Count >= q*total && total > 0 {
				return bound(Quantile(q, buckets))
			}
		}
	}
	if total <= 0 {
		return "unknown"
	}
	return ">" + bound(last)
}

// QuantileBetween gives the bounds that hold the quantile for sure, whatever the
// distribution inside the buckets is: it lies above low and not above high, which
// is +Inf where no finite bound is sure to cover it. The limits are exact (Clopper
// and Pearson, 1934), one-sided at 99.9 %. For display only.
func QuantileBetween(q float64, buckets []Bucket) (low, high float64) {
	bs, total := tidyBuckets(buckets)
	high = math.Inf(1)
	for _, b := range bs {
		c := Counts{total, b.Count}
		switch {
		case upperLimit(c) < q:
			low = b.Bound
		case lowerLimit(c) >= q && math.IsInf(high, 1):
			high = b.Bound
		}
	}
	return low, high
}

// Degenerate says whether nearly all requests lie in the first bucket or beyond
// the last finite bound, so that the histogram tells nothing.
func Degenerate(buckets []Bucket) bool {
	bs, total := tidyBuckets(buckets)
	if total <= 0 {
		return false
	}
	finite := 0.0
	for _, b := range bs {
		if bounded(b.Bound) {
			finite = b.Count
		}
	}
	return bs[0].Count > 0.99*total || total-finite > 0.99*total
}

// BandWidth is the half-width of a band that holds a whole distribution function
// at all times, after n requests at the level alpha (Howard and Ramdas, Bernoulli
// 28, 2022, arXiv 1906.09712):
//
//	0.85 sqrt((ln(1 + ln n) + 0.8 ln(1612/alpha)) / n)
//
// It is why shares above fixed bounds are judged instead: after 9,000 requests it
// is still three percentage points.
func BandWidth(n, alpha float64) float64 {
	if !(n >= 1) || !within(alpha, 0, 1) || alpha == 0 {
		return 1
	}
	return 0.85 * math.Sqrt((math.Log1p(math.Log(n))+0.8*math.Log(1612/alpha))/n)
}

// bound writes a bound in seconds for people.
func bound(seconds float64) string {
	if seconds < 1 {
		return fmt.Sprintf("%.4g ms", 1000*seconds)
	}
	return fmt.Sprintf("%.4g s", seconds)
}
