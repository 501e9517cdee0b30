package release

import (
	"testing"
	"time"
)

func TestResumeChargesDowntimeButNeverMoreThanHalf(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		phase      Phase
		left, gone time.Duration
		want       time.Duration
	}{
		"a short outage is charged":              {Settling, 30 * time.Second, 5 * time.Second, 25 * time.Second},
		"a long one takes half":                  {Settling, 30 * time.Second, time.Hour, 15 * time.Second},
		"a clock that went back charges nothing": {Settling, 30 * time.Second, -time.Hour, 30 * time.Second},
		"who waits for its turn is not charged":  {Pending, 30 * time.Second, time.Hour, 30 * time.Second},
		"what has ended is left alone":           {Succeeded, 0, time.Hour, 0},
	} {
		r := Resume(Release{Phase: c.phase, Work: Work{Left: c.left, At: at}}, at.Add(c.gone))
		if r.Work.Left != c.want {
			t.Errorf("%s: %s are left, want %s", name, r.Work.Left, c.want)
		}
		if saved := c.phase == Settling; r.resumed != saved {
			t.Errorf("%s: the next decision is saved: %v, want %v", name, r.resumed, saved)
		}
	}
}

func TestAProcessThatKeepsDyingUsesTheBudgetUp(t *testing.T) {
	s := newScript()
	s.begin()
	r := s.r
	r.Phase, r.Work = Settling, Work{Left: 2 * time.Minute, At: s.o.Now}
	for range 70 { // dies two seconds after each start
		r = Resume(roundTrip(r), s.o.Now)
		s.o.Now = s.o.Now.Add(2 * time.Second)
		d := Decide(r, s.o)
		if !d.Save {
			t.Fatal("the charge is not saved")
		}
		r = d.Next
		if r.Phase != Settling {
			return
		}
	}
	t.Errorf("after seventy deaths %s of two minutes are left", r.Work.Left)
}

func TestDowntimeIsChargedToStandingBackToo(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r := Release{Phase: Gating, Work: Work{Left: time.Hour, At: at}, Fenced: &Work{Left: time.Minute, At: at}}
	if got := *Resume(r, at.Add(time.Hour)).Fenced; got != (Work{Left: 30 * time.Second, At: at.Add(time.Hour)}) {
		t.Errorf("got %+v", got)
	}
	if r.Fenced.Left != time.Minute {
		t.Error("the record that was loaded has changed")
	}
}
