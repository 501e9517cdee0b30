package analysis

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// sure is the one-sided confidence of the limits that act alone.
const sure = 0.999

// upperLimit is the exact one-sided upper limit of Clopper and Pearson (1934)
// for a rate, at confidence sure: the p at which c.Bad or fewer bad events have
// the probability 1-sure. Without requests it is 1.
func upperLimit(c Counts) float64 {
	n, x := c.Requests, c.Bad
	if n <= 0 || x >= n {
		return 1
	}
	return invRegIncBeta(x+1, n-x, sure)
}

// lowerLimit is the matching one-sided lower limit; without bad events it is 0.
func lowerLimit(c Counts) float64 {
	n, x := c.Requests, c.Bad
	if n <= 0 || x <= 0 {
		return 0
	}
	return invRegIncBeta(x, n-x+1, 1-sure)
}

// invRegIncBeta solves mathext.RegIncBeta(a, b, p) = y for p by bisection,
// which holds at any size of a and b. It is called once a look at most.
func invRegIncBeta(a, b, y float64) float64 {
	low, high := 0.0, 1.0
	for range 200 {
		mid := low + (high-low)/2
		if mid == low || mid == high {
			break
		}
		if mathext.RegIncBeta(a, b, mid) < y {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// atMost is P(X <= x) for X ~ Binomial(n, p), with x and n real.
func atMost(x, n, p float64) float64 {
	switch {
	case x < 0:
		return 0
	case x >= n || p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	return mathext.RegIncBeta(n-x, x+1, 1-p)
}

// atLeast is P(X >= x) for X ~ Binomial(n, p), with x and n real.
func atLeast(x, n, p float64) float64 {
	switch {
	case x <= 0 || p >= 1:
		return 1
	case x > n || p <= 0:
		return 0
	}
	return mathext.RegIncBeta(x, n-x+1, p)
}

// newcombe is the 95 % interval of the difference of two rates by Newcombe's
// method 10 (Statistics in Medicine 17, 1998): two Wilson intervals, squared and
// added. It holds for one look only and is for display.
func newcombe(p pair) Interval {
	r1, _ := p.Candidate.Rate()
	r0, _ := p.Baseline.Rate()
	l1, u1 := wilson(p.Candidate)
	l0, u0 := wilson(p.Baseline)
	return Interval{
		Low:  r1 - r0 - math.Hypot(r1-l1, u0-r0),
		Mid:  r1 - r0,
		High: r1 - r0 + math.Hypot(u1-r1, r0-l0),
	}
}

// z95 is the 97.5 % point of the normal distribution.
const z95 = 1.959963984540054

func wilson(c Counts) (low, high float64) {
	n, p := c.Requests, c.Bad/c.Requests
	const zz = z95 * z95
	mid := p + zz/(2*n)
	half := z95 * math.Sqrt(p*(1-p)/n+zz/(4*n*n))
	return (mid - half) / (1 + zz/n), (mid + half) / (1 + zz/n)
}
