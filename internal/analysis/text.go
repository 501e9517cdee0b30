package analysis

import (
	"fmt"
	"math"
	"strconv"
)

// number writes a count for people: whole numbers plainly, others with one
// decimal.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// percent writes a share in percent, small ones with more decimals.
func percent(share float64) string {
	if math.Abs(share) < 0.1 {
		return fmt.Sprintf("%.2f %%", 100*share)
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}
