package server

import (
	"fmt"
	"strings"
	"time"

	"github.com/shifter-dev/shifter/internal/api"
)

// stairs is the staircase of weights over time as two step lines in a box of
// 1000 by 100, which the page stretches. Y grows downwards, as in SVG.
type stairs struct {
	Declared string // points of a polyline
	Shown    string
	Dots     []dot // where the data plane showed a share
	Plan     []float64
	Retreat  *float64 // x of its beginning
	From, To moment
	Text     string // the same for those who cannot see it
}

type dot struct{ X, Y float64 }

// point is one change of a share.
type point struct {
	at    time.Time
	share float64
}

// newStairs draws the steps' evidence and the retreat.
func newStairs(r api.Release, now time.Time) *stairs {
	if len(r.Steps) == 0 || r.Created == nil {
		return nil
	}
	from, to := *r.Created, r.Status.AsOf
	if r.Status.Ended != nil {
		to = *r.Status.Ended
	}
	if !to.After(from) {
		return nil
	}
	declared, shown := changes(r)
	x := func(t time.Time) float64 {
		return round1(1000 * min(1, max(0, t.Sub(from).Seconds()/to.Sub(from).Seconds())))
	}
	s := &stairs{
		Declared: line(declared, r.Status.Share.Start, x), Shown: line(shown, r.Status.Share.Start, x),
		From: at(from, now), To: at(to, now), Text: stairsText(r, declared, shown, now),
	}
	for _, p := range shown {
		s.Dots = append(s.Dots, dot{x(p.at), 100 - p.share})
	}
	for _, p := range r.Status.Plan {
		s.Plan = append(s.Plan, 100-p.Share)
	}
	if r.Status.Retreat != nil {
		v := x(r.Status.Retreat.Began)
		s.Retreat = &v
	}
	return s
}

// changes lists when each share was declared and when it was shown.
func changes(r api.Release) (declared, shown []point) {
	for _, st := range r.Steps {
		share := st.Share
		if turned(st, r.Status.Stage) {
			share = 100 - share // the other track gained in that stage
		}
		when := st.Declared
		if when == nil {
			when = st.Written
		}
		if when != nil {
			declared = append(declared, point{*when, share})
		}
		if st.Shown != nil {
			shown = append(shown, point{*st.Shown, share})
		}
	}
	if ret := r.Status.Retreat; ret != nil {
		// The suspect loses all of its share; the incoming track is the suspect
		// unless the refuge is the incoming one.
		end := 0.0
		if ret.Refuge == r.Status.Incoming {
			end = 100
		}
		if ret.Moved != nil {
			declared = append(declared, point{*ret.Moved, end})
		}
		if ret.Shown != nil {
			shown = append(shown, point{*ret.Shown, end})
		}
	}
	return declared, shown
}

// line makes the points of a step line from a share at the left edge.
func line(ps []point, share float64, x func(time.Time) float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "0,%g", 100-share)
	for _, p := range ps {
		fmt.Fprintf(&b, " %g,%g %g,%g", x(p.at), 100-share, x(p.at), 100-p.share)
		share = p.share
	}
	fmt.Fprintf(&b, " 1000,%g", 100-share)
	return b.String()
}

func stairsText(r api.Release, declared, shown []point, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Share of %s over time. It began with %s.", r.Status.Incoming, percent(r.Status.Share.Start))
	for _, p := range declared {
		fmt.Fprintf(&b, " %s declared at %s", percent(p.share), at(p.at, now).Text)
		for _, q := range shown {
			if q.share == p.share && !q.at.Before(p.at) {
				fmt.Fprintf(&b, ", shown at %s", at(q.at, now).Text)
				break
			}
		}
		b.WriteString(".")
	}
	return b.String()
}

func round1(v float64) float64 { return float64(int(v*10+0.5)) / 10 }
