package telemetry

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/shifter-dev/shifter/internal/release"
)

// naming says by which labels the series of proxies belong to a track.
type naming struct {
	labels []model.LabelName
	values [2][]string // of each track, as many as labels
	// match stands for the value of a single label of which only the shape is
	// known. It matches whole values.
	match [2]*regexp.Regexp
	// stray is a value of the last label that is neither track's.
	stray string
	only  []string // further matchers
}

// one names backends by one label.
func one(label string, primary, canary string) naming {
	return naming{labels: []model.LabelName{model.LabelName(label)}, values: [2][]string{{primary}, {canary}}}
}

// placed is where a series belongs.
type placed int

const (
	placedNowhere placed = iota // it was not asked for
	placedTrack
	placedStray
	placedCrossed // the matchers of several labels take in more than the tracks
)

// of finds the track of a series.
func (n naming) of(m model.Metric) (release.Track, placed) {
	got := make([]string, len(n.labels))
	for i, l := range n.labels {
		got[i] = string(m[l])
	}
	for t := range n.values {
		if re := n.match[t]; re != nil {
			if re.MatchString(got[0]) {
				return release.Track(t), placedTrack
			}
			continue
		}
		if slices.Equal(got, n.values[t]) {
			return release.Track(t), placedTrack
		}
	}
	if n.match[0] != nil {
		return 0, placedNowhere
	}
	last := len(got) - 1
	for i, v := range got {
		if i == last && n.stray != "" && v == n.stray {
			return 0, placedStray
		}
		if v != n.values[0][i] && v != n.values[1][i] {
			return 0, placedNowhere
		}
	}
	return 0, placedCrossed
}

// matchers select the series of both tracks.
func (n naming) matchers() []string {
	out := slices.Clone(n.only)
	for i, l := range n.labels {
		if n.match[0] != nil {
			either := n.match[0].String() + "|" + n.match[1].String()
			out = append(out, string(l)+"=~"+strconv.Quote(strings.NewReplacer("^(?:", "", ")$", "").Replace(either)))
			continue
		}
		values := []string{n.values[0][i], n.values[1][i]}
		if i == len(n.labels)-1 && n.stray != "" {
			values = append(values, n.stray)
		}
		out = append(out, is(string(l), values...))
	}
	return out
}

// text shows a track's backend to a person.
func (n naming) text(t release.Track) string {
	if n.match[t] != nil {
		return n.match[t].String()
	}
	return strings.Join(n.values[t], "/")
}

// label shows the labels.
func (n naming) label() string {
	out := make([]string, 0, len(n.labels))
	for _, l := range n.labels {
		out = append(out, string(l))
	}
	return strings.Join(out, "/")
}
