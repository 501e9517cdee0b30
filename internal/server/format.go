package server

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/api"
)

// dash stands where nothing is known; the page says why beside it.
const dash = "–"

// percent writes a share that is a percent already: 50 %, 49.7 %.
func percent(p float64) string {
	return strconv.FormatFloat(math.Round(p*10)/10, 'f', -1, 64) + " %"
}

// rate writes a share of requests between 0 and 1 as a percent: 0.069 %, 4.88 %.
func rate(p float64) string { return small(100*p) + " %" }

// points writes a difference of rates in percentage points, with its sign.
func points(p float64) string {
	s := small(math.Abs(100*p)) + " pp"
	switch {
	case p < 0:
		return "−" + s
	case p > 0:
		return "+" + s
	}
	return s
}

// small writes a percent with at most three digits and three places, but never a
// zero for what is none.
func small(v float64) string {
	if a := math.Abs(v); a > 0 && a < 0.0005 {
		return strconv.FormatFloat(v, 'g', 1, 64)
	}
	return trim(v, 3)
}

// digits writes three digits that mean something, without trailing zeros.
func digits(v float64) string { return trim(v, 6) }

func trim(v float64, most int) string {
	if v == 0 {
		return "0"
	}
	places := max(0, min(most, 2-int(math.Floor(math.Log10(math.Abs(v))))))
	s := strconv.FormatFloat(v, 'f', places, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// count writes a number of requests with thousands set off; a fraction is kept
// to one digit.
func count(v float64) string {
	if math.Abs(v) >= 1e15 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	s := strconv.FormatFloat(math.Round(math.Abs(v)*10)/10, 'f', -1, 64)
	whole, frac, has := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if has {
		whole += "." + frac
	}
	if v < 0 && whole != "0" {
		whole = "−" + whole
	}
	return whole
}

// multiple writes an e-value: less than 0.001, 6.69, 1,200, 5.3e+06.
func multiple(v *float64) string {
	switch {
	case v == nil:
		return "more than can be written"
	case *v < 0.001:
		return "less than 0.001"
	case *v >= 1e6:
		return strconv.FormatFloat(*v, 'g', 2, 64)
	case *v >= 1000:
		return count(math.Round(*v))
	}
	return digits(*v)
}

// lasting writes seconds as a person says them: 45 s, 1 min 40 s, 2 h 5 min.
func lasting(sec float64) string {
	d := time.Duration(math.Round(sec)) * time.Second
	if d < 0 {
		return "0 s"
	}
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case h >= 48:
		return fmt.Sprintf("%d days", h/24)
	case h > 0:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", h, m), " 0 min")
	case m > 0:
		return strings.TrimSuffix(fmt.Sprintf("%d min %d s", m, s), " 0 s")
	}
	return fmt.Sprintf("%d s", s)
}

// moment is a time for a <time> element.
type moment struct {
	Machine string // RFC 3339
	Text    string
}

// at writes a time of the day, with the date when it is another day than now.
func at(t, now time.Time) moment {
	t = t.UTC()
	text := t.Format("15:04:05")
	if t.Format(time.DateOnly) != now.UTC().Format(time.DateOnly) {
		text = t.Format("2 Jan 15:04:05")
	}
	return moment{Machine: t.Format(time.RFC3339), Text: text}
}

func atPtr(t *time.Time, now time.Time) *moment {
	if t == nil || t.IsZero() {
		return nil
	}
	m := at(*t, now)
	return &m
}

// orDash writes a number that may not be known.
func orDash[T int | float64](v *T) string {
	if v == nil {
		return dash
	}
	return count(float64(*v))
}

// version is a short name of a template: the image's tag where there is one
// image, else all of them.
func version(t api.Template) string {
	names := make([]string, 0, len(t.Images))
	for _, image := range t.Images {
		names = append(names, imageTag(image))
	}
	sort.Strings(names)
	if len(names) == 0 {
		return t.Hash
	}
	return strings.Join(names, ", ")
}

// imageTag is the tag of an image, or the beginning of its digest.
func imageTag(image string) string {
	if _, digest, ok := strings.Cut(image, "@"); ok {
		_, hex, _ := strings.Cut(digest, ":")
		return hex[:min(len(hex), 12)]
	}
	name := image[strings.LastIndex(image, "/")+1:]
	if _, tag, ok := strings.Cut(name, ":"); ok {
		return tag
	}
	return name
}

// plural writes a count with its noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(float64(n)) + " " + many
}
